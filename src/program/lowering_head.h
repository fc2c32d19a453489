// The head: whole, one op a micro-batch, or in slices of the vocabulary (Plan::head_slices), where the device
// has no room for it whole: forward from the first slice to the last, then backward from the last to the
// first, with two slices of the projection and of its gradient on the device at a time. Slices are for tiered
// machines alone. Private to `program`.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "program/lowering_common.h"

namespace lazytrain {

struct HeadLowering {
  ProgramBuilder& builder;
  const LoweringContext& context;
  const StateBuffers& state;
  BatchGeometry geometry;
  std::int64_t slices;
  BufferId batch, workspace;
  int load_at;                       // the compute op before which the first slice may be loaded
  std::span<const BufferId> inputs;  // by micro-batch: the last boundary
};

// What the forward leaves on the device for the backward.
struct SlicedForward {
  std::vector<Operand> norm;     // its weights
  Operand projection;            // the last slice
  std::vector<BufferId> scores;  // by micro-batch
};

// In slices: losses, which reach the host.
SlicedForward lower_head_forward(const HeadLowering& head);

struct HeadTraining {
  BufferId gradient_rows;
  bool retain_logits = false;  // MegaTrain, of a whole head
  // The gradient of the last boundary of micro-batch m is complete after this compute op.
  std::function<void(std::int32_t m, BufferId gradient, int compute)> completed;
};

// Losses and gradients; the head's own leave the device.
void lower_whole_head(const HeadLowering& head, const HeadTraining& training);
void lower_sliced_head(const HeadLowering& head, const HeadTraining& training);

}  // namespace lazytrain
