// lazytrain doctor: what this machine offers to training, measured, and what stands in the way. Exit code 1
// where training would fail or crawl.
#include <fcntl.h>
#include <fmt/core.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <thread>

#include "commands.h"
#include "core/system_memory.h"
#include "core/threads.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/library_version.h"
#include "runtime/disk_rates.h"
#include "runtime/profiler.h"
#include "runtime/scratch_file.h"
#include "standard_output.h"

namespace lazytrain {
namespace {

struct Options {
  std::string folder = ".";
  int threads = 0;
};

class Report {
 public:
  void line(const char* what, const std::string& value) { print("{:<22} {}\n", what, value); }
  // Something that slows training down or deserves a look.
  void note(const std::string& text) { notes_.push_back(text); }
  // Something that training will fail on.
  void problem(const std::string& text) { problems_.push_back(text); }
  int finish() const {
    for (const std::string& text : notes_) print("note: {}\n", text);
    for (const std::string& text : problems_) print("problem: {}\n", text);
    if (problems_.empty()) print("{}\n", notes_.empty() ? "all is well" : "nothing stands in the way");
    return problems_.empty() ? 0 : 1;
  }

 private:
  std::vector<std::string> notes_, problems_;
};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The first line of a file, "" where there is none.
std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

bool has_flag(const std::string& flag) {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("flags")) return (line + " ").find(" " + flag + " ") != std::string::npos;
  return false;
}

void processor(Report& report, int threads) {
  report.line("processor", processor_name());
  std::string features;
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512bw", "avx512_bf16", "amx_bf16"})
    if (has_flag(flag)) features += (features.empty() ? "" : ", ") + std::string(flag);
  report.line("features", features.empty() ? "none of those that matter" : features);
  report.line("instructions in use", cpu_instruction_set());
  const auto all = static_cast<int>(std::thread::hardware_concurrency());
  report.line("cores", fmt::format("{} of {} may be used, {} will be", available_cores(), all, threads));
  if (available_cores() < all)
    report.note(
        fmt::format("affinity or a quota leaves {} of {} cores to this process", available_cores(), all));
  if (!has_flag("avx2"))
    report.note("the processor has no AVX2: training works, ten or more times slower");
  else if (!has_flag("avx512_bf16"))
    report.note("the processor has no bf16 instructions: bf16 is widened to fp32 before it is multiplied");
  double load = 0;
  if (getloadavg(&load, 1) == 1) {
    report.line("load average", fmt::format("{:.1f}", load));
    if (load > 0.5 * available_cores())
      report.note(
          "the machine is busy with other work: measured rates, and training, are slower than they could be");
  }
}

void memory(Report& report) {
  const MemoryLimits limits = memory_limits();
  report.line("memory available", format_bytes(limits.available));
  report.line("cgroup leaves", limits.cgroup ? format_bytes(*limits.cgroup) : std::string("no limit"));
  if (limits.free() < Bytes{1'000'000'000})
    report.problem(fmt::format("only {} of memory are free; training needs about 16 bytes per parameter",
                               format_bytes(limits.free())));
  const std::string huge = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!huge.empty()) report.line("huge pages", huge);
  if (huge.find("[never]") != std::string::npos)
    report.note("transparent huge pages are off: large matrices cost more address translation");
  rlimit locked{};
  if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
    report.line("lockable memory", locked.rlim_cur == RLIM_INFINITY
                                       ? std::string("no limit")
                                       : format_bytes({static_cast<std::int64_t>(locked.rlim_cur)}));
}

// Best of some rounds, so that a moment's disturbance does not count.
double copy_rate(int threads) {
  constexpr Bytes kBytes{std::int64_t{256} << 20};
  const auto device = make_cpu_device({.compute_threads = threads});
  const auto stream = device->create_stream(StreamKind::compute);
  const Arena from = device->allocate(Tier::device, kBytes), to = device->allocate(Tier::device, kBytes);
  double best = 1e30;
  for (int i = 0; i < 5; ++i)
    best = std::min(best, seconds_of([&] {
                      device->copy(*stream, to.data, from.data, kBytes);
                      device->synchronize(*stream);
                    }));
  return kBytes.gigabytes() / best;
}

double gemm_rate(DataType type, std::int64_t rows, std::int64_t in, std::int64_t out, int threads) {
  const auto device = make_cpu_device({.compute_threads = threads});
  const auto stream = device->create_stream(StreamKind::compute);
  const auto matrix = [&](std::int64_t elements) {
    const Arena arena = device->allocate(Tier::device, {elements * size_of(type)});
    for (std::int64_t i = 0; i < elements; ++i) {
      const float value = static_cast<float>(i % 251 - 125) / 128;
      if (type == DataType::f32)
        reinterpret_cast<float*>(arena.data)[i] = value;
      else
        reinterpret_cast<bfloat16*>(arena.data)[i] = to_bfloat16(value);
    }
    return arena.data;
  };
  const LinearForward product{.type = type,
                              .rows = rows,
                              .slot_rows = 512,
                              .in = in,
                              .out = out,
                              .x = matrix(rows * in),
                              .weight = matrix(in * out),
                              .y = matrix(rows * out)};
  double best = 1e30;
  for (int i = 0; i < 6; ++i)
    best = std::min(best, seconds_of([&] {
                      device->run(*stream, product);
                      device->synchronize(*stream);
                    }));
  return 2e-9 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out) / best;
}

void rates(Report& report, int threads) {
  const double copy = copy_rate(threads);
  report.line("memory copy", fmt::format("{:.1f} GB/s (as much is read as written)", copy));
  if (copy < 2) report.note("memory is very slow; is the machine swapping, or busy?");
  for (const DataType type : {DataType::bf16, DataType::f32})
    report.line(
        type == DataType::bf16 ? "GEMM, bf16" : "GEMM, fp32",
        fmt::format("{:.0f} GFLOP/s (2048 x 576 -> 1536), {:.0f} GFLOP/s (1024 x 2048 -> 2048)",
                    gemm_rate(type, 2048, 576, 1536, threads), gemm_rate(type, 1024, 2048, 2048, threads)));
}

// Writes and reads a file that has no name, so that nothing is left behind.
void disk(Report& report, const std::string& folder) {
  struct Descriptor {
    int number = -1;
    ~Descriptor() {
      if (number >= 0) close(number);
    }
  } file;
  file.number = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.number < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string name = folder + "/.lazytrain-doctor-XXXXXX";
    file.number = mkostemp(name.data(), O_CLOEXEC);
    if (file.number >= 0) unlink(name.c_str());
  }
  if (file.number < 0)
    return report.problem(fmt::format("{}: no file can be written here ({})", folder, std::strerror(errno)));
  struct statvfs space {};
  if (fstatvfs(file.number, &space) == 0) {
    const Bytes free{static_cast<std::int64_t>(space.f_bavail) * static_cast<std::int64_t>(space.f_frsize)};
    report.line("disk space", fmt::format("{} free in {}", format_bytes(free), folder));
    if (free < Bytes{1'000'000'000})
      return report.problem(
          fmt::format("{}: {} are free; checkpoints will not fit", folder, format_bytes(free)));
  }
  constexpr std::size_t kPiece = std::size_t{8} << 20;
  constexpr int kPieces = 32;
  std::vector<char> piece(kPiece);
  for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 2654435761U >> 13);
  bool failed = false;
  const double writing = seconds_of([&] {
    for (int i = 0; i < kPieces && !failed; ++i)
      failed = write(file.number, piece.data(), kPiece) != static_cast<ssize_t>(kPiece);
    failed = failed || fsync(file.number) != 0;
  });
  if (failed) return report.problem(fmt::format("{}: writing failed ({})", folder, std::strerror(errno)));
  posix_fadvise(file.number, 0, 0, POSIX_FADV_DONTNEED);  // or the page cache would be measured
  const double reading = seconds_of([&] {
    for (int i = 0; i < kPieces && !failed; ++i)
      failed = pread(file.number, piece.data(), kPiece, static_cast<off_t>(kPiece) * i) !=
               static_cast<ssize_t>(kPiece);
  });
  if (failed)
    return report.problem(fmt::format("{}: reading back failed ({})", folder, std::strerror(errno)));
  const double gigabytes = static_cast<double>(kPiece) * kPieces / 1e9;
  report.line("disk", fmt::format("{:.2f} GB/s written to the medium, {:.2f} GB/s read, in {}",
                                  gigabytes / writing, gigabytes / reading, folder));
  if (gigabytes / writing < 0.05)
    report.note(fmt::format("{}: the disk is slow; saving a checkpoint of 1 GB takes {}", folder,
                            format_duration(writing / gigabytes)));
}

// What a run that keeps data on disk between uses would get here.
void scratch_disk(Report& report, const std::string& folder) {
  try {
    const ScratchFile file(folder, {kDiskAlignment});
    const DiskRates rates = measure_disk(folder);
    report.line("scratch disk",
                fmt::format("{:.2f} GB/s written, {:.2f} GB/s read, {:.2f} GB/s both at once; {}",
                            rates.write, rates.read, rates.both, rates.method));
    if (!file.passed_over().empty())
      report.note(
          fmt::format("{}: a faster way to the scratch disk is not open ({})", folder, file.passed_over()));
    if (file.in_memory())
      report.note(fmt::format("{}: this folder is in memory; a scratch file here would save none", folder));
  } catch (const Error& error) {
    report.note(fmt::format("no data can be kept on disk during a run: {}", error.what()));
  }
}

int run(const Options& options) {
  Report report;
  const int threads = options.threads > 0 ? options.threads : available_cores();
  report.line("lazytrain", LAZYTRAIN_VERSION);
  report.line("built with", fmt::format("compiler {}, {}", __VERSION__, matmul_library()));
  processor(report, threads);
  memory(report);
  rates(report, threads);
  disk(report, options.folder);
  scratch_disk(report, options.folder);
  report.line("measured costs", cost_folder().string());
  return report.finish();
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("doctor", "Look at this machine: processor, memory, rates, disk");
  const auto options = std::make_shared<Options>();
  command->add_option("folder", options->folder, "the disk that is tried")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--threads", options->threads, "threads that compute (default: all that may be used)")
      ->check(CLI::Range(1, 4096));
  command->footer(
      "Exit code 0 where training can work here, 1 where something stands in its way.\n"
      "Example:\n  lazytrain doctor runs\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
