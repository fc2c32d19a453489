// The AdamW sweeps against the memory they run on, as a table: parameters per second, memory traffic beside a
// plain copy by the same threads, cycles per parameter, and what more cores would give. Groups lie far beyond
// every cache but for the column "cycles in cache", which is what the arithmetic alone takes.
//   optimizer_bench [threads] [million parameters] [repetitions]
// The figures are the best repetition; sweeps and copies take turns, so that a busy moment hits all alike.
#include <fmt/format.h>
#include <x86intrin.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/threads.h"
#include "optim/adamw.h"

namespace {

using namespace lazytrain;  // a program of its own

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Ticks of the time stamp counter: the processor's nominal clock, whatever its turbo does.
double counter_frequency() {
  const std::uint64_t before = __rdtsc();
  const double seconds = seconds_of([] {
    const auto end = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < end) {
    }
  });
  return static_cast<double>(__rdtsc() - before) / seconds;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
template <typename T>
using Array = std::unique_ptr<T[], Free>;

// Written once, so that every page is there.
template <typename T>
Array<T> array(std::int64_t count, T value) {
  const Bytes bytes = align_up({count * static_cast<std::int64_t>(sizeof(T))}, kBufferAlignment);
  auto* memory = static_cast<T*>(std::aligned_alloc(kBufferAlignment, static_cast<std::size_t>(bytes.value)));
  std::fill(memory, memory + count, value);
  return Array<T>(memory);
}

// Gradients that differ from element to element, as those of a model do.
Array<bfloat16> gradients(std::int64_t count) {
  Array<bfloat16> values = array<bfloat16>(count, {});
  for (std::int64_t i = 0; i < count; ++i) {
    const auto spread = static_cast<float>(static_cast<std::uint32_t>(i) * kRoundingStride >> 20) - 2048.0F;
    values[static_cast<std::size_t>(i)] = to_bfloat16(spread * 1e-6F);
  }
  return values;
}

// A sweep over one tensor of `count` elements.
struct Sweep {
  virtual ~Sweep() = default;
  virtual void run(ThreadPool& pool) = 0;
};

struct SeparateMasters : Sweep {
  explicit SeparateMasters(std::int64_t count)
      : ranges{{{.begin = 0, .end = count}}},
        gradient(gradients(count)),
        weight(array<bfloat16>(count, to_bfloat16(0.5F))),
        master(array(count, 0.5F)),
        exp_avg(array(count, 0.0F)),
        exp_avg_sq(array(count, 0.0F)) {}
  void run(ThreadPool& pool) override {
    adamw_update(pool,
                 {.ranges = ranges,
                  .gradient_type = DataType::bf16,
                  .gradient = gradient.get(),
                  .master = master.get(),
                  .exp_avg = exp_avg.get(),
                  .exp_avg_sq = exp_avg_sq.get(),
                  .weight = weight.get()},
                 step);
    ++step.step;
  }
  std::array<ParameterRange, 1> ranges;
  Array<bfloat16> gradient, weight;
  Array<float> master, exp_avg, exp_avg_sq;
  AdamWStep step{.lr = 1e-4, .weight_decay = 0.01};
};

struct SplitMasters : Sweep {
  SplitMasters(std::int64_t count, MomentPrecision precision)
      : gradient(gradients(count)), weight(array<bfloat16>(count, to_bfloat16(0.5F))) {
    const std::array<TensorPrecision, 1> tensors{
        {{.range = {.begin = 0, .end = count}, .precision = precision}}};
    layout = group_state_layout(tensors, DataType::bf16);
    state = array(layout.bytes.value, std::byte{0});
  }
  void run(ThreadPool& pool) override {
    adamw_update(pool,
                 {.layout = &layout,
                  .gradient_type = DataType::bf16,
                  .gradient = gradient.get(),
                  .weight = weight.get(),
                  .state = state.get()},
                 step);
    ++step.step;
  }
  GroupStateLayout layout;
  Array<bfloat16> gradient, weight;
  Array<std::byte> state;
  AdamWStep step{.lr = 1e-4, .weight_decay = 0.01};
};

struct Case {
  std::string name;
  double bytes = 0;  // of traffic per parameter
  std::function<std::unique_ptr<Sweep>(std::int64_t count)> make;
};

std::vector<Case> cases() {
  const auto split = [](MomentPrecision precision) {
    return [precision](std::int64_t count) { return std::make_unique<SplitMasters>(count, precision); };
  };
  const auto bytes = [](MomentPrecision precision) {
    return adamw_traffic_bytes(DataType::bf16, DataType::bf16, precision);
  };
  return {{.name = "fp32 masters, fp32 moments",
           .bytes = static_cast<double>(adamw_traffic_bytes(DataType::bf16, true)),
           .make = [](std::int64_t count) { return std::make_unique<SeparateMasters>(count); }},
          {.name = "split masters, fp32 moments",
           .bytes = bytes(MomentPrecision::fp32),
           .make = split(MomentPrecision::fp32)},
          {.name = "split masters, 8-bit moments",
           .bytes = bytes(MomentPrecision::eight_bit),
           .make = split(MomentPrecision::eight_bit)}};
}

// Nanoseconds per parameter of one core on a tensor that fits its own cache.
double cached_seconds(const Case& sweep_case) {
  constexpr std::int64_t kElements = 32768;
  ThreadPool one(1);
  const std::unique_ptr<Sweep> sweep = sweep_case.make(kElements);
  double best = 1;
  for (int i = 0; i < 2000; ++i) best = std::min(best, seconds_of([&] { sweep->run(one); }));
  return best / kElements;
}

int run(int threads, std::int64_t elements, int repetitions) {
  ThreadPool pool(threads);
  const double frequency = counter_frequency();
  constexpr std::int64_t kCopied = std::int64_t{1} << 30;
  const Array<std::byte> from = array(kCopied, std::byte{1});
  const Array<std::byte> to = array(kCopied, std::byte{2});
  // Long pieces are copied past the caches, short ones through them; the faster way counts.
  double copy_seconds = 1e9;
  const auto time_copy = [&] {
    for (const std::int64_t piece : {std::int64_t{1} << 18, kCopied / threads}) {
      const auto copy = [&](std::int64_t i) {
        const std::int64_t start = i * piece;
        std::memcpy(to.get() + start, from.get() + start,
                    static_cast<std::size_t>(std::min(piece, kCopied - start)));
      };
      const auto copy_all = [&] { pool.parallel_for((kCopied + piece - 1) / piece, copy); };
      copy_seconds = std::min(copy_seconds, seconds_of(copy_all));
    }
  };

  const std::vector<Case> all = cases();
  std::vector<double> best(all.size(), 1e9);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::unique_ptr<Sweep> sweep = all[i].make(elements);
    sweep->run(pool);
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      time_copy();
      best[i] = std::min(best[i], seconds_of([&] { sweep->run(pool); }));
    }
  }

  const double bandwidth = 2.0 * kCopied / copy_seconds;
  fmt::print("{}, {} threads, {} M parameters, counter at {:.2f} GHz\n", to_string(best_instruction_set()),
             threads, elements / 1'000'000, frequency / 1e9);
  fmt::print("copy of 1 GiB: {:.1f} GB/s, read and written\n\n", bandwidth / 1e9);
  fmt::print("{:<29}{:>8}{:>11}{:>8}{:>9}{:>12}{:>13}\n", "sweep", "B/param", "Mparam/s", "GB/s", "of copy",
             "cycles/par.", "... in cache");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double rate = static_cast<double>(elements) / best[i];
    fmt::print("{:<29}{:>8.2f}{:>11.0f}{:>8.1f}{:>8.0f}%{:>12.2f}{:>13.2f}\n", all[i].name, all[i].bytes,
               rate / 1e6, rate * all[i].bytes / 1e9, 100 * rate * all[i].bytes / bandwidth,
               threads * frequency / rate, cached_seconds(all[i]) * frequency);
  }

  // Arithmetic grows with the cores until memory is the limit. The copy above is the memory of these threads;
  // a machine with more cores mostly has more channels too, so what it would have to deliver is given beside.
  fmt::print("\n{:<29}{:>7}{:>21}{:>12}{:>26}\n", "more cores", "cores", "arithmetic Mparam/s", "needs GB/s",
             "at this copy's bandwidth");
  for (const Case& sweep_case : all) {
    const double cached = cached_seconds(sweep_case);
    for (const int cores : {8, 16}) {
      const double rate = cores / cached;
      fmt::print("{:<29}{:>7}{:>21.0f}{:>12.0f}{:>17.0f} Mparam/s\n", sweep_case.name, cores, rate / 1e6,
                 rate * sweep_case.bytes / 1e9, std::min(rate, bandwidth / sweep_case.bytes) / 1e6);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  return run(argument(1, available_cores()), argument(2, 128) * 1'000'000LL, argument(3, 8));
}
