// Errors that reach the user: one sentence that says what is wrong, where, and what to do, and an exit
// code that says of which kind it is. Everything that can fail on bad input throws lazytrain::Error; a
// broken promise inside the program (a bug) is a std::logic_error raised by LAZYTRAIN check().
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lazytrain {

// Process exit codes. Scripts rely on the numbers: never renumber.
enum class ExitCode : int {
  ok = 0,
  usage = 2,         // command line or run.yaml
  data = 3,          // datasets
  model_file = 4,    // weights, tokenizer, config.json, checkpoints
  does_not_fit = 5,  // no plan within the budgets
  disk = 6,          // disk full, I/O error
  device = 7,
  numerics = 8,      // non-finite three times in a row
  interrupted = 130  // stopped by a signal, state saved
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

// Throws Error with a message in fmt syntax: fail(ExitCode::data, "{}:{}: not JSON", file, line).
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// An internal promise; violated only by a bug of ours.
inline void check(bool holds, const char* promise) {
  if (!holds) throw std::logic_error(std::string("internal error: ") + promise);
}

}  // namespace lazytrain
