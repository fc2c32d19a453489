#include "device/cpu/cpu_stream.h"

#include <utility>

#include "core/threads.h"

namespace lazytrain::cpu {

CpuStream::CpuStream(StreamOptions options)
    : options_(std::move(options)), thread_(start_thread([this] { work_off(); })) {}

CpuStream::~CpuStream() {
  queue_.close();
  thread_.join();
}

void CpuStream::run(Work& work) {
  if (const auto* wait = std::get_if<WaitWork>(&work)) {
    wait->progress->wait(wait->count, options_.spin);
    options_.link.not_before(wait->progress->latest());
    return;
  }
  if (failed_.load(std::memory_order_relaxed)) return;
  try {
    options_.execute(options_.link, work);
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    failure_ = std::current_exception();
    failed_ = true;
  }
}

void CpuStream::work_off() {
  if (options_.on_start) options_.on_start();
  std::uint64_t done = 0;
  while (WorkQueue::Entry* entry = queue_.front(options_.spin)) {
    options_.link.not_before(entry->pushed_at);
    run(entry->work);
    queue_.pop();  // before the event fires: what a function has captured is gone by then
    progress_->publish(++done, std::chrono::steady_clock::now());
  }
}

void CpuStream::synchronize() {
  const WaitWork all = end();
  all.progress->wait(all.count, {});
  const std::lock_guard lock(failure_mutex_);
  failed_ = false;
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace lazytrain::cpu
