// Work in a process of its own: for libraries that may crash or never return, so that this program does not.
// The child is a fork; it sees all memory as it is and can change none of it. It must not use threads, locks
// that other threads may hold, or the program's log.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

namespace lazytrain {

// The bytes that `work` returned in a child process; nothing where the child was killed by a signal, threw,
// ran out of `most_processor_time`, or could not be started. The child writes nothing to the terminal and
// dies with its parent.
std::optional<std::vector<std::byte>> run_isolated(const std::function<std::vector<std::byte>()>& work,
                                                   std::chrono::seconds most_processor_time);

}  // namespace lazytrain
