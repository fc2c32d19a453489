#include "device/cpu/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "device/cpu/affinity.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/kernels.h"
#include "device/cpu/matmul.h"
#include "device/cpu/memory_region.h"

namespace lazytrain {
namespace cpu {
namespace {

// How long compute threads look for their next piece of work before they sleep, where each has a core:
// waking a thread costs 20 to 60 us, and small operations follow each other closely.
constexpr std::chrono::nanoseconds kSpin{50'000};
constexpr std::chrono::nanoseconds kNoSpin{0};

class CpuEvent final : public Event {
 public:
  void record(WaitWork end) {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
  }
  // What to wait for; no progress where the event was never recorded.
  [[nodiscard]] WaitWork recorded() const {
    const std::lock_guard lock(mutex_);
    return end_;
  }

 private:
  mutable std::mutex mutex_;
  WaitWork end_{nullptr, 0};
};

void require(bool holds, const char* problem) {
  if (!holds) fail(ExitCode::device, "the CPU device cannot be made: {}", problem);
}

CpuDeviceOptions checked(const CpuDeviceOptions& options) {
  require(options.memory_model != MemoryModel::discrete,
          "its memory model is unified or emulated; discrete memory belongs to an accelerator");
  require(options.compute_threads >= 1 && options.host_threads >= 1,
          "it needs at least one thread of each kind");
  require(options.compute_threads <= 4096 && options.host_threads <= 4096,
          "more than 4096 threads are asked for");
  const bool emulated = options.memory_model == MemoryModel::emulated;
  require(!emulated || options.device_capacity.value > 0,
          "the emulated device needs a memory capacity above 0");
  require(emulated || !options.split_cores, "split cores belong to the emulated memory model");
  const LinkRates& links = options.links;
  for (const double rate : {links.h2d, links.d2h, links.duplex, links.disk_read, links.disk_write}) {
    require(std::isfinite(rate) && rate >= 0, "link rates are numbers of GB/s, 0 for not paced");
    require(rate == 0 || rate >= 1e-6, "a link below 1e-6 GB/s would never end");
  }
  return options;
}

// The cores of the compute threads, and of all others; both empty where the cores are not split.
struct Cores {
  std::vector<int> compute, others;
};

Cores split(const CpuDeviceOptions& options) {
  if (!options.split_cores) return {};
  const std::vector<int> allowed = allowed_cores();
  const auto compute = static_cast<std::ptrdiff_t>(options.compute_threads);
  if (std::ssize(allowed) <= compute) {
    fail(ExitCode::device,
         "split cores need a core besides those of the {} compute thread{}, and this process may use {}; use "
         "fewer "
         "compute threads or let all threads share the cores",
         compute, compute == 1 ? "" : "s", allowed.size());
  }
  return {{allowed.begin(), allowed.begin() + compute}, {allowed.begin() + compute, allowed.end()}};
}

// A pool serves one caller at a time.
struct SharedPool {
  SharedPool(int threads, const std::string& name, const std::vector<int>& cores,
             std::chrono::nanoseconds spin)
      : pool(
            threads, [name, cores](int worker) { set_up_thread(name + " " + std::to_string(worker), cores); },
            spin) {}
  ThreadPool pool;
  std::mutex mutex;
};

class CpuDeviceOfOptions final : public CpuDevice {
 public:
  explicit CpuDeviceOfOptions(const CpuDeviceOptions& options)
      : options_(checked(options)),
        cores_(split(options)),
        compute_pool_(options.compute_threads, "compute", cores_.compute,
                      options.compute_threads <= available_cores() ? kSpin : kNoSpin),
        host_pool_(options.host_threads, "host", cores_.others, kNoSpin),
        h2d_(paced(options.links.h2d), {}),
        d2h_(paced(options.links.d2h), {}),
        duplex_(paced(options.links.duplex), kLinkPiece),
        disk_read_(paced(options.links.disk_read), {}),
        disk_write_(paced(options.links.disk_write), {}),
        no_cap_(0, {}) {}

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] MemoryModel memory_model() const override { return options_.memory_model; }
  ThreadPool& compute_pool() override { return compute_pool_.pool; }
  ThreadPool& host_pool() override { return host_pool_.pool; }

  void set_links(const LinkRates& rates) override {
    options_.links = rates;
    options_ = checked(options_);
    h2d_.set(paced(rates.h2d));
    d2h_.set(paced(rates.d2h));
    duplex_.set(paced(rates.duplex));
    disk_read_.set(paced(rates.disk_read));
    disk_write_.set(paced(rates.disk_write));
  }

  using Device::allocate;
  Arena allocate(Tier tier, Bytes size, Bytes most) override;
  void grow(Tier tier, Arena& arena, Bytes size) override;
  std::unique_ptr<Stream> create_stream(StreamKind kind) override;
  std::unique_ptr<Event> create_event() override { return std::make_unique<CpuEvent>(); }

  void record(Stream& stream, Event& event) override {
    static_cast<CpuEvent&>(event).record(static_cast<CpuStream&>(stream).end());
  }
  void wait(Stream& stream, Event& event) override {
    if (WaitWork end = static_cast<CpuEvent&>(event).recorded(); end.progress) push(stream, std::move(end));
  }
  void synchronize(Event& event) override {
    if (const WaitWork end = static_cast<CpuEvent&>(event).recorded(); end.progress)
      end.progress->wait(end.count, {});
  }
  void synchronize(Stream& stream) override { static_cast<CpuStream&>(stream).synchronize(); }
  void call(Stream& stream, std::function<void()> function) override {
    push(stream, CallWork{std::move(function)});
  }
  void copy(Stream& stream, void* dst, const void* src, Bytes size) override {
    push(stream, CopyWork{dst, src, size});
  }
  void zero(Stream& stream, void* dst, Bytes size) override { push(stream, ZeroWork{dst, size}); }

  void prepare(const LinearForward& op) override { cpu::prepare(gemms_, op); }
  void prepare(const LinearInputGradient& op) override { cpu::prepare(gemms_, op); }
  void prepare(const LinearWeightGradient& op) override { cpu::prepare(gemms_, op); }

  void run(Stream& stream, const LinearForward& op) override { push(stream, op); }
  void run(Stream& stream, const LinearInputGradient& op) override { push(stream, op); }
  void run(Stream& stream, const LinearWeightGradient& op) override { push(stream, op); }
  void run(Stream& stream, const BiasGradient& op) override { push(stream, op); }
  void run(Stream& stream, const RmsNormForward& op) override { push(stream, op); }
  void run(Stream& stream, const RmsNormBackward& op) override { push(stream, op); }
  void run(Stream& stream, const HeadNormForward& op) override { push(stream, op); }
  void run(Stream& stream, const HeadNormBackward& op) override { push(stream, op); }
  void run(Stream& stream, const Rope& op) override { push(stream, op); }
  void run(Stream& stream, const AttentionForward& op) override { push(stream, op); }
  void run(Stream& stream, const AttentionBackward& op) override { push(stream, op); }
  void run(Stream& stream, const AttentionDecode& op) override { push(stream, op); }
  void run(Stream& stream, const CacheFill& op) override { push(stream, op); }
  void run(Stream& stream, const SwigluForward& op) override { push(stream, op); }
  void run(Stream& stream, const SwigluBackward& op) override { push(stream, op); }
  void run(Stream& stream, const SoftmaxScores& op) override { push(stream, op); }
  void run(Stream& stream, const CrossEntropyLoss& op) override { push(stream, op); }
  void run(Stream& stream, const CrossEntropyGradient& op) override { push(stream, op); }
  void run(Stream& stream, const ArgMax& op) override { push(stream, op); }
  void run(Stream& stream, const GatherRows& op) override { push(stream, op); }
  void run(Stream& stream, const ScatterRows& op) override { push(stream, op); }
  void run(Stream& stream, const Round& op) override { push(stream, op); }
  void run(Stream& stream, const Add& op) override { push(stream, op); }
  void run(Stream& stream, const OffloadGradient& op) override { push(stream, op); }

 private:
  static void push(Stream& stream, Work work) { static_cast<CpuStream&>(stream).push(std::move(work)); }
  [[nodiscard]] bool emulated() const { return options_.memory_model == MemoryModel::emulated; }
  [[nodiscard]] double paced(double rate) const { return emulated() ? rate : 0; }
  LinkSchedule link_of(StreamKind kind);

  // In the stream's thread.
  void execute(StreamKind kind, LinkSchedule& link, Work& work);
  void perform(ThreadPool& pool, LinkSchedule& link, const CopyWork& work);
  void perform(ThreadPool& pool, LinkSchedule& link, const OffloadGradient& op);
  void perform(ThreadPool& pool, LinkSchedule& link, const GatherRows& op);
  void perform(ThreadPool& pool, LinkSchedule& link, const ZeroWork& zero);
  void perform(ThreadPool& /*pool*/, LinkSchedule& link, const CallWork& call) {
    call.function();
    link.other_work_done();
  }
  void perform(ThreadPool& pool, LinkSchedule& link, const LinearForward& op) { multiply(pool, link, op); }
  void perform(ThreadPool& pool, LinkSchedule& link, const LinearInputGradient& op) {
    multiply(pool, link, op);
  }
  void perform(ThreadPool& pool, LinkSchedule& link, const LinearWeightGradient& op) {
    multiply(pool, link, op);
  }
  void perform(ThreadPool& /*pool*/, LinkSchedule& /*link*/, const std::monostate& /*nothing*/) {}
  void perform(ThreadPool& /*pool*/, LinkSchedule& /*link*/, const WaitWork& /*by the stream*/) {}
  template <typename RowKernel>
  void perform(ThreadPool& pool, LinkSchedule& link, const RowKernel& op) {
    cpu::run(pool, op);
    link.other_work_done();
  }
  template <typename Product>
  void multiply(ThreadPool& pool, LinkSchedule& link, const Product& op) {
    cpu::run(pool, gemms_, op);
    link.other_work_done();
  }

  CpuDeviceOptions options_;
  Cores cores_;
  SharedPool compute_pool_, host_pool_;
  ThreadPool inline_pool_{1};  // of streams that move data: their own thread, so any number of callers
  GemmCache gemms_;
  RateClock h2d_, d2h_, duplex_, disk_read_, disk_write_, no_cap_;
  void take(Tier tier, Bytes size);

  std::mutex arenas_mutex_;
  std::vector<MemoryRegion> arenas_;
  Bytes device_bytes_;
};

std::string CpuDeviceOfOptions::description() const {
  const auto threads = [](int count, const char* kind) {
    return fmt::format("{} {}thread{}", count, kind, count == 1 ? "" : "s");
  };
  if (!emulated()) {
    return fmt::format("CPU, unified, {}, {}", threads(options_.compute_threads, ""), cpu_instruction_set());
  }
  std::string text = fmt::format("emulated device on the CPU, {}, {}", format_bytes(options_.device_capacity),
                                 threads(options_.compute_threads, "compute "));
  if (options_.split_cores)
    text += fmt::format(" on cores of their own, {}", threads(options_.host_threads, "host "));
  const LinkRates& links = options_.links;
  for (const auto& [name, rate] :
       {std::pair{"h2d", links.h2d}, std::pair{"d2h", links.d2h}, std::pair{"both", links.duplex},
        std::pair{"disk read", links.disk_read}, std::pair{"disk write", links.disk_write}}) {
    if (rate > 0) text += fmt::format(", {} {:g} GB/s", name, rate);
  }
  return text + ", " + cpu_instruction_set();
}

// Counts bytes of the device against its capacity.
void CpuDeviceOfOptions::take(Tier tier, Bytes size) {
  if (tier == Tier::device && emulated() && size > options_.device_capacity - device_bytes_) {
    fail(ExitCode::device,
         "the emulated device has {} ({} of them taken) and cannot give {}; lower what the plan keeps "
         "there or raise its capacity",
         format_bytes(options_.device_capacity), format_bytes(device_bytes_), format_bytes(size));
  }
  if (tier == Tier::device) device_bytes_ += size;
}

Arena CpuDeviceOfOptions::allocate(Tier tier, Bytes size, Bytes most) {
  require(tier != Tier::disk, "the disk tier has files, no arena");
  if (size.value < 0) fail(ExitCode::device, "an arena of {} bytes is asked for", size.value);
  const std::lock_guard lock(arenas_mutex_);
  take(tier, size);
  arenas_.emplace_back(size, MemoryRegion::Pages::touched, fmt::format("the {} arena", to_string(tier)),
                       most);
  return {.data = arenas_.back().data(), .size = size, .most = arenas_.back().most()};
}

void CpuDeviceOfOptions::grow(Tier tier, Arena& arena, Bytes size) {
  if (size <= arena.size) return;
  const std::lock_guard lock(arenas_mutex_);
  const auto region = std::find_if(arenas_.begin(), arenas_.end(), [&](const MemoryRegion& candidate) {
    return candidate.data() == arena.data;
  });
  require(region != arenas_.end(), "an arena that grows is this device's");
  take(tier, size - arena.size);
  region->grow(size);
  arena.size = size;
}

LinkSchedule CpuDeviceOfOptions::link_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::h2d:
      return {&h2d_, &duplex_};
    case StreamKind::d2h:
      return {&d2h_, &duplex_};
    case StreamKind::disk_read:
      return {&disk_read_, &no_cap_};
    case StreamKind::disk_write:
      return {&disk_write_, &no_cap_};
    case StreamKind::compute:
    case StreamKind::host:
      break;
  }
  return {};
}

std::unique_ptr<Stream> CpuDeviceOfOptions::create_stream(StreamKind kind) {
  const bool compute = kind == StreamKind::compute;
  // Spinning pays where a core has nothing else to do.
  const bool core_to_spare = options_.split_cores || options_.compute_threads < available_cores();
  return std::make_unique<CpuStream>(StreamOptions{
      .kind = kind,
      .spin = compute && core_to_spare ? kSpin : kNoSpin,
      .link = link_of(kind),
      .on_start = [this, kind,
                   compute] { set_up_thread(to_string(kind), compute ? cores_.compute : cores_.others); },
      .execute = [this, kind](LinkSchedule& link, Work& work) { execute(kind, link, work); }});
}

void CpuDeviceOfOptions::execute(StreamKind kind, LinkSchedule& link, Work& work) {
  const auto on = [&](ThreadPool& pool) {
    std::visit([&](const auto& op) { perform(pool, link, op); }, work);
  };
  if (kind != StreamKind::compute && kind != StreamKind::host) return on(inline_pool_);
  SharedPool& shared = kind == StreamKind::compute ? compute_pool_ : host_pool_;
  const std::lock_guard lock(shared.mutex);
  on(shared.pool);
}

void CpuDeviceOfOptions::perform(ThreadPool& pool, LinkSchedule& link, const CopyWork& work) {
  const auto copy_piece = [&](std::int64_t offset, std::int64_t size) {
    std::memcpy(static_cast<std::byte*>(work.dst) + offset, static_cast<const std::byte*>(work.src) + offset,
                static_cast<std::size_t>(size));
  };
  const std::int64_t piece = kLinkPiece.value;
  const std::int64_t pieces = (work.size.value + piece - 1) / piece;
  const auto size_of_piece = [&](std::int64_t index) {
    return std::min(piece, work.size.value - index * piece);
  };
  if (!link.paced()) {
    const auto task = [&](std::int64_t index) { copy_piece(index * piece, size_of_piece(index)); };
    pool.parallel_for(pieces, std::ref(task));
    return link.other_work_done();
  }
  for (std::int64_t index = 0; index < pieces; ++index) {
    const SteadyTime end = link.reserve({size_of_piece(index)});
    copy_piece(index * piece, size_of_piece(index));
    sleep_until(end, options_.split_cores && index == pieces - 1);
  }
}

void CpuDeviceOfOptions::perform(ThreadPool& pool, LinkSchedule& link, const OffloadGradient& op) {
  if (!link.paced()) {
    cpu::run(pool, op);
    return link.other_work_done();
  }
  constexpr std::int64_t kElements = 2 * kNormChunk;  // 256 or 512 KiB of dst; whole chunks of the norm
  for (std::int64_t first = 0; first < op.elements; first += kElements) {
    OffloadGradient piece = op;
    piece.elements = std::min(kElements, op.elements - first);
    piece.src += first;
    piece.dst = static_cast<std::byte*>(op.dst) + first * size_of(op.type);
    if (op.partial != nullptr) piece.partial += first / kNormChunk;
    const SteadyTime end = link.reserve({piece.elements * size_of(op.type)});
    cpu::run(pool, piece);
    sleep_until(end, options_.split_cores && first + kElements >= op.elements);
  }
}

void CpuDeviceOfOptions::perform(ThreadPool& pool, LinkSchedule& link, const GatherRows& op) {
  if (!link.paced()) {
    cpu::run(pool, op);
    return link.other_work_done();
  }
  const std::int64_t row = op.width * size_of(op.type);
  const std::int64_t rows = std::max<std::int64_t>(1, kLinkPiece.value / row);
  for (std::int64_t first = 0; first < op.count; first += rows) {
    GatherRows piece = op;
    piece.count = std::min(rows, op.count - first);
    piece.index += first;
    piece.out = static_cast<std::byte*>(op.out) + first * row;
    const SteadyTime end = link.reserve({piece.count * row});
    cpu::run(pool, piece);
    sleep_until(end, options_.split_cores && first + rows >= op.count);
  }
}

void CpuDeviceOfOptions::perform(ThreadPool& pool, LinkSchedule& link, const ZeroWork& zero) {
  constexpr std::int64_t kPiece = 512 * 1024;
  const auto task = [&](std::int64_t index) {
    std::memset(static_cast<std::byte*>(zero.dst) + index * kPiece, 0,
                static_cast<std::size_t>(std::min(kPiece, zero.size.value - index * kPiece)));
  };
  pool.parallel_for((zero.size.value + kPiece - 1) / kPiece, std::ref(task));
  link.other_work_done();
}

}  // namespace
}  // namespace cpu

std::unique_ptr<CpuDevice> make_cpu_device(const CpuDeviceOptions& options) {
  return std::make_unique<cpu::CpuDeviceOfOptions>(options);
}

}  // namespace lazytrain
