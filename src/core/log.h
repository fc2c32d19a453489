// Messages to the user on standard error: plain lines, coloured only on a terminal. Progress bars and
// tables belong to the callers; this is for notices, warnings and errors.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>

namespace lazytrain::log {

enum class Level { debug, info, warning, error };

// What could steer the terminal is taken out (core/printable.h): a warning or error is one line, notices may
// have several, and colours.
void write(Level level, const std::string& message);
void set_level(Level lowest_shown);
// True where standard error (or another descriptor) is a terminal that understands colours (NO_COLOR unset,
// TERM not dumb).
bool terminal(int descriptor = 2);

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lazytrain::log
