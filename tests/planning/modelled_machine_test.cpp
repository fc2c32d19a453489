// Steps of models that cannot be trained yet, planned from a config.json and a machine file alone.
#include <gtest/gtest.h>

#include "planning/planning_support.h"
#include "planning/portfolio.h"

namespace lazytrain {
namespace {

PlanningInputs inputs_of(const std::string& model, const std::string& machine, const BatchGeometry& batch) {
  const std::filesystem::path examples = std::filesystem::path(LAZYTRAIN_SOURCE_DIR) / "examples";
  const Architecture architecture = read_architecture(examples / "models" / model, Purpose::plan);
  PlanningInputs inputs;
  inputs.machine = read_machine(examples / "machines" / machine);
  inputs.context = small_context(architecture, inputs.machine.tiers);
  inputs.context.position_rows = batch.slot_tokens;
  inputs.costs = modelled_costs(architecture, batch.slot_tokens, inputs.machine);
  inputs.workspace = [architecture](std::int64_t slots, std::int64_t tokens) {
    WorkspaceBytes bytes = modelled_layer_workspace(architecture, slots * tokens, 2);
    bytes.head = Bytes{256} * architecture.vocab * 6;
    bytes.head_slice = Bytes{256} * vocabulary_block(architecture.vocab) * 6;
    return bytes;
  };
  inputs.batch = batch;
  return inputs;
}

// Queries and keys of 24 and 4 heads of 256, with the values beside them, are read, normalised and written in
// bf16: what the prototype left out.
Seconds head_norms(const Machine& machine) {
  return 2 * (6144 + 2 * 1024) * 2 * 1024 / (machine.device_memory * 1e9);
}

// 8 slots of 1,024 tokens on an H800, everything recomputed: forward, re-forward without down-projections and
// backward of 48 and 16 layers, and the head. Seconds a layer and slot from the planner's research prototype.
TEST(ModelledMachine, AHybridModelsComputeIsTheSumOfItsLayers) {
  PlanningInputs inputs =
      inputs_of("qwen3.6-27b", "h800-80g.json", {.slots = 8, .slot_tokens = 1024, .micro_batch = 4});
  inputs.costs.op_overhead = 0;
  inputs.every_k = 1;
  const PlannedStep step = plan_step(inputs, "every-k");
  const Seconds linear = 0.0021845612953599997 + 0.0017282210201599998 + 0.0043545264128;
  const Seconds attention =
      0.00209614536704 + 0.0016398050918400003 + 0.0041615884288 + (1 + 1 + 1.5) * head_norms(inputs.machine);
  EXPECT_NEAR(step.simulation.compute, 8 * (48 * linear + 16 * attention + 0.019528679424), 1e-9);
  // Beside it, 26.9 G parameters are updated at 6 G a second, and weights cross twice and gradients once.
  EXPECT_GE(step.simulation.step, 26.896 / 6);
  EXPECT_LE(step.program.device_bytes, inputs.machine.device_capacity);
  EXPECT_EQ(step.program.kind_of({.kind = OpKind::forward, .stream = StreamId::compute, .layer = 3}),
            LayerKind::attention);
}

// With everything stashed, a backward repeats elementwise work alone.
TEST(ModelledMachine, AFullStashLeavesElementwiseWork) {
  PlanningInputs inputs =
      inputs_of("qwen3.6-27b", "h800-80g.json", {.slots = 1, .slot_tokens = 1024, .micro_batch = 1});
  inputs.costs.op_overhead = 0;
  const PlannedStep step = plan_step(inputs, "keep-all");
  const Seconds linear = 0.0021845612953599997 + 8.8080384e-05 + 0.0043545264128;
  const Seconds attention =
      0.00209614536704 + 8.8080384e-05 + 0.0041615884288 + (1 + 0.7 + 1.5) * head_norms(inputs.machine);
  EXPECT_NEAR(step.simulation.compute, 48 * linear + 16 * attention + 0.019528679424, 1e-9);
}

// Weights of all 128 experts cross the link, though a token passes 8.
TEST(ModelledMachine, AllExpertsAreStreamed) {
  const PlanningInputs inputs =
      inputs_of("qwen3-30b-a3b", "h200.json", {.slots = 2, .slot_tokens = 1024, .micro_batch = 1});
  const PlannedStep step = plan_step(inputs, "every-k");
  Bytes loaded;
  for (const Op& op : step.program.ops)
    if (op.kind == OpKind::load_weights) loaded += op.bytes;
  EXPECT_GE(loaded.value, 2 * 2 * 28'000'000'000);
}

}  // namespace
}  // namespace lazytrain
