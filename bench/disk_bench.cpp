// Rates of the scratch file by method, chunk and depth, from which the defaults of ScratchOptions were
// chosen.
//   disk_bench [FOLDER] [--quick] [--size MB]
// Blocks of 32 MiB are moved in an order that no read-ahead guesses; rates are medians over the rounds.
#include <fmt/core.h>

#include <algorithm>
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

struct Rates {
  double first_write = 0, write = 0, read = 0, both = 0;  // GB/s; `both` adds the two directions
  double cpu = 0;                                         // core seconds for 1 GB read and 1 GB written
};

class Runner {
 public:
  Runner(const std::string& folder, Bytes size, const ScratchOptions& options)
      : file_(folder, size, options), blocks_(size.value / kBlock.value) {}

  [[nodiscard]] std::string method() const { return file_.method(); }

  Rates run(int rounds) {
    Rates rates;
    const double moved = kBlock.gigabytes() * static_cast<double>(blocks_);
    rates.first_write = moved / timed([&] { pass(true, 0, blocks_); });
    std::vector<double> write, read, both;
    const double cpu = cpu_seconds_now();
    for (int i = 0; i < rounds; ++i) {
      write.push_back(moved / timed([&] { pass(true, 0, blocks_); }));
      read.push_back(moved / timed([&] { pass(false, 0, blocks_); }));
    }
    rates.cpu = (cpu_seconds_now() - cpu) / (moved * rounds);
    for (int i = 0; i < rounds; ++i)
      both.push_back(moved / timed([&] {
                       std::thread writer([&] { pass(true, 0, blocks_ / 2); });
                       pass(false, blocks_ / 2, blocks_);
                       writer.join();
                     }));
    rates.write = median(write);
    rates.read = median(read);
    rates.both = median(both);
    return rates;
  }

 private:
  template <typename Work>
  static double timed(const Work& work) {
    const double begin = seconds_now();
    work();
    return seconds_now() - begin;
  }
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
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

void measure(const std::string& folder, Bytes size, const ScratchOptions& options, int rounds) {
  Runner runner(folder, size, options);
  const Rates rates = runner.run(rounds);
  const bool ring = runner.method().starts_with("io_uring");
  const std::string requests =
      ring ? fmt::format("{:>5} KiB x {:<2}", options.chunk.value / 1024, options.depth) : "";
  fmt::print("{:<36} {:<14} {:>6.2f} {:>6.2f} {:>6.2f} {:>6.2f} {:>7.3f}\n", runner.method(), requests,
             rates.first_write, rates.write, rates.read, rates.both, rates.cpu);
  std::fflush(stdout);
}

int run(const std::string& folder, Bytes size, bool quick) {
  fmt::print("{} in {}; GB/s, core seconds for 1 GB each way\n", format_bytes(size), folder);
  fmt::print("{:<36} {:<14} {:>6} {:>6} {:>6} {:>6} {:>7}\n", "method", "requests", "first", "write", "read",
             "both", "cpu");
  const int rounds = quick ? 1 : 5;
  for (const std::int64_t kib : {256, 512, 1024, 2048, 4096})
    for (const int depth : {4, 8, 16, 32})
      if (!quick || (kib == 1024 && depth == 8))
        measure(folder, size, {.chunk = {kib * 1024}, .depth = depth, .best = ScratchMethod::uring}, rounds);
  for (const ScratchMethod method : {ScratchMethod::direct, ScratchMethod::cached}) {
    ScratchOptions options;
    options.best = method;
    measure(folder, size, options, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  using namespace lazytrain;
  std::string folder = ".";
  Bytes size{16 * bench::kBlock.value};
  bool quick = false;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == "--quick")
        quick = true;
      else if (word == "--size" && i + 1 < argc)
        size = Bytes{std::max<std::int64_t>(std::atoll(argv[++i]) * 1'000'000 / bench::kBlock.value, 2) *
                     bench::kBlock.value};
      else
        folder = word;
    }
    return bench::run(folder, size, quick);
  } catch (const std::exception& error) {
    fmt::print(stderr, "disk_bench: {}\n", error.what());
    return 1;
  }
}
