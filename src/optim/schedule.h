// Learning-rate schedules, as Hugging Face Trainer computes them: float64, one value per optimizer step.
// Source of the formulas: transformers' get_linear / cosine / constant schedule definitions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain {

enum class Schedule : std::uint8_t {
  linear,                // rises over the warm-up, then falls to 0 at total_steps
  cosine,                // rises over the warm-up, then half a cosine down to 0 at total_steps
  constant,              // the base rate from the first step on: no warm-up, as Hugging Face has it
  constant_with_warmup,  // rises over the warm-up, then stays
};
[[nodiscard]] const char* to_string(Schedule schedule);
// Throws Error(usage) listing the schedules; `where` opens the message ("run.yaml:12: lr_scheduler_type").
Schedule schedule_from(std::string_view name, const std::string& where);

// The rate used by optimizer step `step` (0-based, in 0..total_steps). With a warm-up, step 0 has rate 0
// (it still updates the moments).
[[nodiscard]] double learning_rate(Schedule schedule, std::int64_t step, std::int64_t total_steps,
                                   std::int64_t warmup_steps, double base);

// How many steps warm up: `warmup_steps` if positive (below 1 it is a ratio of total_steps), else
// ceil(total_steps * warmup_ratio).
[[nodiscard]] std::int64_t warmup_step_count(double warmup_steps, double warmup_ratio,
                                             std::int64_t total_steps);

}  // namespace lazytrain
