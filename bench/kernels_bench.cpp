// Speed of attention (GFLOP/s: only the products that causal attention needs are counted) and of the row
// kernels (GB/s: every operand once), at the shapes of a 135M-parameter model by default.
//   kernels_bench --benchmark_filter=Attention
// LAZYTRAIN_ISA chooses the instruction set. Rates of one thread are per CPU time, of more per wall time.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "core/bfloat16.h"
#include "core/random.h"
#include "core/threads.h"
#include "device/cpu/kernels.h"

namespace lazytrain {
namespace {

using benchmark::State;

std::vector<bfloat16> random_values(std::int64_t n) {
  Random random(1);
  std::vector<bfloat16> x(static_cast<std::size_t>(n));
  for (bfloat16& value : x) value = to_bfloat16(static_cast<float>(random.uniform() * 2 - 1));
  return x;
}

void rate(State& state, double bytes) {
  state.counters["GB/s"] = benchmark::Counter(bytes / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

struct AttentionCase {
  std::int64_t slots, slot_rows, heads, kv_heads, head_dim, document;
  std::vector<bfloat16> qkv, core, d_core, d_qkv;
  std::vector<float> lse, workspace;
  std::vector<std::int32_t> start;
  double pairs = 0;  // (query, key) that see each other, of one head

  explicit AttentionCase(const State& state)
      : slots(state.range(1)),
        slot_rows(state.range(2)),
        heads(state.range(3)),
        kv_heads(state.range(4)),
        head_dim(state.range(5)),
        document(state.range(6)) {
    const std::int64_t rows = slots * slot_rows;
    qkv = random_values(rows * (heads + 2 * kv_heads) * head_dim);
    d_core = random_values(rows * heads * head_dim);
    core.resize(d_core.size());
    d_qkv.resize(qkv.size());
    lse.resize(static_cast<std::size_t>(rows * heads));
    workspace.resize(lse.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t in_slot = row % slot_rows, first = in_slot / document * document;
      start.push_back(static_cast<std::int32_t>(first));
      pairs += static_cast<double>(in_slot - first + 1);
    }
  }
  AttentionForward forward() {
    return {DataType::bf16, slots * slot_rows, slot_rows,    heads,       kv_heads,
            head_dim,       qkv.data(),        start.data(), core.data(), lse.data()};
  }
  AttentionBackward backward() {
    return {DataType::bf16, slots * slot_rows, slot_rows,       heads,       kv_heads,
            head_dim,       qkv.data(),        start.data(),    core.data(), lse.data(),
            d_core.data(),  d_qkv.data(),      workspace.data()};
  }
  [[nodiscard]] double flops(int products) const {
    return 2.0 * products * pairs * static_cast<double>(heads * head_dim);
  }
};

void report(State& state, double flops) {
  state.counters["GFLOP/s"] = benchmark::Counter(flops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
}

void Attention_Forward(State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  AttentionCase a(state);
  for (auto _ : state) cpu::run(pool, a.forward());
  report(state, a.flops(2));
}
void Attention_Backward(State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  AttentionCase a(state);
  cpu::run(pool, a.forward());
  for (auto _ : state) cpu::run(pool, a.backward());
  report(state, a.flops(5));
}
void attention_shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"threads", "slots", "rows", "heads", "kv", "dim", "document"})
      ->Unit(benchmark::kMicrosecond);
}
void attention_alone(benchmark::internal::Benchmark* bench) {
  attention_shapes(bench);
  bench->Args({1, 1, 512, 9, 3, 64, 512})
      ->Args({1, 1, 512, 9, 3, 64, 100})
      ->Args({1, 1, 4096, 9, 3, 64, 4096});
  bench->Args({1, 1, 512, 8, 2, 128, 512})->Args({1, 1, 512, 8, 8, 16, 512});
}
void attention_together(benchmark::internal::Benchmark* bench) {
  attention_shapes(bench);
  bench->UseRealTime()->Args({2, 1, 512, 9, 3, 64, 512})->Args({2, 4, 512, 9, 3, 64, 512});
}
BENCHMARK(Attention_Forward)->Apply(attention_alone);
BENCHMARK(Attention_Backward)->Apply(attention_alone);
BENCHMARK(Attention_Forward)->Apply(attention_together);
BENCHMARK(Attention_Backward)->Apply(attention_together);

void Attention_Decode(State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  const std::int64_t sequences = state.range(1), length = state.range(2), heads = 9, kv_heads = 3, dim = 64;
  const auto qkv = random_values(sequences * (heads + 2 * kv_heads) * dim);
  auto cache = random_values(sequences * (length + 1) * 2 * kv_heads * dim);
  std::vector<bfloat16> core(static_cast<std::size_t>(sequences * heads * dim));
  const std::vector<std::int32_t> lengths(static_cast<std::size_t>(sequences),
                                          static_cast<std::int32_t>(length));
  const std::vector<std::uint8_t> active(static_cast<std::size_t>(sequences), 1);
  const AttentionDecode op{DataType::bf16, sequences,      length + 1,    heads,        kv_heads,   dim,
                           qkv.data(),     lengths.data(), active.data(), cache.data(), core.data()};
  for (auto _ : state) cpu::run(pool, op);
  rate(state, static_cast<double>(cache.size()) * 2);
}
BENCHMARK(Attention_Decode)
    ->ArgNames({"threads", "sequences", "length"})
    ->Args({1, 32, 256})
    ->Unit(benchmark::kMicrosecond);

// Row kernels: range(0) threads, range(1) rows, range(2) width.
struct Rows {
  ThreadPool pool;
  std::int64_t rows, width;
  std::vector<bfloat16> a, b, c;  // [rows, 2 * width] at most
  std::vector<float> sums;
  explicit Rows(const State& state, std::int64_t columns = 1)
      : pool(static_cast<int>(state.range(0))),
        rows(state.range(1)),
        width(state.range(2)),
        a(random_values(rows * width * columns)),
        b(random_values(rows * width * columns)),
        c(a.size()),
        sums(static_cast<std::size_t>(std::max(rows, width))) {}
  [[nodiscard]] double bytes(double operands) const {
    return operands * 2 * static_cast<double>(rows * width);
  }
};

void RmsNorm_Forward(State& state) {
  Rows r(state);
  for (auto _ : state)
    cpu::run(r.pool,
             RmsNormForward{DataType::bf16, r.rows, r.width, 1e-5f, r.a.data(), r.b.data(), r.c.data()});
  rate(state, r.bytes(2));
}
void RmsNorm_Backward(State& state) {
  Rows r(state);
  for (auto _ : state) {
    cpu::run(r.pool, RmsNormBackward{DataType::bf16, r.rows, r.rows, r.width, 1e-5f, r.a.data(), r.b.data(),
                                     r.b.data(), r.a.data(), r.c.data(), r.sums.data()});
  }
  rate(state, r.bytes(4));
}
void Bias_Gradient(State& state) {
  Rows r(state);
  for (auto _ : state)
    cpu::run(r.pool, BiasGradient{DataType::bf16, r.rows, r.rows, r.width, r.a.data(), r.sums.data()});
  rate(state, r.bytes(1));
}
void Swiglu_Forward(State& state) {
  Rows r(state, 2);
  for (auto _ : state)
    cpu::run(r.pool, SwigluForward{DataType::bf16, r.rows, r.width, r.a.data(), r.c.data()});
  rate(state, r.bytes(3));
}
void Swiglu_Backward(State& state) {
  Rows r(state, 2);
  for (auto _ : state)
    cpu::run(r.pool, SwigluBackward{DataType::bf16, r.rows, r.width, r.a.data(), r.b.data(), r.c.data()});
  rate(state, r.bytes(5));
}
void Cross_Entropy(State& state) {
  Rows r(state);
  const std::vector<std::int32_t> target(static_cast<std::size_t>(r.rows), 7);
  std::vector<float> scores(static_cast<std::size_t>(r.rows * kSoftmaxScores));
  for (auto _ : state) {
    cpu::run(r.pool, SoftmaxScores{DataType::bf16, r.rows, 0, r.width, r.a.data(), target.data(),
                                   scores.data(), true});
    cpu::run(r.pool, CrossEntropyGradient{DataType::bf16, r.rows, 0, r.width, r.a.data(), target.data(),
                                          scores.data(), 1, r.c.data()});
  }
  rate(state, r.bytes(2));
}
void Arg_Max(State& state) {
  Rows r(state);
  std::vector<std::int32_t> out(static_cast<std::size_t>(r.rows));
  for (auto _ : state) cpu::run(r.pool, ArgMax{DataType::bf16, r.rows, r.width, r.a.data(), out.data()});
  rate(state, r.bytes(1));
}
void Add_Rows(State& state) {
  Rows r(state);
  for (auto _ : state)
    cpu::run(r.pool, Add{DataType::bf16, r.rows * r.width, r.a.data(), r.b.data(), r.c.data()});
  rate(state, r.bytes(3));
}
void Rope_Rows(State& state) {  // width = 15 heads of 64, of which 12 turn
  Rows r(state);
  const std::vector<std::int32_t> positions(static_cast<std::size_t>(r.rows), 3);
  const std::vector<float> table(4 * 32, 0.7f);
  for (auto _ : state) {
    cpu::run(r.pool, Rope{DataType::bf16, r.rows, 9, 3, 64, positions.data(), table.data(), table.data(),
                          false, r.a.data()});
  }
  rate(state, r.bytes(2) * 12 / 15);
}
void Offload_Gradient(State& state) {
  Rows r(state);
  const std::int64_t n = r.rows * r.width;
  const std::vector<float> src(static_cast<std::size_t>(n), 0.5f);
  std::vector<double> partial(static_cast<std::size_t>(norm_chunks(n)));
  for (auto _ : state)
    cpu::run(r.pool, OffloadGradient{DataType::bf16, n, src.data(), r.c.data(), partial.data()});
  rate(state, r.bytes(3));
}
void row_shape(benchmark::internal::Benchmark* bench, std::int64_t rows, std::int64_t width) {
  bench->ArgNames({"threads", "rows", "width"})->Args({1, rows, width})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(RmsNorm_Forward)->Apply([](auto* bench) { row_shape(bench, 2048, 576); });
BENCHMARK(RmsNorm_Backward)->Apply([](auto* bench) { row_shape(bench, 2048, 576); });
BENCHMARK(Bias_Gradient)->Apply([](auto* bench) { row_shape(bench, 2048, 960); });
BENCHMARK(Swiglu_Forward)->Apply([](auto* bench) { row_shape(bench, 2048, 1536); });
BENCHMARK(Swiglu_Backward)->Apply([](auto* bench) { row_shape(bench, 2048, 1536); });
BENCHMARK(Cross_Entropy)->Apply([](auto* bench) { row_shape(bench, 64, 49152); });
BENCHMARK(Arg_Max)->Apply([](auto* bench) { row_shape(bench, 64, 49152); });
BENCHMARK(Add_Rows)->Apply([](auto* bench) { row_shape(bench, 2048, 576); });
BENCHMARK(Rope_Rows)->Apply([](auto* bench) { row_shape(bench, 2048, 960); });
BENCHMARK(Offload_Gradient)->Apply([](auto* bench) { row_shape(bench, 1, 3538944); });

}  // namespace
}  // namespace lazytrain

BENCHMARK_MAIN();
