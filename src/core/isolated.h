// Work in a process of its own: for libraries that may crash or never return, so that this program does
// not. The child is a fork; it sees all memory as it is and can change none of it. It must not use threads,
// locks that other threads may hold, or the program's log.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace lazytrain {

struct IsolationLimits {
  std::chrono::seconds processor_time;
  std::chrono::seconds
      wall_time;  // for a child that waits for something; a busy machine needs much more of it
};

struct IsolatedResult {
  enum class End : std::uint8_t { done, died, not_started };
  End end = End::died;  // died: killed by a signal, by an exception, or at a limit
  std::vector<std::byte> bytes;
};

// The bytes that `work` returned in a child process. The child writes nothing to the terminal and dies with
// the thread that calls this.
IsolatedResult run_isolated(const std::function<std::vector<std::byte>()>& work, IsolationLimits limits);

}  // namespace lazytrain
