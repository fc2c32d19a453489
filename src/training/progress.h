// What a person sees while training runs: a bar with loss, learning rate, speed and remaining time on a
// terminal, a plain line every few steps elsewhere.
//
// Speeds count this session only (a resumed run starts from nothing, not from the steps of earlier
// sessions); tokens are real ones, padding is not counted: its share shows as the difference to slots.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/units.h"

namespace lazytrain {

struct ProgressOptions {
  std::int64_t total_steps = 0;
  std::int64_t steps_done = 0;  // before this session: the step a resumed run starts from
  std::int64_t line_every = 1;  // without a terminal: one line every so many steps
  bool terminal = false;        // draw a bar that is redrawn in place
  bool colours = false;
  int width = 100;                                    // columns of the terminal
  std::function<Seconds()> clock = {};                // empty: the system's monotonic clock
  std::function<void(std::string_view)> output = {};  // empty: standard error
};

// The options for standard error as it is: terminal or not, its width, colours.
[[nodiscard]] ProgressOptions progress_options(std::int64_t total_steps, std::int64_t steps_done,
                                               std::int64_t line_every);

// One finished optimizer step.
struct StepProgress {
  double loss = 0;
  double lr = 0;
  std::int64_t tokens = 0;  // real tokens: everything but padding
  std::int64_t slots = 0;   // fixed-length slots, padding included
  Seconds seconds = 0;      // of the step itself, without evaluation and saving
};

class Progress {
 public:
  explicit Progress(ProgressOptions options);  // the session's clock starts here
  ~Progress();                                 // leaves the last frame of a bar standing
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Draws the bar without figures: before the first step.
  void start();
  void step(const StepProgress& step);
  // A message of its own line above the bar.
  void message(std::string_view text);

  [[nodiscard]] Seconds elapsed() const;
  // Time to the last step by this session's wall-clock speed, evaluation and saving included; unknown
  // before the first step.
  [[nodiscard]] std::optional<Seconds> remaining() const;
  // Per second of step time; 0 before the first step.
  [[nodiscard]] double tokens_per_second() const;
  [[nodiscard]] double slots_per_second() const;
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

 private:
  [[nodiscard]] std::string figures() const;
  void draw();
  void clear();

  ProgressOptions options_;
  Seconds start_ = 0;
  std::int64_t step_ = 0;
  std::int64_t session_steps_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t slots_ = 0;
  Seconds step_seconds_ = 0;
  StepProgress last_;
  bool drawn_ = false;
};

}  // namespace lazytrain
