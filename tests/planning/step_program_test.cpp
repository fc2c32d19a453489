// The step's mixed-integer program: what it says, that it counts what lowering allocates, and that no plan it
// can express is better than its optimum.
#include "planning/step_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planning/milp_policy.h"
#include "planning/planning_support.h"
#include "planning/policies.h"
#include "planning/step_rounding.h"

namespace lazytrain {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 1};

MilpSolution optimum(const StepModel& model, double gap = 1e-4) {
  return solve(make_step_program(model).problem, {.gap = gap});
}

Seconds best_step(const StepModel& model) {
  const StepProgram program = make_step_program(model);
  const MilpSolution solution = solve(program.problem, {.gap = 1e-4});
  return solution.values.empty() ? kInfinity : step_seconds(program, solution.values);
}

TEST(StepProgram, ReadsLikeTheFormulas) {
  const PlanningInputs inputs = small_inputs(2, kBatch);
  const std::string text = dump(make_step_program(make_step_model(inputs, kBatch)).problem);
  EXPECT_THAT(
      text,
      HasSubstr("path[0]: + u[0,2] + u[0,2,keep] + a[0,none] + a[0,attention] + a[0,mlp] + a[0,all] = 1\n"));
  EXPECT_THAT(
      text,
      HasSubstr("path[2]: - u[0,2] - u[0,2,keep] - a[1,none] - a[1,attention] - a[1,mlp] - a[1,all] = -1\n"));
  // The backward of the last layer of a block computes again what it needs; that of the first finds it.
  EXPECT_THAT(text, ContainsRegex("time\\[5\\]: - [0-9.]+ u\\[0,2\\] - [0-9.]+ u\\[0,2,keep\\] "));
  EXPECT_THAT(text, ContainsRegex("time\\[7\\]: - [0-9.]+ u\\[0,2\\] - [0-9.]+ a\\[0,none\\] "));
  EXPECT_THAT(text, HasSubstr("home[1,all]: - 4 a[1,all] + q[1,all,device] + q[1,all,host] = 0\n"));
  EXPECT_THAT(text, HasSubstr("time[1]: + tau[1] - stall[1] = 1\n"));
  EXPECT_THAT(text, HasSubstr("  0 <= a[0,none] <= 1, whole\n"));
}

TEST(StepModel, KnowsWhatTheBarePlanNeedsAtEveryMoment) {
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified}) {
    for (const std::int64_t micro_batch : {1, 2, 4}) {
      BatchGeometry batch = kBatch;
      batch.micro_batch = micro_batch;
      const PlanningInputs inputs = small_inputs(5, batch, tiers);
      const StepModel model = make_step_model(inputs, batch);
      const Program program = lower_train_step(inputs.context, bare_plan(inputs, batch, {}),
                                               inputs.workspace(micro_batch, 8), LoweringDepth::estimate);
      const double most = *std::max_element(model.bare_device.begin(), model.bare_device.end());
      EXPECT_NEAR(most, static_cast<double>(program.device_bytes.value), 4096) << micro_batch;
    }
  }
}

// What the program asks of the device is what lowering allocates there, whatever a sweep keeps.
TEST(StepProgram, CountsTheBytesOfBlocks) {
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified}) {
    const PlanningInputs inputs = small_inputs(6, kBatch, tiers);
    for (const std::int64_t k : {2, 3, 4}) {
      for (const StashLevel kept : {StashLevel::none, StashLevel::all}) {
        Plan plan = bare_plan(inputs, kBatch, {});
        const Plan shape = every_k_plan(inputs, kBatch, k, kept);
        plan.boundaries = shape.boundaries;
        plan.layers = shape.layers;
        const Program program =
            lower_train_step(inputs.context, plan, inputs.workspace(1, 8), LoweringDepth::estimate);
        const auto feasible = [&](double capacity) {
          StepModel model = make_step_model(inputs, kBatch);
          model.device_capacity = capacity;
          StepProgram fixed = make_step_program(model);
          EXPECT_TRUE(fix_decisions(fixed, plan));
          return !solve(fixed.problem, {.gap = 1e-4}).values.empty();
        };
        const auto bytes = static_cast<double>(program.device_bytes.value);
        EXPECT_TRUE(feasible(1.02 * bytes)) << k << " " << to_string(kept);
        EXPECT_FALSE(feasible(0.96 * bytes)) << k << " " << to_string(kept);
      }
    }
  }
}

TEST(StepModel, NothingToWaitForIsTheSumOfItsWork) {
  PlanningInputs inputs = small_inputs(3, kBatch);
  inputs.machine.h2d = inputs.machine.d2h = 1e4;
  inputs.costs.copy_h2d = inputs.costs.copy_d2h = 0;
  inputs.costs.offload_gradient_per_element = 0;
  inputs.costs.update_per_parameter = 1e-15;
  inputs.costs.gather_embedding = inputs.costs.scatter_embedding = inputs.costs.finish_embedding = 0;
  inputs.costs.op_overhead = 0;
  inputs.costs.head = 3;
  inputs.costs.of(LayerKind::attention) = {
      .forward = 1, .recompute = {0.8, 0.5, 0.3, 0}, .down_projection = 0.2, .backward = 2};
  EXPECT_NEAR(best_step(make_step_model(inputs, kBatch)), 4 * (3 * 3 + 3), 1e-3);
  // Where the bare plan just fits, most layers are computed again, but for their down-projection.
  StepModel model = make_step_model(inputs, kBatch);
  model.device_capacity = *std::max_element(model.bare_device.begin(), model.bare_device.end());
  model.host_capacity = model.bare_host;
  EXPECT_GT(best_step(model), 4 * (3 * 3 + 3 + 2 * 0.5));
  EXPECT_LT(best_step(model), 4 * (3 * 3.8 + 3) + 1e-2);
}

// A machine between the leanest and the roomiest.
PlanningInputs random_inputs(std::uint64_t n, const BatchGeometry& batch, std::int64_t layers) {
  Random random(11, n);
  PlanningInputs inputs = small_inputs(layers, batch, TierModel::tiered, random.below(2) == 0);
  inputs.machine.h2d = inputs.machine.d2h = 0.01 * std::pow(100, random.uniform());
  if (random.below(3) == 0) inputs.machine.duplex = 1.5 * inputs.machine.h2d;
  inputs.costs.update_per_parameter *= std::pow(10, 2 * random.uniform() - 1);
  const WorkspaceBytes workspace = inputs.workspace(batch.micro_batch, batch.slot_tokens);
  const auto bytes = [&](const Plan& plan) {
    return lower_train_step(inputs.context, plan, workspace, LoweringDepth::estimate);
  };
  const Program lean = bytes(bare_plan(inputs, batch, {})), roomy = bytes(keep_all_plan(inputs, batch));
  const Program away = bytes(offload_all_plan(inputs, batch, StashLevel::all));
  const auto between = [&](Bytes low, Bytes high) {
    return low + Bytes{static_cast<std::int64_t>(static_cast<double>((high - low).value) * random.uniform())};
  };
  inputs.machine.device_capacity = between(lean.device_bytes + Bytes{2048}, roomy.device_bytes);
  inputs.machine.host_capacity = between(roomy.host_bytes, away.host_bytes);
  return inputs;
}

TEST(StepProgram, NoHeuristicIsBetterInTheSameModel) {
  int compared = 0;
  for (std::uint64_t n = 0; n < 30; ++n) {
    const PlanningInputs inputs = random_inputs(n, kBatch, 5);
    const StepKnobs knobs{.lead = 1, .lag = 2};
    const StepModel model = make_step_model(inputs, kBatch, knobs);
    const MilpSolution best = optimum(model);
    std::vector<Plan> plans;
    for (const std::int64_t k : {1, 2, 3, 4})
      for (const StashLevel kept : {StashLevel::none, StashLevel::all})
        plans.push_back(every_k_plan(inputs, kBatch, k, kept));
    for (const StashLevel level : kStashLevels)
      for (const std::int64_t share : {0, 2, 4})
        for (const std::int64_t stashing : {0, 2, 5})
          plans.push_back(split_plan(inputs, kBatch,
                                     {.level = level,
                                      .boundary_share = share,
                                      .stash_share = 4 - share,
                                      .stashing_layers = stashing}));
    for (const Plan& plan : plans) {
      StepProgram program = make_step_program(model);
      ASSERT_TRUE(fix_decisions(program, plan));
      const MilpSolution fixed = solve(program.problem, {.gap = 1e-4});
      if (fixed.values.empty()) continue;
      ++compared;
      ASSERT_FALSE(best.values.empty()) << n;
      EXPECT_LE(best.objective, fixed.objective * (1 + 2e-4)) << n;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(StepProgram, MoreOfAnythingIsNeverSlower) {
  for (std::uint64_t n = 0; n < 20; ++n) {
    const PlanningInputs inputs = random_inputs(n, kBatch, 4);
    const StepModel model = make_step_model(inputs, kBatch);
    const Seconds before = best_step(model);
    StepModel device = model, host = model, up = model, down = model;
    device.device_capacity *= 1.2;
    host.host_capacity *= 1.1;
    up.h2d *= 1.5;
    down.d2h *= 1.5;
    for (const StepModel& more : {device, host, up, down})
      EXPECT_LE(best_step(more), before * (1 + 3e-4)) << n;
  }
}

TEST(StepProgram, ResidentLayersAndDisksOnlyHelp) {
  int resident_helps = 0, disk_helps = 0;
  for (std::uint64_t n = 0; n < 20; ++n) {
    PlanningInputs inputs = random_inputs(n, kBatch, 4);
    inputs.machine.disk_capacity = {std::int64_t{1} << 30};
    inputs.machine.disk_read = inputs.machine.disk_write = inputs.machine.h2d;
    const Seconds without = best_step(make_step_model(inputs, kBatch));
    const Seconds resident = best_step(make_step_model(inputs, kBatch, {}, {.resident = true}));
    StepModel with_disk = make_step_model(inputs, kBatch, {}, {.activations_on_disk = true});
    with_disk.host_capacity += with_disk.stage;  // what the disk costs
    const Seconds disk = best_step(with_disk);
    EXPECT_LE(resident, without * (1 + 3e-4)) << n;
    EXPECT_LE(disk, without * (1 + 3e-4)) << n;
    resident_helps += resident < without * 0.99 ? 1 : 0;
    disk_helps += disk < without * 0.999 ? 1 : 0;
  }
  EXPECT_GT(resident_helps, 0);
  EXPECT_GT(disk_helps, 0);
}

// The relaxation is nearly whole, and is solved in no time: 64 layers of a 27B model in 18 micro-batches.
TEST(StepProgram, SixtyFourLayersAreRoundedCloseToTheirBound) {
  const BatchGeometry batch{.slots = 18, .slot_tokens = 8, .micro_batch = 1};
  PlanningInputs inputs = small_inputs(64, batch);
  inputs.machine.device_capacity = {3'000'000};
  inputs.machine.host_capacity = {30'000'000};
  const std::optional<ProgramPlan> plan = solve_step(inputs, batch, make_step_model(inputs, batch));
  ASSERT_TRUE(plan.has_value());
  EXPECT_GE(plan->plan.objective, plan->plan.bound);
  EXPECT_LE(plan->plan.objective, plan->plan.bound * 1.01) << plan->how;
}

// Updates on the host take longest, so that layers on the device pay; the last slots hold what is streamed.
PlanningInputs updates_take_longest() {
  PlanningInputs inputs = small_inputs(40, {.slots = 12, .slot_tokens = 8, .micro_batch = 1});
  inputs.costs.update_per_parameter *= 20;
  inputs.machine.device_capacity = {1'500'000};
  return inputs;
}

TEST(StepProgram, ResidentLayersAreRoundedWithoutASearch) {
  const PlanningInputs inputs = updates_take_longest();
  const StepModel model = make_step_model(inputs, inputs.batch, {}, {.resident = true});
  const std::optional<ProgramPlan> plan = solve_step(inputs, inputs.batch, model);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(plan->how, Not(StartsWith("searched,")));
  const auto resident = [](const GroupPlan& group) { return group.on_device; };
  EXPECT_GT(std::count_if(plan->plan.groups.begin(), plan->plan.groups.end(), resident), 0);
  EXPECT_LE(plan->plan.objective, plan->plan.bound * 1.01) << plan->how;
}

TEST(StepProgram, IsLeftWhereItsBoundIsSlowerThanAKnownStep) {
  const PlanningInputs inputs = updates_take_longest();
  const StepModel model = make_step_model(inputs, inputs.batch);
  const std::optional<ProgramPlan> solved = solve_step(inputs, inputs.batch, model);
  ASSERT_TRUE(solved.has_value());
  EXPECT_FALSE(solve_step(inputs, inputs.batch, model, solved->plan.bound)->too_slow);
  EXPECT_TRUE(solve_step(inputs, inputs.batch, model, 0.9 * solved->plan.bound)->too_slow);
}

}  // namespace
}  // namespace lazytrain
