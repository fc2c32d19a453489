// What the CPU device adds to oneDNN and to the system: matrix products on tiles against one oneDNN call
// with the same number of OpenMP threads, the cost of a stream's queue, and the rate of paced copies.
//
// Best of many repetitions, twice: GFLOP/s by the clock on the wall (a quiet machine is needed), and
// GFLOP/s for each second of processor time (which holds on a busy machine too). "own/raw" compares the
// two ways by processor time.
#include <benchmark/benchmark.h>
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <dnnl.hpp>
#include <memory>
#include <string>
#include <vector>

#include "core/threads.h"
#include "device/cpu/cpu_device.h"

namespace lazytrain {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Best {
  double wall = 1e30, processor = 1e30;
  template <typename Work>
  void time(Work work) {
    const double wall_start = wall_seconds();
    const double processor_start = processor_seconds();
    work();
    wall = std::min(wall, wall_seconds() - wall_start);
    processor = std::min(processor, processor_seconds() - processor_start);
  }
};

enum class Product { forward, input_gradient, weight_gradient };

struct Shape {
  Product product;
  DataType type;
  std::int64_t slots, slot_rows, in, out;
  [[nodiscard]] std::int64_t rows() const { return slots * slot_rows; }
  [[nodiscard]] double flops() const { return 2.0 * static_cast<double>(rows() * in * out); }
  [[nodiscard]] std::string name() const {
    const char* kind = product == Product::forward          ? "forward"
                       : product == Product::input_gradient ? "input_gradient"
                                                            : "weight_gradient";
    return std::string(type == DataType::f32 ? "f32" : "bf16") + "/" + kind + "/" + std::to_string(slots) +
           "x" + std::to_string(slot_rows) + "/" + std::to_string(in) + "->" + std::to_string(out);
  }
};

// The operands of a shape, in arenas like those of a run.
struct Operands {
  Operands(CpuDevice& device, const Shape& s)
      : rows_in(device.allocate(Tier::device, {s.rows() * s.in * size_of(s.type)}).data),
        rows_out(device.allocate(Tier::device, {s.rows() * s.out * size_of(s.type)}).data),
        weight(device.allocate(Tier::device, {s.in * s.out * size_of(s.type)}).data),
        dweight(device.allocate(Tier::device, {s.in * s.out * 4}).data) {
    fill(rows_in, s.rows() * s.in, s.type);
    fill(rows_out, s.rows() * s.out, s.type);
    fill(weight, s.in * s.out, s.type);
  }
  static void fill(std::byte* data, std::int64_t elements, DataType type) {
    for (std::int64_t i = 0; i < elements; ++i) {
      const float x = static_cast<float>(i % 251 - 125) / 128;
      if (type == DataType::f32) reinterpret_cast<float*>(data)[i] = x;
      if (type == DataType::bf16) reinterpret_cast<bfloat16*>(data)[i] = to_bfloat16(x);
    }
  }
  std::byte *rows_in, *rows_out, *weight, *dweight;
};

void push(CpuDevice& device, Stream& stream, const Shape& s, const Operands& o) {
  switch (s.product) {
    case Product::forward:
      return device.run(stream, LinearForward{.type = s.type,
                                              .rows = s.rows(),
                                              .slot_rows = s.slot_rows,
                                              .in = s.in,
                                              .out = s.out,
                                              .x = o.rows_in,
                                              .weight = o.weight,
                                              .y = o.rows_out});
    case Product::input_gradient:
      return device.run(stream, LinearInputGradient{.type = s.type,
                                                    .rows = s.rows(),
                                                    .slot_rows = s.slot_rows,
                                                    .in = s.in,
                                                    .out = s.out,
                                                    .dy = o.rows_out,
                                                    .weight = o.weight,
                                                    .dx = o.rows_in});
    case Product::weight_gradient:
      return device.run(stream, LinearWeightGradient{.type = s.type,
                                                     .rows = s.rows(),
                                                     .slot_rows = s.slot_rows,
                                                     .in = s.in,
                                                     .out = s.out,
                                                     .dy = o.rows_out,
                                                     .x = o.rows_in,
                                                     .dweight = reinterpret_cast<float*>(o.dweight)});
  }
}

// The same product as one call of oneDNN over all rows, on `threads` OpenMP threads.
Best raw_onednn(const Shape& s, const Operands& o, int threads, int calls, int repetitions) {
  using dnnl::memory;
  using Dims = memory::dims;
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const auto type = s.type == DataType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
  const std::int64_t rows = s.rows();
  const memory::desc x({rows, s.in}, type, Dims{s.in, 1});
  const memory::desc y({rows, s.out}, type, Dims{s.out, 1});
  const memory::desc weight({s.out, s.in}, type, Dims{s.in, 1});
  const memory::desc dweight({s.out, s.in}, memory::data_type::f32, Dims{s.in, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.product == Product::weight_gradient) {
    dnnl::post_ops after;
    after.append_sum(1.0F);
    attributes.set_post_ops(after);
  }
  const auto description = [&] {
    switch (s.product) {
      case Product::forward:
        return dnnl::matmul::primitive_desc(engine, x, weight.permute_axes({1, 0}), y, attributes);
      case Product::input_gradient:
        return dnnl::matmul::primitive_desc(engine, y, weight, x, attributes);
      case Product::weight_gradient:
        break;
    }
    return dnnl::matmul::primitive_desc(engine, y.permute_axes({1, 0}), x, dweight, attributes);
  }();
  std::byte* a = s.product == Product::forward ? o.rows_in : o.rows_out;
  std::byte* b = s.product == Product::weight_gradient ? o.rows_in : o.weight;
  std::byte* c = s.product == Product::forward          ? o.rows_out
                 : s.product == Product::input_gradient ? o.rows_in
                                                        : o.dweight;
  const dnnl::matmul product(description);
  memory scratch(description.scratchpad_desc(), engine);
  const memory a_memory(description.src_desc(), engine, a);
  const memory b_memory(description.weights_desc(), engine, b);
  const memory c_memory(description.dst_desc(), engine, c);
  Best best;
  for (int i = 0; i < repetitions; ++i) {
    best.time([&] {
      for (int call = 0; call < calls; ++call)
        product.execute(stream, {{DNNL_ARG_SRC, a_memory},
                                 {DNNL_ARG_WEIGHTS, b_memory},
                                 {DNNL_ARG_DST, c_memory},
                                 {DNNL_ARG_SCRATCHPAD, scratch}});
    });
  }
  return best;
}

void gemm(benchmark::State& state, Shape shape) {
  const auto threads = static_cast<int>(state.range(0));
  const auto device = make_cpu_device({.compute_threads = threads});
  const Operands operands(*device, shape);
  const auto stream = device->create_stream(StreamKind::compute);
  const int calls =
      static_cast<int>(std::clamp(5e9 / shape.flops(), 1.0, 20.0));  // timed together: about 10 ms
  const int repetitions = static_cast<int>(std::clamp(2e11 / (shape.flops() * calls), 6.0, 40.0));
  Best own, raw;
  for ([[maybe_unused]] auto _ : state) {
    for (int i = 0; i < repetitions; ++i) {
      own.time([&] {
        for (int call = 0; call < calls; ++call) push(*device, *stream, shape, operands);
        device->synchronize(*stream);
      });
    }
    // OpenMP's idle threads spin: their processor time is not the product's, so one thread is measured.
    try {
      raw.processor = raw_onednn(shape, operands, 1, calls, repetitions).processor;
      raw.wall = raw_onednn(shape, operands, threads, calls, repetitions).wall;
    } catch (const dnnl::error&) {  // it has no bf16 products for this processor
      raw = {};
    }
  }
  state.counters["own_ms"] = own.wall / calls * 1e3;
  state.counters["own_GFLOP/s"] = calls * shape.flops() / own.wall / 1e9;
  state.counters["own_per_core"] = calls * shape.flops() / own.processor / 1e9;
  if (raw.wall == Best{}.wall) return;
  state.counters["raw_GFLOP/s"] = calls * shape.flops() / raw.wall / 1e9;
  state.counters["raw_per_core"] = calls * shape.flops() / raw.processor / 1e9;
  state.counters["own/raw"] = raw.processor / own.processor;
}

// The cost of a piece of work that does nothing, from the push to the end of the stream.
void queue_of_calls(benchmark::State& state) {
  const auto device = make_cpu_device({.compute_threads = 1});
  const auto stream = device->create_stream(StreamKind::compute);
  std::int64_t value = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (int i = 0; i < 1000; ++i) device->call(*stream, [&value] { ++value; });
    device->synchronize(*stream);
  }
  state.SetItemsProcessed(state.iterations() * 1000);
}

// One stream hands over to another and back: two events.
void event_round_trip(benchmark::State& state) {
  const auto device = make_cpu_device({.compute_threads = 1});
  const auto there = device->create_stream(StreamKind::compute);
  const auto back = device->create_stream(StreamKind::h2d);
  const auto event = device->create_event();
  for ([[maybe_unused]] auto _ : state) {
    for (int i = 0; i < 100; ++i) {
      device->wait(*there, *event);
      device->call(*there, [] {});
      device->record(*there, *event);
      device->wait(*back, *event);
      device->call(*back, [] {});
      device->record(*back, *event);
    }
    device->synchronize(*event);
  }
  state.SetItemsProcessed(state.iterations() * 100);
}

// An empty loop on two threads, with and without spinning (range: microseconds): what every row kernel pays.
void parallel_loop(benchmark::State& state) {
  ThreadPool pool(2, {}, std::chrono::microseconds(state.range(0)));
  for ([[maybe_unused]] auto _ : state) pool.parallel_for(4, [](std::int64_t) {});
}

void paced_copy(benchmark::State& state) {
  const double rate = static_cast<double>(state.range(0)) / 10;
  const Bytes size{20'000'000};
  const auto device = make_cpu_device(
      {.memory_model = MemoryModel::emulated, .device_capacity = size, .links = {.h2d = rate}});
  const Arena target = device->allocate(Tier::device, size);
  const Arena source = device->allocate(Tier::host, size);
  const auto stream = device->create_stream(StreamKind::h2d);
  double best = 1e30;
  for ([[maybe_unused]] auto _ : state) {
    const double start = wall_seconds();
    for (int i = 0; i < 5; ++i) device->copy(*stream, target.data, source.data, size);
    device->synchronize(*stream);
    best = std::min(best, wall_seconds() - start);
  }
  state.counters["asked_GB/s"] = rate;
  state.counters["got_GB/s"] = 5 * size.gigabytes() / best;
}

void register_all(int threads) {
  struct Layer {
    std::int64_t slot_rows, in, out;
  };
  // The projections of a 135M-parameter Llama (hidden 576, 3 kv heads, MLP 1536), its head in row chunks, and
  // one of the sixteen blocks in which the head's products are made.
  const std::vector<Layer> layers{{512, 576, 960},   {512, 576, 576},   {512, 576, 3072},  {512, 1536, 576},
                                  {128, 576, 49152}, {256, 576, 49152}, {512, 576, 49152}, {256, 576, 3072}};
  for (const DataType type : {DataType::bf16, DataType::f32}) {
    for (const Layer& layer : layers) {
      for (const Product product : {Product::forward, Product::input_gradient, Product::weight_gradient}) {
        for (const std::int64_t slots : {1, 4}) {
          if (slots > 1 && layer.out > 4096) continue;
          const Shape shape{product, type, slots, layer.slot_rows, layer.in, layer.out};
          benchmark::RegisterBenchmark(("gemm/" + shape.name()).c_str(), gemm, shape)
              ->Arg(threads)
              ->Iterations(1);
        }
      }
    }
  }
  benchmark::RegisterBenchmark("queue_of_calls", queue_of_calls)->UseRealTime();
  benchmark::RegisterBenchmark("event_round_trip", event_round_trip)->UseRealTime();
  benchmark::RegisterBenchmark("parallel_loop", parallel_loop)->Arg(0)->Arg(50)->UseRealTime();
  benchmark::RegisterBenchmark("paced_copy", paced_copy)
      ->Arg(5)
      ->Arg(10)
      ->Arg(20)
      ->Arg(40)
      ->Iterations(5)
      ->UseRealTime();
}

}  // namespace
}  // namespace lazytrain

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  lazytrain::register_all(std::min(2, lazytrain::available_cores()));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
