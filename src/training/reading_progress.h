// What a person sees while a large dataset is read: how much is behind and how long it will take. Nothing for
// one that is read in a moment.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/units.h"

namespace lazytrain {

struct ReadingProgressOptions {
  bool terminal = false;                              // redraw one line; else a line every ten seconds
  std::function<Seconds()> clock = {};                // empty: the system's monotonic clock
  std::function<void(std::string_view)> output = {};  // empty: standard error
};

class ReadingProgress {
 public:
  explicit ReadingProgress(ReadingProgressOptions options);  // the clock starts here
  ~ReadingProgress();                                        // clears the line
  ReadingProgress(const ReadingProgress&) = delete;
  ReadingProgress& operator=(const ReadingProgress&) = delete;

  void update(std::uint64_t done, std::uint64_t all);  // bytes

 private:
  ReadingProgressOptions options_;
  Seconds start_ = 0;
  Seconds shown_ = 0;
  bool drawn_ = false;
};

// The options for standard error as it is.
[[nodiscard]] ReadingProgressOptions reading_progress_options();

}  // namespace lazytrain
