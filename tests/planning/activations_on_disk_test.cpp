// Boundaries and stashes go to disk where neither device nor host has room for them, and only then.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planning/lean_sizes.h"
#include "planning/planning_support.h"
#include "planning/policies.h"
#include "planning/portfolio.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 8, .slot_tokens = 256, .micro_batch = 1};
constexpr std::int64_t kLayers = 8;
constexpr Bytes kBoundary{8 * 256 * 32 * 2};

std::int64_t boundaries_on_disk(const Plan& plan) {
  std::int64_t most = 0;
  for (const BoundaryPlan& boundary : plan.boundaries) most = std::max(most, boundary.disk_micro_batches);
  return most;
}

// The device has room for the leanest plan that keeps every boundary on the host, which is short of some.
PlanningInputs inputs_short_of(std::int64_t boundaries) {
  PlanningInputs inputs = small_inputs(kLayers, kBatch);
  const LeanSize lean = leanest_sizes(inputs, kBatch, "every-k").front();
  const LeanSize on_host = leanest_sizes(inputs, kBatch, "auto").back();
  EXPECT_LT(on_host.device, lean.device);
  inputs.machine.device_capacity = {on_host.device.value + 16384};
  inputs.machine.host_capacity = on_host.host - boundaries * kBoundary;
  return inputs;
}

TEST(ActivationsOnDisk, ArePlannedWhereNothingElseFits) {
  for (const std::int64_t boundaries : {3, 5}) {
    PlanningInputs inputs = inputs_short_of(boundaries);
    inputs.states_home = StatesHome::automatic;
    EXPECT_TRUE(error_of([&] { plan_step(inputs, "auto"); }).has_value());
    int asked = 0;
    inputs.find_disk = [&](Machine& machine) {
      ++asked;
      machine.disk_capacity = {std::int64_t{1} << 30};
      machine.disk_read = machine.disk_write = 1;
    };
    const PlannedStep step = plan_step(inputs, "auto");
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(text_of(verify(step.program, step.machine)), "");
    EXPECT_TRUE(step.plan.groups.empty()) << boundaries;
    EXPECT_GT(boundaries_on_disk(step.plan), 0) << boundaries;
    EXPECT_LE(step.program.host_bytes, inputs.machine.host_capacity);
    EXPECT_GE(disk_writes(step.program), boundaries * kBoundary);
    // No more than must: with a micro-batch less of each it does not fit.
    Plan less = step.plan;
    for (BoundaryPlan& boundary : less.boundaries)
      boundary.disk_micro_batches = std::max<std::int64_t>(0, boundary.disk_micro_batches - 1);
    EXPECT_TRUE(error_of([&] { use_plan(inputs, less); }).has_value());
    EXPECT_EQ(to_json(plan_from_json(to_json(step.plan), "again")), to_json(step.plan));
    // A disk that has room for these alone is enough.
    PlanningInputs small_disk = inputs;
    small_disk.find_disk = {};
    small_disk.machine.disk_capacity = step.program.disk_bytes;
    small_disk.machine.disk_read = small_disk.machine.disk_write = 1;
    EXPECT_EQ(to_json(plan_step(small_disk, "auto").plan), to_json(step.plan));
    // A run that may not write so much is planned all the same, since nothing else fits, but to write less.
    inputs.most_disk_writes = {1};
    const PlannedStep sparing = plan_step(inputs, "auto");
    EXPECT_LE(disk_writes(sparing.program), disk_writes(step.program));
    EXPECT_GE(sparing.simulation.step, step.simulation.step);
  }
}

TEST(ActivationsOnDisk, AreNotPlannedWhereMemoryHasRoom) {
  PlanningInputs inputs = inputs_short_of(0);
  inputs.machine.disk_capacity = {std::int64_t{1} << 30};
  inputs.find_disk = [](Machine&) { ADD_FAILURE() << "nobody needs a disk"; };
  const PlannedStep step = plan_step(inputs, "auto");
  EXPECT_EQ(boundaries_on_disk(step.plan), 0);
  EXPECT_EQ(step.program.disk_bytes, Bytes{0});
}

TEST(ActivationsOnDisk, GiveAUnifiedMachineRoom) {
  PlanningInputs inputs = small_inputs(kLayers, kBatch, TierModel::unified);
  inputs.optimizer_overlap = false;
  std::vector<LeanSize> sizes = leanest_sizes(inputs, kBatch, "auto");
  const LeanSize least = *std::min_element(
      sizes.begin(), sizes.end(), [](const LeanSize& a, const LeanSize& b) { return a.device < b.device; });
  inputs.machine.device_capacity = least.device - Bytes{1};
  EXPECT_TRUE(error_of([&] { plan_step(inputs, "auto"); }).has_value());
  inputs.machine.disk_capacity = {std::int64_t{1} << 30};
  const PlannedStep step = plan_step(inputs, "auto");
  EXPECT_GT(boundaries_on_disk(step.plan), 0);
  EXPECT_TRUE(step.plan.groups.empty());
  EXPECT_LE(step.program.device_bytes, inputs.machine.device_capacity);
}

TEST(ActivationsOnDisk, FewerStagesComeBeforeWhatDoesNotFit) {
  const PlanningInputs inputs = small_inputs(kLayers, kBatch);
  const Plan nothing = offload_all_plan(inputs, kBatch, StashLevel::none);
  for (const Plan& rung : knob_ladder(nothing, inputs))
    EXPECT_EQ(rung.activation_stage_slots, nothing.activation_stage_slots);
  const Plan some = split_plan(inputs, kBatch, {.disk_share = 1});
  EXPECT_EQ(boundaries_on_disk(some), 1);
  EXPECT_EQ(knob_ladder(some, inputs).front().activation_stage_slots, 2);
  EXPECT_EQ(knob_ladder(some, inputs).back().activation_stage_slots, 1);
}

}  // namespace
}  // namespace lazytrain
