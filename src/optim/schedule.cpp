#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lazytrain {

const char* to_string(Schedule schedule) {
  switch (schedule) {
    case Schedule::linear:
      return "linear";
    case Schedule::cosine:
      return "cosine";
    case Schedule::constant:
      return "constant";
    case Schedule::constant_with_warmup:
      return "constant_with_warmup";
  }
  return "?";
}

Schedule schedule_from(std::string_view name, const std::string& where) {
  for (const Schedule schedule :
       {Schedule::linear, Schedule::cosine, Schedule::constant, Schedule::constant_with_warmup}) {
    if (name == to_string(schedule)) return schedule;
  }
  fail(ExitCode::usage, "{}: '{}' is not a schedule; use linear, cosine, constant or constant_with_warmup",
       where, name);
}

double learning_rate(Schedule schedule, std::int64_t step, std::int64_t total_steps,
                     std::int64_t warmup_steps, double base) {
  if (schedule == Schedule::constant) return base;
  if (step < warmup_steps) {
    return base * (static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(1, warmup_steps)));
  }
  if (schedule == Schedule::constant_with_warmup) return base;
  const auto span = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  if (schedule == Schedule::linear) {
    return base * std::max(0.0, static_cast<double>(total_steps - step) / span);
  }
  // A schedule that has ended stays at 0 instead of rising again.
  if (step >= total_steps) return 0.0;
  const double progress = static_cast<double>(step - warmup_steps) / span;
  return base * std::max(0.0, 0.5 * (1.0 + std::cos(std::numbers::pi * progress)));
}

std::int64_t warmup_step_count(double warmup_steps, double warmup_ratio, std::int64_t total_steps) {
  const auto total = static_cast<double>(total_steps);
  if (warmup_steps >= 1.0) return static_cast<std::int64_t>(warmup_steps);
  if (warmup_steps > 0.0) return static_cast<std::int64_t>(std::ceil(total * warmup_steps));
  return static_cast<std::int64_t>(std::ceil(total * warmup_ratio));
}

}  // namespace lazytrain
