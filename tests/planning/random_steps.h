// Random small steps for tests of the planner, and what policy milp makes of one.
#pragma once

#include <algorithm>
#include <cmath>

#include "planning/candidates.h"
#include "planning/planning_support.h"
#include "planning/policies.h"
#include "planning/solver.h"
#include "program/builder.h"

namespace lazytrain {

// A machine between the leanest and the roomiest.
inline PlanningInputs random_inputs(std::uint64_t n, const BatchGeometry& batch, std::int64_t layers) {
  Random random(5, n);
  PlanningInputs inputs = small_inputs(layers, batch, TierModel::tiered, random.below(2) == 0);
  inputs.machine.h2d = inputs.machine.d2h = 0.01 * std::pow(100, random.uniform());
  if (random.below(3) == 0) inputs.machine.duplex = 1.5 * inputs.machine.h2d;
  inputs.costs.update_per_parameter *= std::pow(10, 2 * random.uniform() - 1);
  const WorkspaceBytes workspace = inputs.workspace(batch.micro_batch, batch.slot_tokens);
  const auto bytes = [&](const Plan& plan) {
    return lower_train_step(inputs.context, plan, workspace, LoweringDepth::memory);
  };
  const Program lean = bytes(knob_ladder(bare_plan(inputs, batch, {}), inputs).back());
  const Program roomy = bytes(keep_all_plan(inputs, batch));
  const Program away = bytes(offload_all_plan(inputs, batch, StashLevel::all));
  const auto between = [&](Bytes low, Bytes high) {
    return low + Bytes{static_cast<std::int64_t>(static_cast<double>((high - low).value) * random.uniform())};
  };
  inputs.machine.device_capacity = between(lean.device_bytes, roomy.device_bytes);
  inputs.machine.host_capacity = between(roomy.host_bytes, away.host_bytes);
  return inputs;
}

// The fastest plan of policy milp; infinite where none fits.
inline Seconds milp_step(const PlanningInputs& inputs, const BatchGeometry& batch) {
  Seconds best = kInfinity;
  for (const Candidate& candidate : Candidates(inputs, batch).of("milp"))
    if (candidate.row.fits) best = std::min(best, candidate.row.step);
  return best;
}

}  // namespace lazytrain
