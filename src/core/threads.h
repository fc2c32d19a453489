// A fixed pool of threads for loops over independent tiles. Not OpenMP: its runtime confuses
// ThreadSanitizer, and nested regions would oversubscribe the cores.
//
// Determinism rule of the whole project: a task writes only its own tile and the tile list depends only
// on the problem, never on the number of threads. Then any assignment of tasks to threads gives the same
// bits.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lazytrain {

class ThreadPool {
 public:
  // `threads` >= 1 counts the caller: a pool of one runs everything inline.
  // `on_start` runs once in every worker before its first task (set affinity, OpenMP thread count...).
  // `spin`: how long a thread looks for the next loop, or for the end of this one, before it sleeps. Waking
  // a sleeper costs tens of microseconds, so it pays where short loops follow each other and cores are idle.
  // Error(does_not_fit) where the system does not start that many threads; those that run already are ended.
  explicit ThreadPool(int threads, std::function<void(int worker)> on_start = {},
                      std::chrono::nanoseconds spin = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Runs task(0) .. task(count-1), each once, on all threads, the caller's included; returns when all have
  // finished. Tasks are handed out dynamically. The first exception is rethrown in the caller after the
  // others have ended. One caller at a time; a task must not call parallel_for on the same pool.
  void parallel_for(std::int64_t count, const std::function<void(std::int64_t index)>& task);

 private:
  void work(int worker);
  void end_workers();
  void drain();

  std::vector<std::thread> workers_;
  std::function<void(int)> on_start_;
  std::chrono::nanoseconds spin_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(std::int64_t)>* task_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<std::uint64_t> round_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;
};

// A thread of its own. Error(does_not_fit) where the system starts no more.
std::thread start_thread(std::function<void()> body);

// Cores this process may use: the affinity mask, capped by the cgroup's CPU quota.
int available_cores();

}  // namespace lazytrain
