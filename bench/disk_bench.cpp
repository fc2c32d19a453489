// Rates of the scratch file by method, chunk and depth, from which the defaults of ScratchOptions were
// chosen.
//   disk_bench [FOLDER] [--size MB] [--rounds N]
// Blocks of 32 MiB are moved in an order that no read-ahead guesses.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "runtime/scratch_file.h"

namespace lazytrain::bench {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr Bytes kBlock{32 * kMiB};

struct Freed {
  void operator()(std::byte* data) const { std::free(data); }
};
using Buffer = std::unique_ptr<std::byte, Freed>;

// Bytes that no disk compresses.
Buffer make_buffer() {
  Buffer buffer(
      static_cast<std::byte*>(std::aligned_alloc(2 * kMiB, static_cast<std::size_t>(kBlock.value))));
  std::uint64_t state = 7;
  for (std::int64_t i = 0; i < kBlock.value; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    buffer.get()[i] = static_cast<std::byte>(state >> 56U);
  }
  return buffer;
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds_now() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// GB/s; `both` adds the two directions. `cpu`: core seconds for 1 GB written and 1 GB read.
constexpr std::array kColumns{"first", "write", "read", "both", "cpu"};
using Figures = std::array<double, kColumns.size()>;

class Runner {
 public:
  Runner(const std::string& folder, Bytes size, const ScratchOptions& options)
      : file_(folder, size, options), blocks_(size.value / kBlock.value) {}

  [[nodiscard]] std::string method() const { return file_.method(); }

  Figures run() {
    const double moved = kBlock.gigabytes() * static_cast<double>(blocks_);
    Figures figures{};
    figures[0] = moved / timed([&] { pass(true, 0, blocks_); });
    const double cpu = cpu_seconds_now();
    figures[1] = moved / timed([&] { pass(true, 0, blocks_); });
    figures[2] = moved / timed([&] { pass(false, 0, blocks_); });
    figures[4] = (cpu_seconds_now() - cpu) / moved;
    figures[3] = moved / timed([&] {
                   std::thread writer([&] { pass(true, 0, blocks_ / 2); });
                   pass(false, blocks_ / 2, blocks_);
                   writer.join();
                 });
    return figures;
  }

 private:
  template <typename Work>
  static double timed(const Work& work) {
    const double begin = seconds_now();
    work();
    return seconds_now() - begin;
  }
  // Every block from `begin` up to `end` once, in steps of 5, which is prime to the counts used here.
  void pass(bool writing, std::int64_t begin, std::int64_t end) {
    const auto size = static_cast<std::size_t>(kBlock.value);
    for (std::int64_t i = 0; i < end - begin; ++i) {
      const Bytes offset = kBlock * (begin + i * 5 % (end - begin));
      if (writing)
        file_.write(offset, {written_.get(), size});
      else
        file_.read(offset, {read_.get(), size});
    }
  }

  ScratchFile file_;
  std::int64_t blocks_;
  Buffer written_ = make_buffer(), read_ = make_buffer();
};

struct Case {
  ScratchOptions options;
  std::string name;
  std::vector<Figures> rounds;
};

// The median of the rounds, and the best of them, which says more on a machine that others use as well.
void print(const Case& measured) {
  fmt::print("{:<52}", measured.name);
  for (std::size_t column = 0; column < kColumns.size(); ++column) {
    std::vector<double> values;
    for (const Figures& figures : measured.rounds) values.push_back(figures[column]);
    std::sort(values.begin(), values.end());
    const bool time = column + 1 == kColumns.size();
    const int digits = time ? 3 : 2;
    fmt::print(" {:>13}", fmt::format("{:.{}f} ({:.{}f})", values[values.size() / 2], digits,
                                      time ? values.front() : values.back(), digits));
  }
  fmt::print("\n");
}

// Cases take turns, so that a busy minute does not fall on one of them.
int run(const std::string& folder, Bytes size, int rounds) {
  std::vector<Case> cases;
  for (const std::int64_t kib : {256, 512, 1024, 2048, 4096})
    for (const int depth : {4, 8, 16, 32})
      cases.push_back({.options = {.chunk = {kib * 1024}, .depth = depth, .best = ScratchMethod::uring},
                       .name = fmt::format(", {} KiB x {}", kib, depth),
                       .rounds = {}});
  for (const ScratchMethod method : {ScratchMethod::direct, ScratchMethod::cached}) {
    cases.push_back({});
    cases.back().options.best = method;
  }
  for (int round = 0; round < rounds; ++round)
    for (Case& one : cases) {
      Runner runner(folder, size, one.options);
      if (round == 0) one.name = runner.method() + one.name;
      one.rounds.push_back(runner.run());
    }
  fmt::print("{} in {}, {} rounds: GB/s, and core seconds for 1 GB each way; median (best)\n",
             format_bytes(size), folder, rounds);
  fmt::print("{:<52}", "");
  for (const char* column : kColumns) fmt::print(" {:>13}", column);
  fmt::print("\n");
  for (const Case& one : cases) print(one);
  return 0;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  using namespace lazytrain;
  std::string folder = ".";
  Bytes size{16 * bench::kBlock.value};
  int rounds = 5;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--rounds" && i + 1 < argc)
        rounds = std::max(std::atoi(argv[++i]), 1);
      else if (word == "--size" && i + 1 < argc)
        size = Bytes{std::max<std::int64_t>(std::atoll(argv[++i]) * 1'000'000 / bench::kBlock.value, 2) *
                     bench::kBlock.value};
      else
        folder = word;
    }
    return bench::run(folder, size, rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "disk_bench: {}\n", error.what());
    return 1;
  }
}
