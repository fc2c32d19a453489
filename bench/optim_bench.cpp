// The AdamW sweep against the memory it runs on: parameters per second and traffic of one update, beside a
// plain copy of the same working set by the same threads. The sweep should reach 70 % of the copy.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <vector>

#include "core/threads.h"
#include "optim/adamw.h"

namespace {

using namespace lazytrain;  // a program of its own

constexpr std::int64_t kElements = 32LL << 20;  // 28 bytes each: far beyond every cache

void set_rates(benchmark::State& state, std::int64_t bytes_per_element) {
  const auto total = static_cast<double>(state.iterations() * kElements);
  state.counters["Gparams/s"] = benchmark::Counter(total / 1e9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(total * static_cast<double>(bytes_per_element) / 1e9, benchmark::Counter::kIsRate);
}

void adamw(benchmark::State& state, InstructionSet set) {
  if (set > best_instruction_set()) return state.SkipWithError("not on this processor");
  ThreadPool pool(static_cast<int>(state.range(0)));
  std::vector<bfloat16> gradient(kElements, to_bfloat16(0.01F));
  std::vector<bfloat16> weight(kElements);
  std::vector<float> master(kElements, 0.5F);
  std::vector<float> exp_avg(kElements);
  std::vector<float> exp_avg_sq(kElements);
  const std::array<ParameterRange, 1> ranges{{{.begin = 0, .end = kElements}}};
  const AdamWGroup group{.ranges = ranges,
                         .gradient_type = DataType::bf16,
                         .gradient = gradient.data(),
                         .master = master.data(),
                         .exp_avg = exp_avg.data(),
                         .exp_avg_sq = exp_avg_sq.data(),
                         .weight = weight.data()};
  AdamWStep step{.lr = 1e-4, .weight_decay = 0.01};
  for (auto _ : state) {
    adamw_update(pool, group, step, set);
    ++step.step;
  }
  set_rates(state, adamw_traffic_bytes(DataType::bf16, true));
}

void copy(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr std::int64_t kPiece = 16384 * 14;  // as many bytes as one task of the sweep reads
  std::vector<std::byte> from(kElements * 14);
  std::vector<std::byte> to(kElements * 14);
  for (auto _ : state) {
    pool.parallel_for(kElements * 14 / kPiece, [&](std::int64_t i) {
      std::memcpy(to.data() + i * kPiece, from.data() + i * kPiece, kPiece);
    });
    benchmark::ClobberMemory();
  }
  set_rates(state, 28);
}

void adamw_baseline(benchmark::State& state) {
  adamw(state, InstructionSet::baseline);
}
void adamw_avx2(benchmark::State& state) {
  adamw(state, InstructionSet::avx2);
}
void adamw_avx512(benchmark::State& state) {
  adamw(state, InstructionSet::avx512);
}

BENCHMARK(copy)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_baseline)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_avx2)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(adamw_avx512)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
