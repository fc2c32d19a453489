// What each policy decides, and that leaner knobs need fewer bytes.
#include "planning/policies.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/planning_support.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 1};

std::vector<std::int64_t> materialised(const Plan& plan) {
  std::vector<std::int64_t> found;
  for (std::size_t b = 0; b < plan.boundaries.size(); ++b)
    if (plan.boundaries[b].materialised) found.push_back(static_cast<std::int64_t>(b));
  return found;
}

TEST(Policies, Megatrain) {
  const PlanningInputs inputs = small_inputs(10, kBatch);
  const Plan plan = megatrain_plan(inputs, kBatch);
  EXPECT_EQ(materialised(plan), (std::vector<std::int64_t>{0, 4, 8, 10}));
  EXPECT_TRUE(plan.sweep_last_layer);
  EXPECT_TRUE(plan.retain_logits);
  EXPECT_FALSE(plan.tail_skip);
  EXPECT_FALSE(plan.optimizer_overlap);
  EXPECT_EQ(plan.policy, "megatrain");
  for (const BoundaryPlan& boundary : plan.boundaries) EXPECT_EQ(boundary.device_micro_batches, 4);
  PlanningInputs overlapped = inputs;
  overlapped.optimizer_overlap = true;
  EXPECT_TRUE(megatrain_plan(overlapped, kBatch).optimizer_overlap);
}

TEST(Policies, EveryK) {
  const PlanningInputs inputs = small_inputs(7, kBatch);
  EXPECT_EQ(materialised(every_k_plan(inputs, kBatch, 3)), (std::vector<std::int64_t>{0, 3, 6, 7}));
  EXPECT_EQ(materialised(every_k_plan(inputs, kBatch, 1)).size(), 8u);
  EXPECT_EQ(materialised(every_k_plan(inputs, kBatch, 8)), (std::vector<std::int64_t>{0, 7}));
  EXPECT_TRUE(every_k_plan(inputs, kBatch, 3).tail_skip);
}

TEST(Policies, Zero3OffloadRepeatsEveryForwardWhole) {
  const Plan plan = zero3_offload_plan(small_inputs(3, kBatch), kBatch);
  EXPECT_EQ(materialised(plan).size(), 4u);
  for (const BoundaryPlan& boundary : plan.boundaries) EXPECT_EQ(boundary.device_micro_batches, 4);
  EXPECT_TRUE(plan.retain_logits);
  EXPECT_FALSE(plan.tail_skip);
  EXPECT_FALSE(plan.sweep_last_layer);
}

TEST(Policies, KeepAllAndOffloadAll) {
  const PlanningInputs inputs = small_inputs(3, kBatch);
  const Plan keep = keep_all_plan(inputs, kBatch), away = offload_all_plan(inputs, kBatch, StashLevel::mlp);
  for (const LayerPlan& layer : keep.layers) {
    EXPECT_EQ(layer.stash, StashLevel::all);
    EXPECT_EQ(layer.stash_device_micro_batches, 4);
  }
  for (const LayerPlan& layer : away.layers) {
    EXPECT_EQ(layer.stash, StashLevel::mlp);
    EXPECT_EQ(layer.stash_device_micro_batches, 0);
  }
  for (const BoundaryPlan& boundary : away.boundaries) EXPECT_EQ(boundary.device_micro_batches, 0);
  // No recomputation at all: three forwards' worth of compute, no Recompute op.
  const Program program = lower_train_step(inputs.context, keep, inputs.workspace(1, 8));
  EXPECT_TRUE(std::none_of(program.ops.begin(), program.ops.end(),
                           [](const Op& op) { return op.kind == OpKind::recompute; }));
}

TEST(Policies, SplitStashesTheLastLayersOnly) {
  const PlanningInputs inputs = small_inputs(4, kBatch);
  const Plan plan =
      split_plan(inputs, kBatch,
                 {.level = StashLevel::all, .boundary_share = 3, .stash_share = 2, .stashing_layers = 2});
  EXPECT_EQ(plan.layers[1].stash, StashLevel::none);
  EXPECT_EQ(plan.layers[2].stash, StashLevel::all);
  EXPECT_EQ(plan.layers[3].stash_device_micro_batches, 2);
  EXPECT_EQ(plan.boundaries[2].device_micro_batches, 3);
}

TEST(Policies, LeanerKnobsNeedFewerBytes) {
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    BatchGeometry batch = kBatch;
    batch.micro_batch = micro_batch;
    const PlanningInputs inputs = small_inputs(6, batch);
    const std::vector<Plan> ladder = knob_ladder(offload_all_plan(inputs, batch, StashLevel::all), inputs);
    std::vector<std::int64_t> bytes;
    for (const Plan& plan : ladder) {
      const Program program = lower_train_step(inputs.context, plan, inputs.workspace(micro_batch, 8));
      EXPECT_EQ(text_of(verify(program, inputs.machine)), "");
      bytes.push_back(program.device_bytes.value);
    }
    EXPECT_TRUE(std::is_sorted(bytes.rbegin(), bytes.rend())) << micro_batch;
    EXPECT_LT(bytes.back(), bytes.front());
  }
  const PlanningInputs unified = small_inputs(6, kBatch, TierModel::unified);
  EXPECT_EQ(knob_ladder(keep_all_plan(unified, kBatch), unified).size(), 1u);
}

TEST(Policies, PaperKeepsWhatFitsAndRecomputesTheRest) {
  PlanningInputs inputs = small_inputs(8, kBatch);
  EXPECT_EQ(materialised(paper_plan(inputs, kBatch).value()).size(), 9u);
  // No room on the host beyond one boundary of the batch, little on the device.
  const Bytes boundary{4 * 8 * 32 * 2};
  const Plan lean = every_k_plan(inputs, kBatch, 4);
  const Program program =
      lower_train_step(inputs.context, knob_ladder(lean, inputs).back(), inputs.workspace(1, 8));
  inputs.machine.device_capacity = program.device_bytes + 2 * boundary;
  inputs.machine.host_capacity = program.host_bytes + boundary;
  const std::optional<Plan> plan = paper_plan(inputs, kBatch);
  ASSERT_TRUE(plan.has_value());
  const Program fitted = lower_train_step(inputs.context, *plan, inputs.workspace(1, 8));
  EXPECT_LE(fitted.device_bytes, inputs.machine.device_capacity);
  EXPECT_LE(fitted.host_bytes, inputs.machine.host_capacity);
  const std::size_t kept = materialised(*plan).size();
  EXPECT_GT(kept, materialised(lean).size());
  EXPECT_LT(kept, 9u);
  for (const Block& block : blocks_of(*plan)) EXPECT_LE(block.end - block.begin, 4);
  EXPECT_FALSE(plan->tail_skip);
  EXPECT_LE(plan->bound, plan->objective + 1e-12);
}

TEST(Policies, NamesAreChecked) {
  for (const std::string& name : policy_names()) EXPECT_NO_THROW(check_policy_name(name));
  const auto error = error_of([] { check_policy_name("megatran"); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ExitCode::usage);
  EXPECT_STREQ(error->what(),
               "policy: 'megatran' is not a policy; use auto, milp, megatrain, zero3-offload, every-k, "
               "keep-all, offload-all, "
               "greedy or paper");
}

}  // namespace
}  // namespace lazytrain
