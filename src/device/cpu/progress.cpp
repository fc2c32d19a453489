#include "device/cpu/progress.h"

#include "device/cpu/spin.h"

namespace lazytrain::cpu {

void Progress::publish(std::uint64_t count, Time time) {
  latest_.store(time.time_since_epoch().count(), std::memory_order_relaxed);  // carried by done_
  done_.store(count);
  if (waiters_.load() == 0) return;
  { const std::lock_guard lock(mutex_); }  // a waiter between its look and its sleep holds the lock
  changed_.notify_all();
}

void Progress::wait(std::uint64_t count, std::chrono::nanoseconds spin) {
  if (spin_for(spin, [&] { return reached(count); })) return;
  std::unique_lock lock(mutex_);
  ++waiters_;
  changed_.wait(lock, [&] { return reached(count); });
  --waiters_;
}

}  // namespace lazytrain::cpu
