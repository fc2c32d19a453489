// A stream of the CPU backend: a queue and the thread that works it off, in order.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "device/cpu/link.h"
#include "device/cpu/progress.h"
#include "device/cpu/work_queue.h"
#include "device/device.h"

namespace lazytrain::cpu {

struct StreamOptions {
  StreamKind kind;
  std::chrono::nanoseconds spin;  // how long the thread looks for work, or for an event, before it sleeps
  LinkSchedule link;
  std::function<void()> on_start;                     // in the thread, first
  std::function<void(LinkSchedule&, Work&)> execute;  // any Work but a WaitWork
};

// Work that throws fails the stream: its exception is kept for synchronize(), all later work is skipped
// but for waits, and events still fire, so that nobody waits for ever.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(StreamOptions options);
  ~CpuStream() override;  // works the queue off first

  [[nodiscard]] StreamKind kind() const override { return options_.kind; }
  void push(Work work) { queue_.push(std::move(work)); }
  // What an event records: this stream's progress, and how far it is when all work pushed so far is done.
  [[nodiscard]] WaitWork end() const { return {progress_, queue_.pushed()}; }
  // Blocks until all work pushed so far is done; rethrows its first exception, after which the stream
  // works again.
  void synchronize();

 private:
  void work_off();
  void run(Work& work);

  StreamOptions options_;
  WorkQueue queue_;
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  std::atomic<bool> failed_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace lazytrain::cpu
