#include "core/threads.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "core/cgroup.h"
#include "core/error.h"

namespace lazytrain {
namespace {

// Spins until ready() or until `longest` is over.
template <typename Ready>
void spin_until(std::chrono::nanoseconds longest, Ready ready) {
  if (longest.count() <= 0) return;
  const auto end = std::chrono::steady_clock::now() + longest;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
}

// What the system says when it starts no thread: a limit on threads or memory is reached.
[[noreturn]] void fail_thread(const std::string& which, const char* reason) {
  fail(ExitCode::does_not_fit,
       "the system does not start {} ({}); lower threads, or raise the limits on threads and memory", which,
       reason);
}

}  // namespace

std::thread start_thread(std::function<void()> body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    fail_thread("another thread", error.code().message().c_str());
  }
}

ThreadPool::ThreadPool(int threads, std::function<void(int)> on_start, std::chrono::nanoseconds spin)
    : on_start_(std::move(on_start)), spin_(spin) {
  const auto refuse = [&](const char* reason) {
    const std::size_t running = workers_.size() + 1;
    end_workers();
    fail_thread(fmt::format("more than {} of {} threads", running, threads), reason);
  };
  try {
    workers_.reserve(static_cast<std::size_t>(std::max(threads, 1)) - 1);
    for (int worker = 1; worker < threads; ++worker) workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& error) {
    refuse(error.code().message().c_str());
  } catch (const std::bad_alloc&) {
    refuse("out of memory");
  }
}

ThreadPool::~ThreadPool() {
  end_workers();
}

void ThreadPool::end_workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::drain() {
  try {
    for (std::int64_t index = next_++; index < count_; index = next_++) (*task_)(index);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    next_ = count_;
  }
}

void ThreadPool::work(int worker) {
  if (on_start_) on_start_(worker);
  std::uint64_t seen = 0;
  for (;;) {
    spin_until(spin_, [&] { return stop_ || round_ != seen; });
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    drain();
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void ThreadPool::parallel_for(std::int64_t count, const std::function<void(std::int64_t)>& task) {
  if (workers_.empty() || count <= 1) {
    for (std::int64_t index = 0; index < count; ++index) task(index);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    count_ = count;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  wake_.notify_all();
  drain();
  spin_until(spin_, [&] { return busy_ == 0; });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cores = 1;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) cores = std::max(1, CPU_COUNT(&mask));
  if (const auto quota = cgroup_cpu_quota())
    cores = static_cast<int>(std::clamp(std::ceil(*quota), 1.0, static_cast<double>(cores)));
  return cores;
}

}  // namespace lazytrain
