// Re-planning while a run goes on: every step's operations are held against the simulation that the plan was
// chosen by. Where steps take more or less time than simulated, or a link has lost a good part of its rate,
// planning is done again with the costs and rates that were measured, and another plan is offered if it is
// faster under them.
//
// The micro-batch and the homes of parameter groups stay: a new plan takes over between two steps and moves
// nothing. It cannot change a result, as no plan can.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/inputs.h"
#include "planning/portfolio.h"

namespace lazytrain {

class Replanner {
 public:
  // `planned` was made from `inputs`, by `policy`.
  Replanner(PlanningInputs inputs, std::string policy, PlannedStep planned);

  // After a step of the plan in use: its wall time, and start and end of each of its operations. True: step()
  // is another plan from now on.
  bool after_step(Seconds seconds, std::span<const SimulatedOp> measured);

  // The plan in use.
  [[nodiscard]] const PlannedStep& step() const { return planned_; }
  // What was found the last time that planning was done again, as a clause: "steps take 1.30 s instead of
  // 1.00 s, h2d runs at 25 % of its rate: ...".
  [[nodiscard]] const std::string& why() const { return why_; }

 private:
  // Of a step: its time, and by stream how much longer its operations took than simulated (0: too few to
  // tell).
  struct Observation {
    Seconds seconds = 0;
    std::array<double, kStreamCount> slower{};
  };
  [[nodiscard]] Observation median() const;
  void correct(const Observation& seen);
  [[nodiscard]] std::optional<PlannedStep> other_plan() const;
  bool plan_again(const Observation& seen);

  PlanningInputs inputs_;
  std::string policy_;
  PlannedStep planned_;
  Seconds expected_;  // of a step
  std::vector<Observation> recent_;
  std::int64_t ignored_ = 0;  // steps still to be left out
  int in_vain_ = 0;           // plannings in a row that found nothing better
  std::string why_;
};

}  // namespace lazytrain
