// The portfolio: every policy and variant is lowered, verified and simulated; the fastest that fits is the
// plan. Whatever comes out has passed the verifier, so it may run.
//
// Deterministic: the same inputs give the same plan, on every machine.
#pragma once

#include <string>
#include <vector>

#include "planning/inputs.h"
#include "program/program.h"
#include "program/simulator.h"

namespace lazytrain {

// One line of the table of policies. All times are simulated.
struct Evaluation {
  std::string policy;   // "every-k"
  std::string variant;  // "K=4", empty where a policy has one form only
  bool fits = false;
  std::string why_not;  // one clause where it does not
  bool chosen = false;
  std::int64_t micro_batch = 1;
  bool optimizer_overlap = false;
  Bytes device, host;  // arenas of the step
  Seconds step = 0, compute = 0, recompute = 0, exposed = 0;
  double tokens_per_second = 0;  // slots x slot_tokens / step
};

struct PlannedStep {
  Machine machine;  // that it was planned for, its disk included
  Plan plan;
  Program program;
  Simulation simulation;
  std::vector<Evaluation> table;
};

// The best plan of `policy` (one of policy_names()). Throws Error(usage) for another name and
// Error(does_not_fit) where nothing fits, naming the smallest change that helps.
PlannedStep plan_step(const PlanningInputs& inputs, const std::string& policy);

// A plan that exists (a file, a resumed run): lowered, verified, simulated. Throws Error(usage) where it is
// not for this model or batch, Error(does_not_fit) where the machine is too small for it.
PlannedStep use_plan(const PlanningInputs& inputs, const Plan& plan);

}  // namespace lazytrain
