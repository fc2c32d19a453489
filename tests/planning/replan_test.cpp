// Re-planning, fed with steps that are simulated on a machine other than the one that was planned for.
#include "planning/replan.h"

#include <gtest/gtest.h>

#include "planning/planning_support.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 1};

// A machine on which boundaries and stashes of some layers have to leave the device.
PlanningInputs tight_inputs() {
  PlanningInputs inputs = small_inputs(6, kBatch);
  const Bytes roomy = plan_step(inputs, "keep-all").program.device_bytes;
  inputs.machine.device_capacity = Bytes{roomy.value * 6 / 10};
  inputs.machine.h2d = inputs.machine.d2h = 0.2;
  return inputs;
}

Simulation steps_on(const Machine& machine, const PlanningInputs& inputs, const Program& program) {
  return simulate(program, {.costs = inputs.costs, .machine = machine});
}

TEST(Replan, NothingHappensWhereStepsTakeWhatWasSimulated) {
  const PlanningInputs inputs = tight_inputs();
  const PlannedStep planned = plan_step(inputs, "auto");
  Replanner replanner(inputs, "auto", planned);
  for (int step = 0; step < 20; ++step) {
    // A few percent of noise, and one step that was disturbed.
    const double noise = step == 9 ? 2.0 : 1 + 0.02 * (step % 3);
    EXPECT_FALSE(replanner.after_step(planned.simulation.step * noise, planned.simulation.ops));
  }
  EXPECT_EQ(replanner.why(), "");
}

TEST(Replan, AnotherPlanTakesOverWhereTheLinksHaveSlowedDown) {
  const PlanningInputs inputs = tight_inputs();
  const PlannedStep planned = plan_step(inputs, "auto");
  Machine slow = planned.machine;
  slow.h2d /= 20;
  slow.d2h /= 20;
  const Simulation now = steps_on(slow, inputs, planned.program);
  PlanningInputs known = inputs;
  known.machine = slow;
  const Seconds oracle = plan_step(known, "auto").simulation.step;
  ASSERT_LT(oracle, now.step * 0.8) << "the machine has something to gain";

  Replanner replanner(inputs, "auto", planned);
  int steps = 1;
  while (steps < 10 && !replanner.after_step(now.step, now.ops)) ++steps;
  EXPECT_EQ(steps, 5) << "two steps are ignored, the median of three decides";
  const Seconds recovered = steps_on(slow, inputs, replanner.step().program).step;
  EXPECT_LE(recovered, oracle * 1.02);
  EXPECT_EQ(replanner.step().plan.groups, planned.plan.groups);
  EXPECT_EQ(replanner.step().plan.batch, planned.plan.batch);
  EXPECT_NE(replanner.why().find("h2d runs at 5 % of its rate"), std::string::npos) << replanner.why();

  // From then on steps are what they were simulated to be.
  const Simulation after = steps_on(slow, inputs, replanner.step().program);
  for (int step = 0; step < 10; ++step) EXPECT_FALSE(replanner.after_step(after.step, after.ops));
}

TEST(Replan, AMachineThatIsSlowerThroughoutKeepsItsPlanAndIsLeftAlone) {
  const PlanningInputs inputs = small_inputs(4, kBatch);
  const PlannedStep planned = plan_step(inputs, "auto");
  Replanner replanner(inputs, "auto", planned);
  std::vector<SimulatedOp> ops = planned.simulation.ops;
  for (SimulatedOp& op : ops) {
    op.start *= 2;
    op.end *= 2;
  }
  for (int step = 0; step < 60; ++step)
    EXPECT_FALSE(replanner.after_step(2 * planned.simulation.step, ops)) << replanner.why();
  EXPECT_NE(replanner.why().find("no plan is faster"), std::string::npos) << replanner.why();
}

}  // namespace
}  // namespace lazytrain
