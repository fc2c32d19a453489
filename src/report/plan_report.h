// Tables for the terminal: where the bytes of a step are, what each policy would cost, and what the chosen
// one costs. Times that were not measured are called simulated, machines that are imitated are called
// emulated.
//
// Every function returns whole lines, each ended by a newline; none is wider than 120 columns.
#pragma once

#include <string>
#include <vector>

#include "planning/portfolio.h"

namespace lazytrain {

// What each tier holds at its fullest moment and what it may hold: one block a tier.
std::string tiers_table(const Program& program, const Machine& machine);

// All candidates, the chosen one marked: fits?, bytes, simulated step, recompute, exposed time, tok/s.
std::string policies_table(const std::vector<Evaluation>& table, const Machine& machine);

// The chosen plan in a few lines: policy, micro-batches, knobs, simulated step and its parts.
std::string step_summary(const PlannedStep& step, const Machine& machine, const CostTable& costs);

// Where the time of compute goes and how busy each stream is, of the simulated step.
std::string time_summary(const PlannedStep& step);

// What a run measured beside what was planned.
struct MeasuredStep {
  Seconds step = 0, compute = 0, exposed = 0;  // medians over steps
  Bytes device_peak, host_peak;                // highest byte touched in each arena
};
std::string planned_and_measured(const PlannedStep& step, const MeasuredStep& measured,
                                 const Machine& machine);

}  // namespace lazytrain
