#include "runtime/profiler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/bfloat16.h"
#include "core/random.h"
#include "layers/decoder_layer.h"
#include "layers/head.h"
#include "model/rope.h"
#include "optim/adamw.h"
#include "runtime/batch_arrays.h"
#include "runtime/host_ops.h"
#include "runtime/profiler_buffers.h"

namespace lazytrain {
namespace {

using Clock = std::chrono::steady_clock;

void fill(DataType type, std::byte* data, std::int64_t elements, double scale, double shift = 0) {
  // A short cycle of random values is enough: times depend on sizes, not on values, as long as they are
  // ordinary numbers.
  std::array<float, 1021> cycle{};
  Random random(7, static_cast<std::uint64_t>(elements));
  for (float& value : cycle) value = static_cast<float>(shift + scale * (random.uniform() - 0.5));
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = cycle[static_cast<std::size_t>(i) % cycle.size()];
    if (type == DataType::bf16)
      reinterpret_cast<bfloat16*>(data)[i] = to_bfloat16(value);
    else
      reinterpret_cast<float*>(data)[i] = value;
  }
}

// The mean of the middle half. A step sums up hundreds of operations on a computer as busy as it is, so it is
// the mean that predicts it (the lower quartile was 7 to 10 % short where others share the processor); single
// stalls stay out.
Seconds typical(std::vector<Seconds> values) {
  std::sort(values.begin(), values.end());
  const std::ptrdiff_t quarter = std::ssize(values) / 4;
  const auto first = values.begin() + quarter, last = values.end() - quarter;
  return std::accumulate(first, last, 0.0) / static_cast<double>(last - first);
}

// One kind of operation: how it is put into its stream, and how long it took in each round.
struct Timed {
  Stream* stream;
  std::function<void()> issue;
  std::vector<Seconds> seconds;
};

class Profiler {
 public:
  Profiler(const Architecture& architecture, const ProfileOptions& options)
      : options_(options),
        sizes_(sizes_of(architecture, options)),
        layer_(sizes_.architecture, options.type),
        head_(sizes_.architecture, options.type) {
    ArenaPieces device_pieces(nullptr), host_pieces(nullptr);
    place(sizes_, options_, device_pieces, host_pieces);
    CpuDeviceOptions own = options.device;
    own.links = {};
    if (own.memory_model == MemoryModel::emulated) own.device_capacity = device_pieces.used();
    device_ = make_cpu_device(own);
    ArenaPieces on_device(device_->allocate(Tier::device, device_pieces.used()).data);
    ArenaPieces on_host(device_->allocate(unified() ? Tier::device : Tier::host, host_pieces.used()).data);
    b_ = place(sizes_, options_, on_device, on_host);
    compute_ = device_->create_stream(StreamKind::compute);
    host_ = device_->create_stream(StreamKind::host);
    h2d_ = device_->create_stream(StreamKind::h2d);
    d2h_ = device_->create_stream(StreamKind::d2h);
    fill_buffers();
    counts_.assign(static_cast<std::size_t>(options_.micro_batch),
                   static_cast<std::int32_t>(options_.slot_tokens));
  }

  CostTable measure() {
    const auto slots = static_cast<double>(options_.micro_batch);
    const double vocab_share =
        static_cast<double>(sizes_.architecture.vocab) / static_cast<double>(sizes_.head.tokens);
    std::vector<TimedLayer> layers;
    for (const LayerKind kind : {LayerKind::attention, LayerKind::sliding_attention})
      if (sizes_.architecture.layers_of(kind) > 0) layers.push_back(add_layer(kind));
    Timed& head = add(*compute_, [this] { this->head(true); });
    Timed& head_forward = add(*compute_, [this] { this->head(false); });
    Stream& leaves = unified() ? *compute_ : *d2h_;
    Timed& offload = add(leaves, [this, &leaves] { offload_gradient(leaves); });
    Timed& gather = add(*host_, [this] { gather_rows(); });
    Timed& scatter = add(*host_, [this] { scatter_rows(); });
    Timed& finish = add(*host_, [this] { finish_embedding(); });
    Timed& zero = add(*host_, [this] { zero_embedding(); });
    const auto add_update = [&](Stream& stream, ThreadPool& pool, MomentPrecision precision) -> Timed& {
      return add(stream, [this, &stream, &pool, precision] { this->update(stream, pool, precision); });
    };
    Timed& update = add_update(*host_, device_->host_pool(), MomentPrecision::fp32);
    Timed& update_eight_bit = add_update(*host_, device_->host_pool(), MomentPrecision::eight_bit);
    // Of resident layers. An emulated device's memory is the host's, so the same buffers will do.
    Timed* on_device = nullptr;
    Timed* on_device_eight_bit = nullptr;
    if (!unified()) {
      on_device = &add_update(*compute_, device_->compute_pool(), MomentPrecision::fp32);
      on_device_eight_bit = &add_update(*compute_, device_->compute_pool(), MomentPrecision::eight_bit);
    }
    Timed& up = add(*h2d_, [this] { device_->copy(*h2d_, b_.on_device, b_.on_host, kCopyBytes); });
    Timed& down = add(*d2h_, [this] { device_->copy(*d2h_, b_.on_host, b_.on_device, kCopyBytes); });
    run_rounds();

    CostTable costs;
    costs.source = "measured";
    costs.machine = processor_name() + "; " + device_->description();
    costs.slot_tokens = options_.slot_tokens;
    for (const TimedLayer& layer : layers) costs.of(layer.kind) = costs_of(layer);
    costs.head = of(head) / slots * vocab_share;
    costs.head_forward = of(head_forward) / slots * vocab_share;
    costs.gather_embedding = of(gather) / slots;
    costs.scatter_embedding = of(scatter) / slots;
    costs.finish_embedding = of(finish) * vocab_share;
    costs.zero_embedding = of(zero) * vocab_share;
    const auto per_parameter = [&](const Timed& timed) {
      return of(timed) / static_cast<double>(sizes_.update_elements);
    };
    costs.update_per_parameter = per_parameter(update);
    costs.update_eight_bit_per_parameter = per_parameter(update_eight_bit);
    costs.update_on_device_per_parameter = per_parameter(unified() ? update : *on_device);
    costs.update_on_device_eight_bit_per_parameter =
        per_parameter(unified() ? update_eight_bit : *on_device_eight_bit);
    costs.offload_gradient_per_element = of(offload) / static_cast<double>(offload_elements());
    costs.copy_h2d = kCopyBytes.gigabytes() / of(up);
    costs.copy_d2h = kCopyBytes.gigabytes() / of(down);
    costs.op_overhead = overhead();
    costs.handover = handover();
    return costs;
  }

 private:
  [[nodiscard]] bool unified() const { return options_.device.memory_model == MemoryModel::unified; }
  static Seconds of(const Timed& timed) { return typical(timed.seconds); }

  // The operations of a layer of one kind.
  struct TimedLayer {
    LayerKind kind;
    Timed *forward, *recompute_full, *backward;
    std::array<Timed*, kStashLevelCount> recompute;  // null for StashLevel::all
  };
  TimedLayer add_layer(LayerKind kind) {
    TimedLayer layer{
        .kind = kind, .forward = nullptr, .recompute_full = nullptr, .backward = nullptr, .recompute = {}};
    layer.forward = &add(*compute_, [this, kind] { this->forward(kind, StashLevel::none); });
    layer.recompute_full = &add(*compute_, [this, kind] { this->recompute(kind, StashLevel::none, true); });
    for (const StashLevel level : {StashLevel::attention, StashLevel::mlp, StashLevel::none})
      layer.recompute[static_cast<std::size_t>(level)] =
          &add(*compute_, [this, kind, level] { this->recompute(kind, level, false); });
    layer.backward = &add(*compute_, [this, kind] { this->backward(kind); });
    return layer;
  }
  [[nodiscard]] LayerCosts costs_of(const TimedLayer& layer) const {
    const auto slots = static_cast<double>(options_.micro_batch);
    LayerCosts costs;
    costs.forward = of(*layer.forward) / slots;
    for (const StashLevel level : kStashLevels)
      if (level != StashLevel::all)
        costs.recompute[static_cast<std::size_t>(level)] =
            of(*layer.recompute[static_cast<std::size_t>(level)]) / slots;
    const Seconds without = of(*layer.recompute[static_cast<std::size_t>(StashLevel::none)]);
    costs.down_projection = std::max(0.0, of(*layer.recompute_full) - without) / slots;
    costs.backward = of(*layer.backward) / slots;
    return costs;
  }

  Timed& add(Stream& stream, std::function<void()> issue) {
    timed_.push_back(std::make_unique<Timed>(Timed{&stream, std::move(issue), {}}));
    return *timed_.back();
  }

  Seconds time(Timed& timed) {
    Clock::time_point begin, end;
    device_->call(*timed.stream, [&] { begin = Clock::now(); });
    timed.issue();
    device_->call(*timed.stream, [&] { end = Clock::now(); });
    device_->synchronize(*timed.stream);
    return std::chrono::duration<double>(end - begin).count();
  }

  // The first round compiles products and touches pages; it is not counted.
  void run_rounds() {
    const double budget = options_.quick ? 3.0 : 12.0;  // seconds
    const std::size_t most = options_.quick ? 7 : 25;
    for (const auto& timed : timed_) time(*timed);
    const auto begin = Clock::now();
    for (std::size_t round = 0; round < most; ++round) {
      for (const auto& timed : timed_) timed->seconds.push_back(time(*timed));
      const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
      if (round >= 2 && spent * static_cast<double>(round + 2) / static_cast<double>(round + 1) > budget)
        break;
    }
  }

  [[nodiscard]] LayerCall layer_call(LayerKind kind) const {
    return {.device = *device_,
            .stream = *compute_,
            .rows = sizes_.rows,
            .slot_rows = options_.slot_tokens,
            .weights = b_.weights,
            .x = b_.x,
            .positions = b_.positions,
            .document_start = b_.document_start,
            .cosine = b_.cosine,
            .sine = b_.cosine + options_.slot_tokens * sizes_.architecture.head_dim / 2,
            .workspace = b_.workspace,
            .workspace_bytes = b_.workspace_size,
            .window = sizes_.architecture.window_of(kind)};
  }
  void forward(LayerKind kind, StashLevel level) { layer_.forward(layer_call(kind), level, b_.stash, b_.y); }
  // What a stash of `level` lacks goes to `rest`; items of the stash were left there by forward(all) at
  // first.
  void recompute(LayerKind kind, StashLevel level, bool full) {
    layer_.recompute(layer_call(kind), level, b_.stash, b_.rest, full);
  }
  void backward(LayerKind kind) {
    const StashView items =
        stash_view(sizes_.architecture, options_.type, sizes_.rows, StashLevel::none, b_.stash, b_.rest);
    layer_.backward(layer_call(kind), items, b_.gradient, b_.accumulator, true);
  }
  void head(bool with_backward) {
    const HeadCall call{.device = *device_,
                        .stream = *compute_,
                        .slots = options_.micro_batch,
                        .slot_tokens = options_.slot_tokens,
                        .norm_weight = b_.norm_weight,
                        .slice = sizes_.head,
                        .projection = b_.projection,
                        .x = b_.x,
                        .rows = b_.rows,
                        .targets = b_.targets,
                        .counts = counts_,
                        .loss = b_.loss,
                        .workspace = b_.workspace,
                        .workspace_bytes = b_.workspace_size};
    if (!with_backward) return head_.forward(call);
    head_.forward_backward(call, {.scale = 1.0F / static_cast<float>(sizes_.rows),
                                  .gradient = b_.gradient,
                                  .norm_weight = b_.norm_accumulator,
                                  .projection = b_.projection_accumulator,
                                  .fresh = true});
  }
  [[nodiscard]] std::int64_t offload_elements() const {
    return std::min(sizes_.elements, sizes_.update_elements);
  }
  void offload_gradient(Stream& stream) {
    device_->run(stream, OffloadGradient{.type = options_.type,
                                         .elements = offload_elements(),
                                         .src = b_.accumulator,
                                         .dst = b_.host_gradient,
                                         .partial = b_.partial});
  }
  [[nodiscard]] std::span<const std::int32_t> tokens() const {
    return {b_.targets, static_cast<std::size_t>(sizes_.rows)};
  }
  void gather_rows() {
    device_->call(*host_, [this] {
      gather_embedding(device_->host_pool(), options_.type, sizes_.architecture.hidden, b_.projection,
                       tokens(), b_.y);
    });
  }
  void scatter_rows() {
    device_->call(*host_, [this] {
      scatter_embedding_gradient(device_->host_pool(), options_.type, sizes_.architecture.hidden, b_.gradient,
                                 {b_.token_rows, static_cast<std::size_t>(sizes_.rows)}, b_.gradient_rows);
    });
  }
  void finish_embedding() {
    device_->call(*host_, [this] {
      finish_embedding_gradient(device_->host_pool(),
                                {.type = options_.type,
                                 .width = sizes_.architecture.hidden,
                                 .elements = sizes_.head.tokens * sizes_.architecture.hidden,
                                 .tokens = {b_.distinct, static_cast<std::size_t>(distinct_)},
                                 .sums = b_.gradient_rows,
                                 .gradient = b_.embedding_gradient,
                                 .partial = b_.partial});
    });
  }
  void zero_embedding() {
    device_->call(*host_, [this] {
      std::memset(
          b_.embedding_gradient, 0,
          static_cast<std::size_t>(sizes_.head.tokens * sizes_.architecture.hidden * size_of(options_.type)));
      std::memset(b_.gradient_rows, 0,
                  static_cast<std::size_t>(sizes_.rows * sizes_.architecture.hidden * 4));
    });
  }
  void update(Stream& stream, ThreadPool& pool, MomentPrecision precision) {
    const bool fp32 = precision == MomentPrecision::fp32;
    const GroupStateLayout& layout = fp32 ? sizes_.fp32_state : sizes_.eight_bit_state;
    std::byte* state = fp32 ? b_.fp32_states : b_.eight_bit_states;
    device_->call(stream, [this, &pool, &layout, state] {
      adamw_update(pool,
                   {.layout = &layout,
                    .gradient_type = options_.type,
                    .gradient = b_.host_gradient,
                    .weight = b_.host_weights,
                    .state = state},
                   {.lr = 1e-5, .weight_decay = 0.01, .step = ++steps_});
    });
  }

  // Seconds between two pieces of work of one stream.
  Seconds overhead() {
    constexpr int kCalls = 2000;
    std::vector<Seconds> seconds;
    for (int i = 0; i < 5; ++i) {
      Clock::time_point begin, end;
      device_->call(*compute_, [&] { begin = Clock::now(); });
      for (int k = 0; k < kCalls; ++k) device_->call(*compute_, [] {});
      device_->call(*compute_, [&] { end = Clock::now(); });
      device_->synchronize(*compute_);
      seconds.push_back(std::chrono::duration<double>(end - begin).count() / kCalls);
    }
    return typical(seconds);
  }

  // Seconds from the end of an op to the start of one in another stream that slept until then.
  Seconds handover() {
    const auto event = device_->create_event();
    Stream& other = unified() ? *host_ : *h2d_;
    std::vector<Seconds> seconds;
    for (int i = 0; i < 200; ++i) {
      Clock::time_point end, begin;
      const bool back = i % 2 == 1;
      Stream& from = back ? other : *compute_;
      Stream& to = back ? *compute_ : other;
      device_->call(from, [&] {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        end = Clock::now();
      });
      device_->record(from, *event);
      device_->wait(to, *event);
      device_->call(to, [&] { begin = Clock::now(); });
      device_->synchronize(to);
      seconds.push_back(std::chrono::duration<double>(begin - end).count());
    }
    return typical(seconds);
  }

  void fill_buffers() {
    const Architecture& a = sizes_.architecture;
    const DataType type = options_.type;
    fill(type, b_.weights, sizes_.elements, 0.1);
    for (const ParameterTensor& tensor : sizes_.groups[1].tensors)
      if (tensor.shape.size() == 1)
        fill(type, b_.weights + tensor.offset * size_of(type), tensor.elements, 0.1, 1.0);
    fill(type, b_.x, sizes_.rows * a.hidden, 2.0);
    fill(type, b_.gradient, sizes_.rows * a.hidden, 1e-3);
    fill(type, b_.norm_weight, a.hidden, 0.1, 1.0);
    fill(type, b_.projection, sizes_.head.tokens * a.hidden, 0.1);
    fill(DataType::f32, reinterpret_cast<std::byte*>(b_.accumulator), sizes_.elements, 1e-3);
    const auto half = static_cast<std::size_t>(options_.slot_tokens * a.head_dim / 2);
    fill_rope_tables(a.rope, a.head_dim, options_.slot_tokens, {b_.cosine, half}, {b_.cosine + half, half});
    Random random(11);
    for (std::int64_t i = 0; i < sizes_.rows; ++i) {
      const auto row = static_cast<std::int32_t>(i % options_.slot_tokens);
      b_.positions[i] = b_.rows[i] = row;
      b_.document_start[i] = 0;
      b_.targets[i] = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(sizes_.head.tokens)));
    }
    distinct_ = find_distinct(tokens(), std::nullopt, b_.distinct, b_.token_rows);
    fill(DataType::f32, reinterpret_cast<std::byte*>(b_.gradient_rows), distinct_ * a.hidden, 1e-3);
    fill(type, b_.embedding_gradient, sizes_.head.tokens * a.hidden, 1e-3);
    forward(LayerKind::attention, StashLevel::all);
    recompute(LayerKind::attention, StashLevel::none, false);
    device_->synchronize(*compute_);
  }

  ProfileOptions options_;
  ProfileSizes sizes_;
  DecoderLayer layer_;
  Head head_;
  ProfileBuffers b_{};
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Stream> compute_, host_, h2d_, d2h_;
  std::vector<std::int32_t> counts_;
  std::vector<std::unique_ptr<Timed>> timed_;
  std::int64_t steps_ = 0, distinct_ = 0;
};

}  // namespace

Bytes profile_memory(const Architecture& architecture, const ProfileOptions& options) {
  ArenaPieces device(nullptr), host(nullptr);
  place(sizes_of(architecture, options), options, device, host);
  return device.used() + host.used();
}

CostTable measure_costs(const Architecture& architecture, const ProfileOptions& options) {
  return Profiler(architecture, options).measure();
}

}  // namespace lazytrain
