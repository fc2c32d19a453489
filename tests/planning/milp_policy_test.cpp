// Plans of policy milp, judged by the simulator: against every plan of tiny models, against the heuristics,
// and against machines that have more.
#include "planning/milp_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planning/candidates.h"
#include "planning/lean_sizes.h"
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
  PlanningInputs with_known = inputs;
  with_known.known_step = 1e-9;
  EXPECT_EQ(plan_step(with_known, "milp").simulation.step, step.simulation.step);
}

// What a known step leaves out is slower: no simulated step is far below the bound of its program.
TEST(MilpPolicy, LeavesOutLargeProgramsThatAreSlowerThanAKnownStep) {
  double least = kInfinity;  // simulated step / bound
  int left_out = 0;
  for (std::uint64_t n = 0; n < 8; ++n) {
    const BatchGeometry batch{
        .slots = 1 + static_cast<std::int64_t>(n % 4), .slot_tokens = 8, .micro_batch = 1};
    const PlanningInputs inputs = random_inputs(700 + n, batch, 20);
    Candidates all(inputs, batch), none(inputs, batch), some(inputs, batch);
    const std::vector<Candidate> found = all.programs();
    if (found.empty()) continue;
    Seconds best = kInfinity;
    for (const Candidate& candidate : found) {
      least = std::min(least, candidate.row.step / candidate.plan.bound);
      best = std::min(best, candidate.row.step);
    }
    EXPECT_TRUE(none.programs(0.5 * best).empty());
    EXPECT_TRUE(none.too_slow());
    const std::vector<Candidate> again = some.programs(best);
    ASSERT_FALSE(again.empty());
    EXPECT_EQ(std::min_element(again.begin(), again.end(),
                               [](const Candidate& a, const Candidate& b) { return a.row.step < b.row.step; })
                  ->row.step,
              best);
    ++left_out;
  }
  EXPECT_GT(left_out, 4);
  std::printf("  simulated steps are at least %.4f of their programs' bounds\n", least);
  EXPECT_GE(least, 0.98);
}

// An update that waits, for its states on disk or at the optimizer's pace, leaves shared cores to the layers.
TEST(MilpPolicy, BoundsStepsWhoseUpdatesWaitBesideCompute) {
  for (const bool on_disk : {true, false}) {
    PlanningInputs inputs = small_inputs(12, kBatch);
    inputs.machine.emulated = true;  // cores are shared: split_cores is off
    inputs.optimizer_overlap = true;
    const Seconds alone = plan_step(inputs, "milp").simulation.step;
    const auto elements = static_cast<double>(inputs.context.groups[1].elements);
    if (on_disk) {
      inputs.states_home = StatesHome::disk;
      inputs.machine.disk_capacity = Bytes{1'000'000'000};
      double states = 0;
      for (const Bytes bytes : inputs.context.state_bytes) states += static_cast<double>(bytes.value);
      inputs.machine.disk_read = inputs.machine.disk_write = states / alone / 1e9;
    } else {
      inputs.machine.optimizer_rate = 12 * elements / alone;
    }
    const PlannedStep step = plan_step(inputs, "milp");
    EXPECT_EQ(step.plan.policy, "milp");
    EXPECT_GT(step.plan.bound, 0);
    EXPECT_GT(step.simulation.step, 0.999 * alone) << on_disk;
    EXPECT_GE(step.simulation.step, 0.98 * step.plan.bound) << on_disk;
  }
}

}  // namespace
}  // namespace lazytrain
