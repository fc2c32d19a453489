// Inputs for planning tests: a small model on a tiered machine with modelled costs.
#pragma once

#include "planning/inputs.h"
#include "program/program_support.h"

namespace lazytrain {

inline PlanningInputs small_inputs(std::int64_t layers, const BatchGeometry& batch,
                                   TierModel tiers = TierModel::tiered, bool tied_head = true) {
  PlanningInputs inputs;
  inputs.context = small_context(small_architecture(layers, tied_head), tiers);
  inputs.machine = roomy_machine(tiers);
  inputs.machine.disk_capacity = {};  // none, where a test does not give one
  // A layer's forward takes about as long as its weights take to cross the link.
  inputs.machine.h2d = inputs.machine.d2h = 0.1;
  inputs.costs = modelled_costs(inputs.context.architecture, batch.slot_tokens, 2, 1);
  inputs.workspace = [](std::int64_t slots, std::int64_t tokens) {
    const Bytes bytes{slots * tokens * 256};
    return WorkspaceBytes{.forward = bytes,
                          .recompute = bytes,
                          .backward = 2 * bytes,
                          .head = {tokens * 192},
                          .head_slice = {tokens * 96},
                          .decode = {1024}};
  };
  inputs.batch = batch;
  return inputs;
}

}  // namespace lazytrain
