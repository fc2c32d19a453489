// What every kind of op does: each is put into its stream with the addresses of its operands, and nothing of
// it is decided here.

#include <algorithm>
#include <cstring>

#include "optim/clipping.h"
#include "runtime/batch_arrays.h"
#include "runtime/executor_running.h"
#include "runtime/host_ops.h"

namespace lazytrain {
// Puts one op into its stream.
struct Issue {
  Executor& self;
  const Program& program;
  const Op& op;
  Executor::Running& running;
  Stream& stream;

  [[nodiscard]] std::byte* at(OperandRole role) const {
    const BufferId buffer = op.buffer(role);
    return buffer < 0 ? nullptr : self.address(program, buffer);
  }
  [[nodiscard]] float* floats(OperandRole role) const { return reinterpret_cast<float*>(at(role)); }
  [[nodiscard]] Bytes size(OperandRole role) const { return program.at(op.buffer(role)).size; }
  [[nodiscard]] std::int64_t first_row() const {
    return op.micro_batch * program.batch.micro_batch * program.batch.slot_tokens;
  }
  [[nodiscard]] std::int64_t rows() const { return program.batch.rows_of(op.micro_batch); }
  [[nodiscard]] const std::int32_t* array(BatchArray which) const {
    return batch_array(at(OperandRole::batch), which, running.batch_rows) + first_row();
  }
  [[nodiscard]] DataType type() const { return self.options_.type; }

  [[nodiscard]] LayerCall layer_call() const {
    const Architecture& a = self.context_.architecture;
    const auto* cosine = reinterpret_cast<const float*>(at(OperandRole::constants));
    return {.device = self.device_,
            .stream = stream,
            .rows = rows(),
            .slot_rows = program.batch.slot_tokens,
            .weights = at(OperandRole::weights),
            .x = at(OperandRole::input),
            .positions = array(BatchArray::positions),
            .document_start = array(BatchArray::document_start),
            .cosine = cosine,
            .sine = cosine + self.context_.position_rows * a.head_dim / 2,
            .workspace = at(OperandRole::workspace),
            .workspace_bytes = size(OperandRole::workspace),
            .window = a.window_of(a.kind_of(op.layer))};
  }

  [[nodiscard]] HeadCall head_call() const {
    const Architecture& a = self.context_.architecture;
    const std::size_t head = self.context_.groups.size() - 1;
    const ParameterGroup& group = self.context_.groups[head];
    const std::byte* weights = at(OperandRole::weights);
    const bool whole = op.slice < 0;
    const std::byte* projection = !whole        ? at(OperandRole::projection)
                                  : a.tied_head ? at(OperandRole::embedding)
                                                : weights + group.tensors[1].offset * size_of(type());
    const auto first_slot = static_cast<std::size_t>(op.micro_batch * program.batch.micro_batch);
    std::span<const std::int32_t> counts;
    if (!running.counts.empty())
      counts = std::span(running.counts)
                   .subspan(first_slot, static_cast<std::size_t>(program.batch.slots_of(op.micro_batch)));
    return {
        .device = self.device_,
        .stream = stream,
        .slots = program.batch.slots_of(op.micro_batch),
        .slot_tokens = program.batch.slot_tokens,
        .norm_weight = weights + group.tensors[0].offset * size_of(type()),
        .slice = whole ? whole_vocabulary(a.vocab) : vocabulary_slice(a.vocab, op.slice, program.head_slices),
        .projection = projection,
        .x = at(OperandRole::input),
        .rows = array(BatchArray::head_rows),
        .targets = array(BatchArray::head_targets),
        .counts = counts,
        .loss = floats(OperandRole::loss),
        .scores = floats(OperandRole::scores),
        .workspace = at(OperandRole::workspace),
        .workspace_bytes = size(OperandRole::workspace)};
  }

  void issue() const {
    switch (op.kind) {
      case OpKind::load_batch:
      case OpKind::load_weights:
      case OpKind::load_head:
      case OpKind::load_clip:
      case OpKind::offload_norm:
      case OpKind::offload_boundary:
      case OpKind::fetch_boundary:
      case OpKind::offload_boundary_gradient:
      case OpKind::fetch_boundary_gradient:
      case OpKind::offload_stash:
      case OpKind::fetch_stash:
      case OpKind::offload_loss:
        self.device_.copy(stream, at(OperandRole::output), at(OperandRole::input) + op.from.value, op.bytes);
        if (op.kind == OpKind::offload_boundary || op.kind == OpKind::offload_stash)
          zero_padding(OperandRole::output, op.bytes);
        return;
      case OpKind::forward:
        forward();
        return;
      case OpKind::decode_layer:
        decode_layer();
        return;
      case OpKind::recompute:
        self.layer_.recompute(layer_call(), op.stash, at(OperandRole::stash), at(OperandRole::recomputed),
                              op.full);
        return;
      case OpKind::backward:
        backward();
        return;
      case OpKind::head_forward:
        self.head_.forward(head_call());
        return;
      case OpKind::head_forward_backward:
        head_forward_backward();
        return;
      case OpKind::head_backward:
        head_backward();
        return;
      case OpKind::head_argmax:
        self.head_.argmax(head_call(), running.head_count,
                          reinterpret_cast<std::int32_t*>(at(OperandRole::loss)));
        return;
      case OpKind::offload_gradient:
        offload(op.elements);
        return;
      case OpKind::offload_head_gradient:
        offload_head();
        return;
      case OpKind::read_states:
      case OpKind::read_gradient:
      case OpKind::write_states:
      case OpKind::read_weights:
      case OpKind::write_weights:
      case OpKind::write_gradient:
      case OpKind::write_boundary:
      case OpKind::read_boundary:
      case OpKind::write_stash:
      case OpKind::read_stash:
        disk();
        return;
      case OpKind::zero_embedding_gradient:
      case OpKind::gather_embedding:
      case OpKind::collect:
      case OpKind::scatter_embedding_gradient:
      case OpKind::finish_embedding_gradient:
      case OpKind::sum_head_gradient:
      case OpKind::reduce_norm:
        host();
        return;
      case OpKind::update_group:
        update();
        return;
    }
  }

  void forward() const {
    CachePrefill prefill;
    if (op.buffer(OperandRole::cache) >= 0)
      prefill = {.cache = at(OperandRole::cache),
                 .capacity = running.capacity,
                 .sequence = array(kCacheSequence),
                 .entry = array(kCacheEntry)};
    self.layer_.forward(layer_call(), op.stash, at(OperandRole::stash), at(OperandRole::output), prefill);
    const Architecture& architecture = self.context_.architecture;
    zero_padding(OperandRole::output, Bytes{rows() * architecture.hidden * size_of(type())});
    if (op.buffer(OperandRole::stash) >= 0)
      zero_padding(OperandRole::stash, stash_bytes(architecture, architecture.kind_of(op.layer), op.stash,
                                                   rows(), size_of(type())));
  }

  // What goes to disk goes in whole blocks; what lies behind the `used` bytes is defined, too.
  void zero_padding(OperandRole role, Bytes used) const {
    if (size(role) > used) self.device_.zero(stream, at(role) + used.value, size(role) - used);
  }

  void decode_layer() const {
    self.layer_.decode(layer_call(), at(OperandRole::output),
                       {.cache = at(OperandRole::cache),
                        .capacity = running.capacity,
                        .length = array(BatchArray::positions),
                        .active = reinterpret_cast<const std::uint8_t*>(array(kActive))});
  }

  void backward() const {
    const StashView items = stash_view(self.context_.architecture, type(), rows(), op.stash,
                                       at(OperandRole::stash), at(OperandRole::recomputed));
    self.layer_.backward(layer_call(), items, at(OperandRole::gradient), floats(OperandRole::accumulator),
                         op.first);
  }

  void head_forward_backward() const {
    const ParameterGroup& group = self.context_.groups.back();
    float* accumulator = floats(OperandRole::accumulator);
    const bool tied = self.context_.architecture.tied_head;
    float* projection =
        tied ? floats(OperandRole::projection_accumulator) : accumulator + group.tensors[1].offset;
    const std::int64_t supervised = running.outcome.supervised;
    if (op.first) {
      const std::int64_t elements = self.context_.architecture.vocab * self.context_.architecture.hidden;
      const auto zero = [&](float* from, float* to) {
        if (to > from) self.device_.zero(stream, from, {(to - from) * 4});
      };
      // The projection's gradient is replaced by its first product, where there is one.
      float* end = accumulator + size(OperandRole::accumulator).value / 4;
      zero(accumulator, tied ? end : projection);
      zero(projection + elements,
           tied ? projection + size(OperandRole::projection_accumulator).value / 4 : end);
      if (supervised == 0) zero(projection, projection + elements);
    }
    HeadGradients gradients = head_gradients(projection);
    gradients.logits = at(OperandRole::logits);
    self.head_.forward_backward(head_call(), gradients);
  }

  void head_backward() const {
    float* projection = floats(OperandRole::projection_accumulator);
    if (op.first) {
      if (op.buffer(OperandRole::accumulator) >= 0)
        self.device_.zero(stream, at(OperandRole::accumulator), size(OperandRole::accumulator));
      if (running.outcome.supervised == 0)
        self.device_.zero(stream, at(OperandRole::projection_accumulator),
                          size(OperandRole::projection_accumulator));
    }
    self.head_.backward(head_call(), head_gradients(projection));
  }

  [[nodiscard]] HeadGradients head_gradients(float* projection) const {
    const std::int64_t supervised = running.outcome.supervised;
    const auto first_slot = static_cast<std::ptrdiff_t>(op.micro_batch * program.batch.micro_batch);
    const bool fresh = std::all_of(running.counts.begin(), running.counts.begin() + first_slot,
                                   [](std::int32_t count) { return count == 0; });
    float* accumulator = floats(OperandRole::accumulator);
    return {.scale = supervised > 0 ? static_cast<float>(1.0 / static_cast<double>(supervised)) : 0.0F,
            .gradient = at(OperandRole::gradient),
            .norm_weight = accumulator == nullptr
                               ? nullptr
                               : accumulator + self.context_.groups.back().tensors[0].offset,
            .projection = projection,
            .fresh = fresh,
            .normed = floats(OperandRole::normed_gradient)};
  }

  void offload(std::int64_t elements) const {
    self.device_.run(stream, OffloadGradient{.type = type(),
                                             .elements = elements,
                                             .src = floats(OperandRole::accumulator),
                                             .dst = at(OperandRole::group_gradient),
                                             .partial = reinterpret_cast<double*>(at(OperandRole::norm))});
  }

  void offload_head() const {
    const Architecture& a = self.context_.architecture;
    if (op.slice < 0) offload(a.tied_head ? self.context_.groups.back().elements : op.elements);
    if (op.buffer(OperandRole::projection_accumulator) < 0) return;
    const VocabularySlice slice =
        op.slice < 0 ? whole_vocabulary(a.vocab) : vocabulary_slice(a.vocab, op.slice, program.head_slices);
    const ParameterGroup& group = a.tied_head ? self.context_.groups.front() : self.context_.groups.back();
    const float* projection = floats(OperandRole::projection_accumulator);
    const std::int64_t elements = op.slice < 0 ? group.elements : op.elements;
    const std::int64_t first =
        op.slice < 0 ? 0 : group.tensors[a.tied_head ? 0 : 1].offset + slice.first * a.hidden;
    std::byte* gradient = at(a.tied_head ? OperandRole::output : OperandRole::group_gradient);
    // Its norm is summed when all of it is there, of a tied one when the input gradients are in it.
    self.device_.run(stream, OffloadGradient{.type = type(),
                                             .elements = elements,
                                             .src = projection,
                                             .dst = gradient + first * size_of(type()),
                                             .partial = nullptr});
    // What lies behind the last row is 0.
    const Bytes behind{(group.elements - first - elements) * size_of(type())};
    if (slice.end_block == vocabulary_blocks(a.vocab) && behind.value > 0)
      self.device_.zero(stream, gradient + (first + elements) * size_of(type()), behind);
    if (a.tied_head) offload_token_rows(slice, projection);
  }

  // The rows of the step's tokens that lie in the slice. Tokens are in ascending order.
  void offload_token_rows(const VocabularySlice& slice, const float* projection) const {
    const std::span<const std::int32_t> tokens = running.distinct;
    const auto position = [&](std::int64_t token) {
      return std::lower_bound(tokens.begin(), tokens.end(), token) - tokens.begin();
    };
    const std::ptrdiff_t begin = position(slice.first), end = position(slice.first + slice.tokens);
    const std::int64_t width = self.context_.architecture.hidden;
    std::byte* rows = at(OperandRole::gradient_rows);
    self.device_.run(
        stream,
        GatherRows{.type = DataType::f32,
                   .count = end - begin,
                   .width = width,
                   .x = projection,
                   .index = batch_array(at(OperandRole::batch), kDistinctTokens, running.batch_rows) + begin,
                   .out = rows + begin * width * 4,
                   .first = slice.first});
    // There is room for as many tokens as a step can hold: the first op to write there writes all of it.
    if (slice.end_block < vocabulary_blocks(self.context_.architecture.vocab)) return;
    const Bytes filled{std::ssize(tokens) * width * 4};
    self.device_.zero(stream, rows + filled.value, size(OperandRole::gradient_rows) - filled);
  }

  void host() const {
    // Everything the closure needs is copied: the op's addresses, never the op itself.
    Executor* executor = &self;
    Executor::Running* run = &running;
    ThreadPool* pool = &self.device_.host_pool();
    const DataType storage = type();
    const std::int64_t width = self.context_.architecture.hidden;
    switch (op.kind) {
      case OpKind::zero_embedding_gradient: {
        std::byte* gradient = at(OperandRole::group_gradient);
        std::byte* sums = at(OperandRole::gradient_rows);
        const auto bytes = static_cast<std::size_t>(size(OperandRole::group_gradient).value);
        const auto row_bytes = static_cast<std::size_t>(size(OperandRole::gradient_rows).value);
        self.device_.call(stream, [=] {
          std::memset(gradient, 0, bytes);
          std::memset(sums, 0, row_bytes);
        });
        return;
      }
      case OpKind::gather_embedding: {
        const std::byte* embedding = at(OperandRole::embedding);
        std::byte* out = at(OperandRole::output);
        const auto tokens = running.row_tokens.subspan(static_cast<std::size_t>(first_row()),
                                                       static_cast<std::size_t>(rows()));
        self.device_.call(stream, [=] { gather_embedding(*pool, storage, width, embedding, tokens, out); });
        return;
      }
      case OpKind::scatter_embedding_gradient: {
        const std::byte* gradient = at(OperandRole::input);
        float* sums = floats(OperandRole::gradient_rows);
        const std::span token_rows(array(BatchArray::token_rows), static_cast<std::size_t>(rows()));
        self.device_.call(
            stream, [=] { scatter_embedding_gradient(*pool, storage, width, gradient, token_rows, sums); });
        return;
      }
      case OpKind::finish_embedding_gradient: {
        const EmbeddingGradient finish{.type = storage,
                                       .width = width,
                                       .elements = op.elements,
                                       .tokens = running.distinct,
                                       .sums = floats(OperandRole::gradient_rows),
                                       .gradient = at(OperandRole::group_gradient),
                                       .partial = reinterpret_cast<double*>(at(OperandRole::norm))};
        self.device_.call(stream, [=] { finish_embedding_gradient(*pool, finish); });
        return;
      }
      case OpKind::sum_head_gradient: {
        const std::byte* gradient = at(OperandRole::group_gradient);
        auto* partial = reinterpret_cast<double*>(at(OperandRole::norm));
        const std::int64_t elements = op.elements;
        self.device_.call(stream, [=] { sum_squares(*pool, storage, elements, gradient, partial); });
        return;
      }
      case OpKind::collect:
        collect();
        return;
      case OpKind::reduce_norm: {
        const Program* whole = &program;
        const Op* self_op = &op;
        self.device_.call(stream, [=] { executor->reduce_norm(*whole, *self_op, *run); });
        return;
      }
      default:
        return;
    }
  }

  void update() const {
    Executor* executor = &self;
    Executor::Running* run = &running;
    const auto index = static_cast<std::size_t>(op.layer);
    const AdamWStateGroup group{
        .layout = op.piece < 0 ? &self.state_layouts_[index]
                               : &self.piece_layouts_[index][static_cast<std::size_t>(op.piece)],
        .gradient_type = type(),
        .gradient = at(OperandRole::group_gradient),
        .gradient_first = op.gradient_first,
        .weight = at(OperandRole::weights),
        .state = at(OperandRole::states)};
    // A resident layer's runs on the threads of the emulated device, at their own pace.
    const bool on_device = op.stream == StreamId::compute;
    const double rate = on_device ? 0 : self.options_.optimizer_rate;
    const Executor::Update update{
        .group = group,
        .clip_factor = reinterpret_cast<const double*>(at(OperandRole::clip)),
        .pool = on_device ? &self.device_.compute_pool() : &self.device_.host_pool(),
        .pace = rate > 0 ? static_cast<double>(op.elements) / rate : 0};
    self.device_.call(stream, [=] { executor->update_group(update, *run); });
  }

  void disk() const {
    Executor* executor = &self;
    Executor::Running* run = &running;
    const auto bytes = static_cast<std::size_t>(op.bytes.value);
    const BufferId input = op.buffer(OperandRole::input), output = op.buffer(OperandRole::output);
    if (op.stream == StreamId::disk_read) {
      const Bytes offset = program.at(input).offset + op.from;
      const std::span out{at(OperandRole::output), bytes};
      // Where nothing is updated, nobody wants the optimizer's part.
      const bool of_update = op.kind == OpKind::read_states || op.kind == OpKind::read_gradient;
      if (of_update && (!running.update.has_value() || self.options_.skip_updates)) return;
      self.device_.call(stream, [=] { executor->read_disk(offset, out); });
      return;
    }
    const Bytes offset = program.at(output).offset;
    const std::span<const std::byte> from{at(OperandRole::input), bytes};
    const bool update = op.kind == OpKind::write_states || op.kind == OpKind::write_weights;
    self.device_.call(stream, [=] { executor->write_disk(offset, from, *run, update); });
  }

  void collect() const {
    Executor::Running* run = &running;
    const std::byte* source = at(OperandRole::input);
    if (program.kind == ProgramKind::prefill || program.kind == ProgramKind::decode) {
      const std::int64_t count = running.sequences;
      self.device_.call(stream, [=] {
        const auto* tokens = reinterpret_cast<const std::int32_t*>(source);
        run->outcome.next_tokens.assign(tokens, tokens + count);
      });
      return;
    }
    const std::int64_t slots = program.batch.slots_of(op.micro_batch),
                       slot_tokens = program.batch.slot_tokens;
    const std::int64_t first_slot = op.micro_batch * program.batch.micro_batch;
    self.device_.call(stream, [=] {
      const auto* losses = reinterpret_cast<const float*>(source);
      for (std::int64_t slot = 0; slot < slots; ++slot) {
        const std::int32_t count = run->counts[static_cast<std::size_t>(first_slot + slot)];
        for (std::int32_t i = 0; i < count; ++i) {
          run->outcome.loss_sum += losses[slot * slot_tokens + i];
          if (run->token_losses) run->outcome.token_losses.push_back(losses[slot * slot_tokens + i]);
        }
      }
    });
  }
};

void Executor::issue(const Program& program, const Op& op, Running& running, Stream& stream) {
  Issue{*this, program, op, running, stream}.issue();
}

}  // namespace lazytrain
