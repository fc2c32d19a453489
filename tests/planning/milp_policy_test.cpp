// Plans of policy milp, judged by the simulator: against every plan of tiny models, against the heuristics,
// and against machines that have more.
#include "planning/milp_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planning/candidates.h"
#include "planning/planning_support.h"
#include "planning/policies.h"
#include "planning/portfolio.h"
#include "planning/random_steps.h"
#include "planning/solver.h"
#include "program/builder.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 1};

TEST(MilpPolicy, GivesTheSamePlanTwice) {
  const PlanningInputs inputs = random_inputs(3, kBatch, 4);
  EXPECT_EQ(to_json(plan_step(inputs, "milp").plan), to_json(plan_step(inputs, "milp").plan));
}

TEST(MilpPolicy, SaysHowFarItMayBeFromTheBest) {
  const PlannedStep step = plan_step(random_inputs(4, kBatch, 6), "milp");
  EXPECT_EQ(step.plan.policy, "milp");
  EXPECT_GT(step.plan.bound, 0);
  EXPECT_LE(step.plan.bound, step.plan.objective);
  // The simulator is the judge; the program is to be close to it.
  EXPECT_NEAR(step.plan.objective, step.simulation.step, 0.1 * step.simulation.step);
  EXPECT_NE(step.table.front().variant.find("gap"), std::string::npos);
}

TEST(MilpPolicy, OnOneTierItIsAtLeastAsGoodAsEveryHeuristic) {
  for (const int percent : {30, 50, 70, 90, 100}) {
    PlanningInputs inputs = small_inputs(6, kBatch, TierModel::unified);
    const Bytes least = leanest_sizes(inputs, kBatch, "every-k").back().device;
    const Bytes most = plan_step(inputs, "keep-all").program.device_bytes;
    inputs.machine.device_capacity = least + Bytes{(most - least).value * percent / 100};
    Seconds heuristics = kInfinity;
    for (const Candidate& candidate : Candidates(inputs, kBatch).of("auto"))
      if (candidate.row.fits) heuristics = std::min(heuristics, candidate.row.step);
    EXPECT_LE(milp_step(inputs, kBatch), heuristics * (1 + 1e-3)) << percent;
  }
}

TEST(MilpPolicy, FallsBackWhereItsProgramHasNoPlan) {
  const BatchGeometry batch{.slots = 1, .slot_tokens = 8, .micro_batch = 1};
  const PlanningInputs inputs = small_inputs(kMostProgramLayers + 1, batch);
  const PlannedStep step = plan_step(inputs, "milp");
  EXPECT_EQ(step.plan.policy, "milp");
  EXPECT_EQ(step.table.front().variant.rfind("fell back to greedy: ", 0), 0u) << step.table.front().variant;
}

}  // namespace
}  // namespace lazytrain
