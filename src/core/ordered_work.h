// A stream of pieces that many threads work on, with memory for a few of them at a time: each piece is read
// by one thread after the other, worked on by any, and written by one after the other, in the order of
// reading. Threads take the next piece as they become free, so a long one holds up nobody; what is written
// does not depend on their number.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "core/threads.h"

namespace lazytrain {

template <typename In, typename Out>
class OrderedWork {
 public:
  struct Stages {
    std::function<bool(In&)> read;     // false: there is no more
    std::function<Out(In&&)> work;     // on several threads at once
    std::function<bool(Out&&)> write;  // false: that is enough, the rest is dropped
  };

  // Ends when all is written. The exception of the piece that comes first in the order of reading is
  // rethrown, after everything before it was written, however the threads ran. At most `most` pieces are
  // between reading and writing; at least one a thread is allowed.
  static void run(ThreadPool& pool, std::int64_t most, const Stages& stages) {
    OrderedWork state(std::max<std::int64_t>(most, pool.size()), stages);
    pool.parallel_for(pool.size(), [&](std::int64_t) { state.lane(); });
    if (state.failure_) std::rethrow_exception(state.failure_);
  }

 private:
  struct Piece {
    Out out{};
    std::exception_ptr failure;
  };

  OrderedWork(std::int64_t most, const Stages& stages) : most_(most), stages_(stages) {}

  void lane() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || (!reading_ && issued_ - written_ < most_); });
      if (ended_) return;
      reading_ = true;
      const std::int64_t number = issued_++;
      lock.unlock();
      In in{};
      Piece piece;
      bool more = false;
      try {
        more = stages_.read(in);
      } catch (...) {
        piece.failure = std::current_exception();
      }
      lock.lock();
      reading_ = false;
      if (!more) ended_ = true;
      if (!more && !piece.failure) --issued_;
      changed_.notify_all();
      if (!more && !piece.failure) return;
      lock.unlock();
      try {
        if (!piece.failure) piece.out = stages_.work(std::move(in));
      } catch (...) {
        piece.failure = std::current_exception();
      }
      lock.lock();
      done_.emplace(number, std::move(piece));
      write_what_is_next(lock);
      changed_.notify_all();
    }
  }

  // Who finds the next piece done, and nobody writing, writes.
  void write_what_is_next(std::unique_lock<std::mutex>& lock) {
    if (writing_) return;
    writing_ = true;
    while (!enough_ && !done_.empty() && done_.begin()->first == written_) {
      Piece piece = std::move(done_.begin()->second);
      done_.erase(done_.begin());
      lock.unlock();
      bool more = false;
      try {
        if (!piece.failure) more = stages_.write(std::move(piece.out));
      } catch (...) {
        piece.failure = std::current_exception();
      }
      lock.lock();
      ++written_;
      if (piece.failure) failure_ = piece.failure;
      if (!more) enough_ = ended_ = true;
      changed_.notify_all();
    }
    writing_ = false;
  }

  std::int64_t most_;
  const Stages& stages_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t issued_ = 0, written_ = 0;
  bool reading_ = false, writing_ = false;
  bool ended_ = false;   // nothing more is read
  bool enough_ = false;  // nothing more is written
  std::map<std::int64_t, Piece> done_;
  std::exception_ptr failure_;
};

}  // namespace lazytrain
