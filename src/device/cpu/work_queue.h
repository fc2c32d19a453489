// The queue between those who put work into a stream and the stream's thread. Any thread may push; one
// thread pops. Nothing is allocated once the queue has been as long as it gets: work lives in chunks that
// are used again.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/cpu/work.h"

namespace lazytrain::cpu {

class WorkQueue {
 public:
  struct Entry {
    Work work;
    std::chrono::steady_clock::time_point pushed_at;
  };

  WorkQueue();

  // The number of pieces pushed so far, this one included.
  std::uint64_t push(Work work);
  [[nodiscard]] std::uint64_t pushed() const { return pushed_.load(); }
  // No more work will come: front() returns null when the queue is empty.
  void close();

  // The oldest piece; waits for one, spinning for `spin` before it sleeps. Null once the queue is closed and
  // empty. The piece stays in the queue until pop().
  Entry* front(std::chrono::nanoseconds spin);
  void pop();

 private:
  static constexpr std::size_t kChunk = 256;  // about 35 KB
  struct Chunk {
    std::array<Entry, kChunk> entries;
    Chunk* next = nullptr;
  };
  Chunk* new_chunk();

  std::mutex mutex_;  // guards pushing, the list of chunks and sleeping
  std::condition_variable filled_;
  std::atomic<std::uint64_t> pushed_{0};
  std::atomic<bool> closed_{false};
  bool sleeping_ = false;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> spare_;
  Chunk* last_;

  Chunk* first_;  // from here on the popping thread's alone
  std::uint64_t popped_ = 0;
  bool first_used_up_ = false;
};

}  // namespace lazytrain::cpu
