// What people ask of a planner beside "what is the plan": which batch is best and which still fits, what more
// memory or faster links would buy, how policies compare, which limit binds. All of it is answered by
// planning again with one thing changed; all times are simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/inputs.h"
#include "planning/portfolio.h"

namespace lazytrain {

// The plan of `policy` for one changed machine or batch; why_not where there is none.
struct Answer {
  std::string label;  // "batch 24", "host 64.0 GB"
  double value = 0;   // slots, GB or GB/s
  bool fits = false;
  bool current = false;  // as things are
  std::string why_not;   // one clause
  Evaluation row;        // of the plan, where it fits
};

// Micro-batches are chosen anew for every batch, unless inputs.batch.micro_batch is set.
struct BatchAnswer {
  std::vector<Answer> tried;  // by slots
  std::int64_t best = 0;      // slots with the most tokens a second; 0: none fits
  std::int64_t largest = 0;   // the most slots that fit, up to kMostBatch
};
inline constexpr std::int64_t kMostBatch = 1 << 14;
BatchAnswer find_batch(const PlanningInputs& inputs, const std::string& policy);

enum class SweepAxis : std::uint8_t { batch, device, host, link, disk };
[[nodiscard]] const char* to_string(SweepAxis axis);
// Throws Error(usage) listing the axes.
SweepAxis sweep_axis_from(const std::string& name);

// A quarter to four times of what there is, in steps of the square root of two. Throws Error(usage) where the
// machine has nothing of it (a unified machine's links, a disk where there is none).
std::vector<Answer> sweep(const PlanningInputs& inputs, const std::string& policy, SweepAxis axis);

// The best plan of every policy, a line "4F" last: every layer's forward twice, nothing exposed, a bar that a
// planner has to pass; and "3F", below which no plan comes.
std::vector<Evaluation> compare_policies(const PlanningInputs& inputs);

// What one thing more would buy.
struct Gain {
  std::string what;  // "1 GB more host memory"
  Seconds step = 0;  // simulated, with it
  double part = 0;   // of the step saved: 0.02 = 2 %
};
struct Explanation {
  PlannedStep step;
  std::vector<Gain> gains;  // the largest first
};
Explanation explain(const PlanningInputs& inputs, const std::string& policy);

}  // namespace lazytrain
