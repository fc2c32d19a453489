#include "runtime/disk_rates.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <system_error>
#include <thread>

#include "core/disk_space.h"
#include "core/file.h"
#include "core/log.h"
#include "core/random.h"
#include "formats/json.h"
#include "plan/json_fields.h"
#include "runtime/profiler.h"
#include "runtime/scratch_file.h"

namespace lazytrain {
namespace {

// Raised when ScratchFile changes so much that older measurements mislead.
constexpr int kGeneration = 1;

constexpr Bytes kBlock{std::int64_t{32} << 20};
constexpr std::int64_t kMostBlocks = 16;
constexpr Seconds kPhase = 0.5;

struct Freed {
  void operator()(std::byte* data) const { std::free(data); }
};
using Buffer = std::unique_ptr<std::byte, Freed>;

Buffer make_buffer() {
  const auto size = static_cast<std::size_t>(kBlock.value);
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(kDiskAlignment, size)));
  if (buffer == nullptr) throw std::bad_alloc();
  Random random(13);  // a disk that compresses must not look faster than it is
  const auto words = std::span(reinterpret_cast<std::uint64_t*>(buffer.get()), size / 8);
  for (std::uint64_t& word : words) word = random.next();
  return buffer;
}

// Blocks [begin, end) of the file, again and again until the phase is over; GB/s.
struct Phase {
  ScratchFile& file;
  std::int64_t begin, end;

  template <typename Transfer>
  double run(const Transfer& transfer) const {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    double moved = 0;
    for (std::int64_t i = 0;; ++i) {
      transfer(kBlock * (begin + i % (end - begin)));
      moved += kBlock.gigabytes();
      const double spent = std::chrono::duration<double>(Clock::now() - start).count();
      if (spent >= kPhase) return moved / spent;
    }
  }
  double write(const Buffer& from) const {
    const std::span<const std::byte> bytes(from.get(), static_cast<std::size_t>(kBlock.value));
    return run([&](Bytes offset) { file.write(offset, bytes); });
  }
  double read(const Buffer& to) const {
    const std::span<std::byte> bytes(to.get(), static_cast<std::size_t>(kBlock.value));
    return run([&](Bytes offset) { file.read(offset, bytes); });
  }
};

double rate_of_both(const Phase& written, const Buffer& from, const Phase& read, const Buffer& to) {
  double writing = 0;
  std::exception_ptr failure;
  std::thread writer([&] {
    try {
      writing = written.write(from);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  double reading = 0;
  try {
    reading = read.read(to);
  } catch (...) {
    writer.join();
    throw;
  }
  writer.join();
  if (failure) std::rethrow_exception(failure);
  return writing + reading;
}

// How many blocks the measurement may take; the folder may not be there yet.
std::int64_t blocks_for(const std::filesystem::path& folder) {
  const Bytes free = free_space(folder);
  const std::int64_t blocks = std::min(free.value / 2 / kBlock.value, kMostBlocks);
  if (blocks < 2)
    fail(ExitCode::disk,
         "{}: {} are free, and measuring the disk takes {}; free some space or choose another folder",
         folder.string(), format_bytes(free), format_bytes(kBlock * 4));
  return blocks;
}

// The device that is mounted there, as the system names it: device numbers alone may change with a restart.
std::string mount_source(dev_t device) {
  const std::string number = fmt::format("{}:{}", major(device), minor(device));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id, parent, numbers;
    words >> id >> parent >> numbers;
    const std::size_t dash = line.find(" - ");  // then: type, source, options
    if (numbers != number || dash == std::string::npos) continue;
    std::istringstream rest(line.substr(dash + 3));
    std::string type, source;
    rest >> type >> source;
    return fmt::format("{} {}", type, source);
  }
  return "";
}

DiskRates from_json(const nlohmann::json& document, const std::string& where) {
  const JsonFields fields(document, where, ExitCode::usage);
  constexpr double kLowest = 1e-6, kHighest = 1e4;
  return {.read = fields.number("read", kLowest, kHighest),
          .write = fields.number("write", kLowest, kHighest),
          .both = fields.number("both", kLowest, kHighest),
          .method = fields.text("method")};
}

}  // namespace

DiskRates measure_disk(const std::filesystem::path& folder) {
  const std::int64_t blocks = blocks_for(folder);
  ScratchFile file(folder, kBlock * blocks);
  const Buffer from = make_buffer(), to = make_buffer();
  // The first write of a block also allocates it for good, and reading an unwritten one reaches no disk.
  // Neither happens in a run after its first step.
  for (std::int64_t i = 0; i < blocks; ++i)
    file.write(kBlock * i, {from.get(), static_cast<std::size_t>(kBlock.value)});
  const Phase all{file, 0, blocks}, first{file, 0, blocks / 2}, second{file, blocks / 2, blocks};
  DiskRates rates{.read = 0, .write = 0, .both = 0, .method = file.method()};
  rates.write = all.write(from);
  rates.read = all.read(to);
  rates.both = rate_of_both(first, from, second, to);
  return rates;
}

std::filesystem::path disk_rates_file(const std::filesystem::path& folder) {
  struct stat status {};
  stat(nearest_existing(folder).c_str(), &status);
  const char* wish = std::getenv("LAZYTRAIN_IO");
  const std::string text =
      fmt::format("{} | {}:{} | {} | {}", kGeneration, major(status.st_dev), minor(status.st_dev),
                  mount_source(status.st_dev), wish == nullptr ? "" : wish);
  return cost_folder() / fmt::format("disk-{:016x}.json", checksum(std::as_bytes(std::span(text))));
}

DiskRates load_or_measure_disk(const std::filesystem::path& folder) {
  const std::filesystem::path path = disk_rates_file(folder);
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    try {
      return from_json(read_json(path, ExitCode::usage), path.string());
    } catch (const Error& bad) {
      log::warning("{}; measuring anew", bad.what());
    }
  }
  DiskRates rates = measure_disk(folder);
  try {
    std::filesystem::create_directories(path.parent_path(), error);
    write_json(path, nlohmann::ordered_json{{"folder", folder.string()},
                                            {"method", rates.method},
                                            {"read", rates.read},
                                            {"write", rates.write},
                                            {"both", rates.both}});
  } catch (const Error& bad) {
    log::warning("the measured disk rates are not kept: {}", bad.what());
  }
  return rates;
}

}  // namespace lazytrain
