// How far a stream has come: the number of pieces of work it has finished. An event is a stream's progress
// and a number, so recording one costs nothing and waiting for one needs no work of the other stream.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace lazytrain::cpu {

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // By the stream's thread alone: `count` pieces are done at `time`, and what they wrote is visible to all
  // who wait.
  void publish(std::uint64_t count, Time time);
  [[nodiscard]] bool reached(std::uint64_t count) const { return done_.load() >= count; }
  // When the stream finished its latest piece: no earlier than any piece that was reached().
  [[nodiscard]] Time latest() const { return Time(Time::duration(latest_.load())); }
  // Blocks until `count` pieces are done; spins for `spin` before it sleeps.
  void wait(std::uint64_t count, std::chrono::nanoseconds spin);

 private:
  // Sequentially consistent on purpose: a waiter announces itself and then looks at done_, the publisher
  // sets done_ and then looks for waiters, so that one of the two sees the other.
  std::atomic<std::uint64_t> done_{0};
  std::atomic<int> waiters_{0};
  std::atomic<Time::rep> latest_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace lazytrain::cpu
