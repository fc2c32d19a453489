#include "device/cpu/work_queue.h"

#include <utility>

#include "device/cpu/spin.h"

namespace lazytrain::cpu {

WorkQueue::WorkQueue() : last_(new_chunk()), first_(last_) {}

WorkQueue::Chunk* WorkQueue::new_chunk() {
  if (spare_.empty()) return chunks_.emplace_back(std::make_unique<Chunk>()).get();
  Chunk* chunk = spare_.back();
  spare_.pop_back();
  chunk->next = nullptr;
  return chunk;
}

std::uint64_t WorkQueue::push(Work work) {
  bool wake = false;
  std::uint64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t index = pushed_.load(std::memory_order_relaxed);
    if (index > 0 && index % kChunk == 0) {
      Chunk* chunk = new_chunk();
      last_->next = chunk;
      last_ = chunk;
    }
    last_->entries[index % kChunk] = {std::move(work), std::chrono::steady_clock::now()};
    count = index + 1;
    pushed_.store(count);
    wake = std::exchange(sleeping_, false);
  }
  if (wake) filled_.notify_one();
  return count;
}

void WorkQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    sleeping_ = false;
  }
  filled_.notify_one();
}

WorkQueue::Entry* WorkQueue::front(std::chrono::nanoseconds spin) {
  const auto ready = [&] { return pushed_.load() > popped_ || closed_.load(); };
  if (!spin_for(spin, ready)) {
    std::unique_lock lock(mutex_);
    while (!ready()) {
      sleeping_ = true;
      filled_.wait(lock);
    }
    sleeping_ = false;
  }
  if (pushed_.load() == popped_) return nullptr;
  if (std::exchange(first_used_up_, false)) {
    Chunk* used = std::exchange(first_, first_->next);
    const std::lock_guard lock(mutex_);
    spare_.push_back(used);
  }
  return &first_->entries[popped_ % kChunk];
}

void WorkQueue::pop() {
  first_->entries[popped_ % kChunk].work = std::monostate{};
  first_used_up_ = ++popped_ % kChunk == 0;
}

}  // namespace lazytrain::cpu
