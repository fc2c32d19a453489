#include "runtime/executor.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "model/rope.h"
#include "optim/clipping.h"
#include "runtime/batch_arrays.h"
#include "runtime/host_ops.h"
#include "runtime/poison.h"

namespace lazytrain {
static_assert(kNormRun == kNormChunk, "Programs have room for the partial sums that the device writes");
namespace {

using Clock = std::chrono::steady_clock;

StreamKind kind_of(StreamId stream) {
  switch (stream) {
    case StreamId::compute:
      return StreamKind::compute;
    case StreamId::h2d:
      return StreamKind::h2d;
    case StreamId::d2h:
      return StreamKind::d2h;
    case StreamId::host:
      return StreamKind::host;
    case StreamId::disk_read:
      return StreamKind::disk_read;
    case StreamId::disk_write:
      return StreamKind::disk_write;
  }
  return StreamKind::host;
}

constexpr std::byte kPattern{0xA5};

}  // namespace

// What is worked out once per Program.
struct Executor::Prepared {
  const Program* program = nullptr;
  std::vector<std::int32_t> event;  // of an op, index into events_; -1 where no other stream waits for it
};

struct Executor::Running {
  const StepTokens* tokens = nullptr;
  std::vector<std::int32_t> counts;          // supervised rows by slot
  std::span<const std::int32_t> row_tokens;  // tokens whose embedding rows are gathered
  std::int64_t batch_rows = 0;
  std::int64_t distinct_tokens = 0;          // whose embedding rows a training step's inputs change
  std::int64_t sequences = 0, capacity = 0;  // generation
  std::int64_t head_count = 0;
  std::optional<AdamWStep> update;  // what update_group ops do; none = they do nothing
  bool token_losses = false, timings = false;
  StepOutcome outcome;
};

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
            .workspace_bytes = size(OperandRole::workspace)};
  }

  [[nodiscard]] HeadCall head_call() const {
    const Architecture& a = self.context_.architecture;
    const std::size_t head = self.context_.groups.size() - 1;
    const ParameterGroup& group = self.context_.groups[head];
    const std::byte* weights = at(OperandRole::weights);
    const std::byte* projection =
        a.tied_head ? at(OperandRole::embedding) : weights + group.tensors[1].offset * size_of(type());
    const auto first_slot = static_cast<std::size_t>(op.micro_batch * program.batch.micro_batch);
    std::span<const std::int32_t> counts;
    if (!running.counts.empty())
      counts = std::span(running.counts)
                   .subspan(first_slot, static_cast<std::size_t>(program.batch.slots_of(op.micro_batch)));
    return {.device = self.device_,
            .stream = stream,
            .slots = program.batch.slots_of(op.micro_batch),
            .slot_tokens = program.batch.slot_tokens,
            .norm_weight = weights + group.tensors[0].offset * size_of(type()),
            .projection = projection,
            .x = at(OperandRole::input),
            .rows = array(BatchArray::head_rows),
            .targets = array(BatchArray::head_targets),
            .counts = counts,
            .loss = floats(OperandRole::loss),
            .workspace = at(OperandRole::workspace),
            .workspace_bytes = size(OperandRole::workspace)};
  }

  void issue() const {
    switch (op.kind) {
      case OpKind::load_batch:
      case OpKind::load_weights:
      case OpKind::load_head:
      case OpKind::offload_boundary:
      case OpKind::fetch_boundary:
      case OpKind::offload_boundary_gradient:
      case OpKind::fetch_boundary_gradient:
      case OpKind::offload_stash:
      case OpKind::fetch_stash:
      case OpKind::offload_loss:
        self.device_.copy(stream, at(OperandRole::output), at(OperandRole::input), op.bytes);
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
        disk();
        return;
      case OpKind::zero_embedding_gradient:
      case OpKind::gather_embedding:
      case OpKind::collect:
      case OpKind::scatter_embedding_gradient:
      case OpKind::finish_embedding_gradient:
      case OpKind::reduce_norm:
      case OpKind::update_group:
        host();
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
      if (!tied) zero(projection + elements, end);
      if (supervised == 0) zero(projection, projection + elements);
    }
    const auto first_slot = static_cast<std::ptrdiff_t>(op.micro_batch * program.batch.micro_batch);
    const bool fresh = std::all_of(running.counts.begin(), running.counts.begin() + first_slot,
                                   [](std::int32_t count) { return count == 0; });
    self.head_.forward_backward(
        head_call(),
        {.scale = supervised > 0 ? static_cast<float>(1.0 / static_cast<double>(supervised)) : 0.0F,
         .gradient = at(OperandRole::gradient),
         .norm_weight = accumulator + group.tensors[0].offset,
         .projection = projection,
         .fresh = fresh,
         .logits = at(OperandRole::logits)});
  }

  void offload(std::int64_t elements) const {
    self.device_.run(stream, OffloadGradient{.type = type(),
                                             .elements = elements,
                                             .src = floats(OperandRole::accumulator),
                                             .dst = at(OperandRole::group_gradient),
                                             .partial = reinterpret_cast<double*>(at(OperandRole::norm))});
  }

  void offload_head() const {
    offload(self.context_.groups.back().elements);
    if (op.buffer(OperandRole::projection_accumulator) < 0) return;
    const float* projection = floats(OperandRole::projection_accumulator);
    // Its norm is summed when the input gradients are in it.
    self.device_.run(stream, OffloadGradient{.type = type(),
                                             .elements = self.context_.groups.front().elements,
                                             .src = projection,
                                             .dst = at(OperandRole::output),
                                             .partial = nullptr});
    const std::span<const std::int32_t> tokens = distinct_tokens();
    const std::int64_t width = self.context_.architecture.hidden;
    std::byte* rows = at(OperandRole::gradient_rows);
    self.device_.run(stream, GatherRows{.type = DataType::f32,
                                        .count = std::ssize(tokens),
                                        .width = width,
                                        .x = projection,
                                        .index = tokens.data(),
                                        .out = rows});
    // There is room for as many tokens as a step can hold: the op writes all of it.
    const Bytes filled{std::ssize(tokens) * width * 4};
    self.device_.zero(stream, rows + filled.value, size(OperandRole::gradient_rows) - filled);
  }

  [[nodiscard]] std::span<const std::int32_t> distinct_tokens() const {
    return {batch_array(at(OperandRole::batch), kDistinctTokens, running.batch_rows),
            static_cast<std::size_t>(running.distinct_tokens)};
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
                                       .tokens = distinct_tokens(),
                                       .sums = floats(OperandRole::gradient_rows),
                                       .gradient = at(OperandRole::group_gradient),
                                       .partial = reinterpret_cast<double*>(at(OperandRole::norm))};
        self.device_.call(stream, [=] { finish_embedding_gradient(*pool, finish); });
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
      case OpKind::update_group:
        update();
        return;
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
    const std::int64_t elements = op.elements;
    self.device_.call(stream, [=] { executor->update_group(group, elements, *run); });
  }

  void disk() const {
    Executor* executor = &self;
    Executor::Running* run = &running;
    const auto bytes = static_cast<std::size_t>(op.bytes.value);
    const BufferId input = op.buffer(OperandRole::input), output = op.buffer(OperandRole::output);
    if (op.stream == StreamId::disk_read) {
      const Bytes offset = program.at(input).offset + op.from;
      const std::span out{at(OperandRole::output), bytes};
      // Where nothing is updated, only the layers' weights are wanted.
      if (op.kind != OpKind::read_weights && !running.update.has_value()) return;
      self.device_.call(stream, [=] { executor->read_disk(offset, out); });
      return;
    }
    const Bytes offset = program.at(output).offset;
    const std::span<const std::byte> from{at(OperandRole::input), bytes};
    const bool update = op.kind != OpKind::write_gradient;
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

Executor::Executor(CpuDevice& device, const LoweringContext& context, const ExecutorOptions& options,
                   std::vector<GroupStateLayout> states)
    : device_(device),
      context_(context),
      options_(options),
      layer_(context.architecture, options.type),
      head_(context.architecture, options.type),
      state_layouts_(std::move(states)) {
  for (const GroupStateLayout& layout : state_layouts_) {
    piece_layouts_.emplace_back();
    for (const StatePiece& piece : layout.pieces)
      piece_layouts_.back().push_back(lazytrain::piece_layout(layout, piece));
  }
  for (std::size_t s = 0; s < kStreamCount; ++s)
    streams_.push_back(device.create_stream(kind_of(static_cast<StreamId>(s))));
}

Executor::~Executor() {
  for (const auto& stream : streams_) {
    try {
      device_.synchronize(*stream);
    } catch (...) {  // reported where the run that caused it was waited for
    }
  }
}

void Executor::allocate(Bytes device, Bytes host, Bytes disk) {
  // First: a disk that is too small is known before memory is taken.
  if (disk.value > 0) disk_ = std::make_unique<ScratchFile>(options_.scratch_folder, disk);
  device_arena_ = device_.allocate(Tier::device, device);
  if (context_.tiers == TierModel::tiered) host_arena_ = device_.allocate(Tier::host, host);
  // A pattern shows afterwards how far up a run has written; the pages have to become real now in any case.
  for (const Arena& arena : {device_arena_, host_arena_})
    if (arena.data != nullptr)
      std::memset(arena.data, static_cast<int>(kPattern), static_cast<std::size_t>(arena.size.value));
  // The update Program names every state buffer and nothing else: its offsets are everybody's.
  const Program states = lower_update_only(context_);
  const auto view = [&](const std::string& name) -> std::span<std::byte> {
    for (BufferId id = 0; id < static_cast<BufferId>(states.buffers.size()); ++id)
      if (states.at(id).name == name)
        return {address(states, id), static_cast<std::size_t>(states.at(id).size.value)};
    return {};
  };
  for (std::size_t g = 0; g < context_.groups.size(); ++g) {
    groups_.push_back({.weights = view(fmt::format("host.w[{}]", g)),
                       .states = view(fmt::format("host.states[{}]", g)),
                       .gradient = view(fmt::format("host.grad[{}]", g))});
    for (const std::span<std::byte> bytes :
         {groups_.back().weights, groups_.back().states, groups_.back().gradient})
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  open_states(states);
  open_weights(states);
}

// A state on disk is zero until it is written: the scratch file is a hole.
void Executor::open_states(const Program& states) {
  std::vector<std::vector<StateWindow::Home>> homes(state_layouts_.size());
  std::span<std::byte> stage;
  for (const Op& op : states.ops) {
    if (op.kind != OpKind::update_group) continue;
    const auto g = static_cast<std::size_t>(op.layer);
    if (op.piece >= 0) {
      const BufferId buffer = op.buffer(OperandRole::states);
      stage = {address(states, buffer), static_cast<std::size_t>(states.at(buffer).size.value)};
      continue;
    }
    for (const StatePiece& piece : state_layouts_[g].pieces)
      homes[g].push_back({.memory = groups_[g].states.subspan(static_cast<std::size_t>(piece.offset.value),
                                                              static_cast<std::size_t>(piece.bytes.value)),
                          .offset = {},
                          .bytes = piece.bytes});
  }
  for (const Op& op : states.ops)
    if (op.kind == OpKind::read_states)
      homes[static_cast<std::size_t>(op.layer)].push_back(
          {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes});
  states_ = StateWindow(std::move(homes), disk_.get(), stage);
}

void Executor::open_weights(const Program& states) {
  std::vector<std::vector<StateWindow::Home>> homes;
  for (const GroupMemory& group : groups_)
    homes.push_back({{.memory = group.weights, .offset = {}, .bytes = Bytes{std::ssize(group.weights)}}});
  std::span<std::byte> slot;
  for (const Op& op : states.ops) {
    if (op.kind != OpKind::read_weights) continue;
    const BufferId buffer = op.buffer(OperandRole::output);
    slot = {address(states, buffer), static_cast<std::size_t>(states.at(buffer).size.value)};
    homes[static_cast<std::size_t>(op.layer)] = {
        {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes}};
  }
  weights_ = StateWindow(std::move(homes), disk_.get(), slot);
}

GroupMemory Executor::group(std::size_t index) const {
  return groups_.at(index);
}

std::byte* Executor::address(const Program& program, BufferId buffer) const {
  const Buffer& entry = program.at(buffer);
  const Arena& arena = entry.tier == Tier::device ? device_arena_ : host_arena_;
  check(entry.offset.value >= 0 && entry.offset + entry.size <= arena.size, "a buffer lies inside its arena");
  return arena.data + entry.offset.value;
}

const Executor::Prepared& Executor::prepare(const Program& program) {
  if (prepared_ != nullptr && prepared_->program == &program && prepared_->event.size() == program.ops.size())
    return *prepared_;
  prepared_ = std::make_unique<Prepared>();
  prepared_->program = &program;
  prepared_->event.assign(program.ops.size(), -1);
  std::int32_t events = 0;
  for (const Op& op : program.ops)
    for (const OpIndex other : op.after) {
      std::int32_t& event = prepared_->event[static_cast<std::size_t>(other)];
      if (event < 0) event = events++;
    }
  while (static_cast<std::int32_t>(events_.size()) < events) events_.push_back(device_.create_event());
  // A step may be the first to meet a number of supervised rows: their products are compiled now.
  const auto has = [&](OpKind kind) {
    return std::any_of(program.ops.begin(), program.ops.end(),
                       [kind](const Op& op) { return op.kind == kind; });
  };
  if (const bool backward = has(OpKind::head_forward_backward); backward || has(OpKind::head_forward))
    head_.prepare(device_, program.batch.slot_tokens, backward);
  // The rotary tables are constants of the run; a Program may have been laid out anew.
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    if (program.at(id).name != "dev.rope") continue;
    auto* cosine = reinterpret_cast<float*>(address(program, id));
    const auto half = static_cast<std::size_t>(context_.position_rows * context_.architecture.head_dim / 2);
    fill_rope_tables(context_.architecture.rope, context_.architecture.head_dim, context_.position_rows,
                     {cosine, half}, {cosine + half, half});
  }
  return *prepared_;
}

StepOutcome Executor::run(const Program& program, Running& running) {
  const Prepared& prepared = prepare(program);
  for (StateWindow* window : {&states_, &weights_}) window->release();  // their buffers are the step's now
  const auto begin = Clock::now();
  if (running.timings) running.outcome.timings.assign(program.ops.size(), {});
  const auto since = [begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  // Work in the streams refers to `running`: whatever fails, all of it has ended before this returns.
  std::exception_ptr failure;
  try {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      Stream& stream = *streams_[static_cast<std::size_t>(op.stream)];
      for (const OpIndex other : op.after)
        device_.wait(stream,
                     *events_[static_cast<std::size_t>(prepared.event[static_cast<std::size_t>(other)])]);
      OpTiming* timing = running.timings ? &running.outcome.timings[i] : nullptr;
      if (timing != nullptr) device_.call(stream, [=] { timing->start = since(); });
      if (options_.debug_memory) poison_all_but(program, op, device_arena_, host_arena_);
      Issue{*this, program, op, running, stream}.issue();
      if (timing != nullptr) device_.call(stream, [=] { timing->end = since(); });
      if (prepared.event[i] >= 0)
        device_.record(stream, *events_[static_cast<std::size_t>(prepared.event[i])]);
      if (options_.debug_memory) {
        device_.synchronize(stream);
        unpoison(device_arena_, host_arena_);
      }
    }
  } catch (...) {
    failure = std::current_exception();
  }
  for (const auto& stream : streams_) {
    try {
      device_.synchronize(*stream);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  running.outcome.seconds = since();
  return std::move(running.outcome);
}

void Executor::reduce_norm(const Program& program, const Op& op, Running& running) {
  // Layers first, then the head, the embedding last: the order in which gradients are complete.
  double squares = 0;
  std::vector<BufferId> norms;
  for (const Operand& operand : op.operands)
    if (operand.role == OperandRole::norm) norms.push_back(operand.buffer);
  std::rotate(norms.begin(), norms.begin() + 1, norms.end());
  for (const BufferId norm : norms) {
    const auto* partial = reinterpret_cast<const double*>(address(program, norm));
    squares = sum_of_squares(
        {partial, static_cast<std::size_t>(program.at(norm).size.value) / sizeof(double)}, squares);
  }
  const double norm = lazytrain::gradient_norm(squares);
  running.outcome.gradient_norm = norm;
  step_finite_ = std::isfinite(norm);
  clip_factor_ = step_finite_ ? lazytrain::clip_factor(norm, options_.max_gradient_norm) : 0.0;
  running.outcome.finite = step_finite_;
  std::memcpy(address(program, op.buffer(OperandRole::clip)), &clip_factor_, sizeof(double));
}

void Executor::update_group(const AdamWStateGroup& group, std::int64_t elements, Running& running) {
  if (!running.update.has_value() || !step_finite_ || options_.skip_updates) return;
  const auto begin = Clock::now();
  AdamWStep step = *running.update;
  step.clip_factor = clip_factor_;
  adamw_update(device_.host_pool(), group, step);
  if (options_.optimizer_rate > 0)
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(static_cast<double>(elements) / options_.optimizer_rate)));
}

namespace {

// Does `transfer` and returns no earlier than a disk of `rate` GB/s would; `free` is when it had the last
// done.
template <typename Transfer>
void paced(Clock::time_point& free, double rate, std::size_t bytes, const Transfer& transfer) {
  if (rate <= 0) return transfer();
  free = std::max(free, Clock::now()) +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(static_cast<double>(bytes) / (rate * 1e9)));
  transfer();
  std::this_thread::sleep_until(free);
}

}  // namespace

void Executor::read_disk(Bytes offset, std::span<std::byte> out) {
  paced(disk_read_free_, options_.disk_read, out.size(), [&] { disk_->read(offset, out); });
}

void Executor::write_disk(Bytes offset, std::span<const std::byte> bytes, const Running& running,
                          bool update) {
  // What no update has changed is on the disk already.
  if (update && (!running.update.has_value() || !step_finite_)) return;
  paced(disk_write_free_, options_.disk_write, bytes.size(), [&] { disk_->write(offset, bytes); });
}

StepOutcome Executor::train(const Program& program, const StepTokens& tokens, const AdamWStep& update,
                            bool timings) {
  check(program.kind == ProgramKind::train_step, "train() runs a training step");
  check(tokens.slots == program.batch.slots && tokens.slot_tokens == program.batch.slot_tokens,
        "the tokens have the Program's shape");
  Running running;
  running.tokens = &tokens;
  running.row_tokens = tokens.tokens;
  running.batch_rows = tokens.slots * tokens.slot_tokens;
  running.timings = timings;
  running.counts = fill_batch(host_batch(program), tokens);
  running.distinct_tokens = fill_token_rows(host_batch(program), tokens, context_.architecture.padding_token);
  for (const std::int32_t count : running.counts) running.outcome.supervised += count;
  const bool overlapped = begins_with_updates(program);
  if (overlapped) {
    running.update = pending_;
    pending_.reset();
  } else {
    check(!pending_.has_value(), "updates are drained before a step without overlap");
    running.update = update;
  }
  StepOutcome outcome = run(program, running);
  if (overlapped && outcome.finite) pending_ = update;
  return outcome;
}

void Executor::drain(const Program& update_only) {
  if (!pending_.has_value()) return;
  Running running;
  running.update = pending_;
  pending_.reset();
  run(update_only, running);
}

StepOutcome Executor::evaluate(const Program& program, const StepTokens& tokens, bool token_losses) {
  check(program.kind == ProgramKind::evaluate, "evaluate() runs an evaluation");
  check(!pending_.has_value(), "updates are drained before an evaluation");
  Running running;
  running.tokens = &tokens;
  running.row_tokens = tokens.tokens;
  running.batch_rows = tokens.slots * tokens.slot_tokens;
  running.token_losses = token_losses;
  running.counts = fill_batch(host_batch(program), tokens);
  for (const std::int32_t count : running.counts) running.outcome.supervised += count;
  return run(program, running);
}

StepOutcome Executor::prefill(const Program& program, const GenerationGeometry& geometry,
                              const PrefillTokens& tokens) {
  Running running;
  running.row_tokens = tokens.tokens;
  running.batch_rows = std::max(geometry.prefill.slots * geometry.prefill.slot_tokens, geometry.sequences);
  running.sequences = running.head_count = geometry.sequences;
  running.capacity = geometry.capacity;
  fill_batch(host_batch(program), running.batch_rows, tokens);
  return run(program, running);
}

StepOutcome Executor::decode(const Program& program, const GenerationGeometry& geometry,
                             const DecodeTokens& tokens) {
  Running running;
  running.row_tokens = tokens.tokens;
  running.batch_rows = std::max(geometry.prefill.slots * geometry.prefill.slot_tokens, geometry.sequences);
  running.sequences = running.head_count = geometry.sequences;
  running.capacity = geometry.capacity;
  fill_batch(host_batch(program), running.batch_rows, tokens);
  return run(program, running);
}

std::byte* Executor::host_batch(const Program& program) const {
  const char* name = context_.tiers == TierModel::unified ? "dev.batch" : "host.batch";
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id)
    if (program.at(id).name == name) return address(program, id);
  throw std::logic_error("internal error: a Program without a batch buffer");
}

Bytes Executor::highest_byte_touched(Tier tier) const {
  const Arena& arena = tier == Tier::device ? device_arena_ : host_arena_;
  std::int64_t top = arena.size.value;
  while (top > 0 && arena.data[top - 1] == kPattern) --top;
  return {top};
}

}  // namespace lazytrain
