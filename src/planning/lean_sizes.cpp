#include "planning/lean_sizes.h"

#include <cstdint>

#include "model/vocabulary.h"
#include "planning/policies.h"
#include "program/builder.h"

namespace lazytrain {

std::vector<LeanSize> leanest_sizes(const PlanningInputs& inputs, const BatchGeometry& batch,
                                    const std::string& of_policy, bool fitting) {
  // The program falls back to the heuristics.
  const std::string policy = of_policy == "milp" ? "auto" : of_policy;
  std::vector<Plan> shapes;
  if (covers(policy, "megatrain")) shapes.push_back(megatrain_plan(inputs, batch));
  if (covers(policy, "zero3-offload")) shapes.push_back(zero3_offload_plan(inputs, batch));
  if (policy == "greedy") {
    shapes.push_back(split_plan(inputs, batch, {}));
    shapes.push_back(split_plan(inputs, batch, {.boundary_share = batch.micro_batches()}));
  }
  if (covers(policy, "every-k"))
    for (const std::int64_t k : every_k_intervals(inputs)) shapes.push_back(every_k_plan(inputs, batch, k));
  if (covers(policy, "keep-all")) shapes.push_back(keep_all_plan(inputs, batch));
  if (covers(policy, "offload-all")) {
    shapes.push_back(offload_all_plan(inputs, batch, StashLevel::none));
    if (policy != "auto") shapes.push_back(offload_all_plan(inputs, batch, StashLevel::all));
  }
  if (covers(policy, "greedy") && inputs.machine.disk_capacity.value > 0) {
    const Split all_on_disk{.disk_share = batch.micro_batches()};
    shapes.push_back(split_plan(inputs, batch, all_on_disk));
  }
  if (policy == "paper") {
    for (const bool on_device : {true, false}) {
      shapes.push_back(on_device ? every_k_plan(inputs, batch, 4)
                                 : offload_all_plan(inputs, batch, StashLevel::none));
      shapes.back().tail_skip = false;
      shapes.back().boundaries.front().device_micro_batches = batch.micro_batches();
    }
  }
  if (may_slice_head(inputs, policy))
    for (std::size_t i = 0, whole = shapes.size(); i < whole; ++i) {
      if (shapes[i].retain_logits) continue;
      shapes.push_back(shapes[i]);
      shapes.back().head_slices = vocabulary_blocks(inputs.context.architecture.vocab);
    }
  const WorkspaceBytes workspace = inputs.workspace(batch.micro_batch, batch.slot_tokens);
  std::vector<LeanSize> sizes;
  for (const Plan& shape : shapes) {
    Program program = lower_train_step(inputs.context, knob_ladder(shape, inputs).back(), workspace,
                                       LoweringDepth::estimate);
    Machine roomy_disk = inputs.machine;
    roomy_disk.disk_capacity = Bytes{INT64_MAX};
    if (fitting && !fits(program, roomy_disk)) continue;
    lay_out(program);
    const bool spills = shape.boundaries.front().disk_micro_batches > 0;
    if (spills && program.disk_bytes > inputs.machine.disk_capacity) continue;
    sizes.push_back({program.device_bytes, program.host_bytes, pinned_bytes(program)});
  }
  return sizes;
}

}  // namespace lazytrain
