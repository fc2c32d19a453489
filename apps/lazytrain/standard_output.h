// Writing to standard output, which may be a pipe whose reader has left (`lazytrain train run.yaml | head
// -1`): that is no error of what the command does, so it goes on without a word. SIGPIPE is ignored in
// main().
#pragma once

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace lazytrain {

// For lines that accompany work: whatever happens to them, the work goes on.
inline void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// For what a command is there to print: only a reader that left excuses from it. Error(disk) otherwise.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  errno = 0;
  const bool whole =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!whole && errno != EPIPE)
    fail(ExitCode::disk, "standard output: cannot write to it: {}", std::strerror(errno));
}

}  // namespace lazytrain
