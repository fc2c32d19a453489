// Resident layers: weights, gradient and optimizer states live on the device, and the layer is updated there.
// Of each step only two small copies cross the links for them: the partial sums of squares of their gradients
// go to the host, which sums the norm of all groups, and the clip factor comes back.

#include <algorithm>

#include "core/error.h"
#include "program/lowering_common.h"

namespace lazytrain {

bool any_resident(const LoweringContext& context) {
  return std::any_of(context.homes.begin(), context.homes.end(),
                     [](const GroupPlan& home) { return home.on_device; });
}

void add_resident_buffers(ProgramBuilder& builder, const LoweringContext& context, StateBuffers& state) {
  if (!any_resident(context)) return;
  if (builder.unified())
    fail(ExitCode::usage,
         "plan: resident layers need a device with memory of its own, and this machine has one tier; make a "
         "new plan with `lazytrain plan`");
  const bool training = !context.state_bytes.empty();
  if (training) state.device_clip = builder.persistent("dev.clip", Tier::device, kClipBytes, false);
  Bytes weights, piece;  // the largest of each
  for (std::size_t g = 0; g < context.groups.size(); ++g) {
    if (!home_of(context, g).on_device) continue;
    weights = std::max(weights, Bytes{context.groups[g].elements * context.type_bytes});
    if (!training) continue;
    for (const StatePieceSize& part : context.state_pieces[g]) piece = std::max(piece, part.bytes);
  }
  // No op touches these: between steps the host sees the layers through them.
  builder.persistent(kWindowOfWeights, Tier::host, weights, false);
  if (training) builder.persistent(kWindowOfStates, Tier::host, piece, false);
}

Op load_clip(const StateBuffers& state) {
  Op op{.kind = OpKind::load_clip, .stream = StreamId::h2d, .bytes = kClipBytes};
  op.operands = {{OperandRole::input, state.clip, Access::read},
                 {OperandRole::output, state.device_clip, Access::write}};
  return op;
}

void keep_gradient(ProgramBuilder& builder, const LoweringContext& context, const StateBuffers& state,
                   std::int32_t layer, BufferId accumulator) {
  const std::size_t group = static_cast<std::size_t>(layer) + 1;
  const BufferId host_norm = state.norm[group];
  const Bytes bytes = norm_bytes(context.groups[group]);
  const BufferId norm = builder.transient(name_of("dev.norm", layer + 1), Tier::device, bytes);
  Op round{.kind = OpKind::offload_gradient, .stream = StreamId::compute, .layer = layer};
  round.elements = context.groups[group].elements;
  round.bytes = {context.groups[group].elements * context.type_bytes};
  round.operands = {{OperandRole::accumulator, accumulator, Access::read},
                    {OperandRole::group_gradient, state.gradient[group], Access::write},
                    {OperandRole::norm, norm, Access::write}};
  const int compute = builder.compute(std::move(round));
  Op leave{.kind = OpKind::offload_norm, .stream = StreamId::d2h, .layer = layer, .bytes = bytes};
  leave.operands = {{OperandRole::input, norm, Access::read},
                    {OperandRole::output, host_norm, Access::write}};
  builder.after(compute, std::move(leave));
}

}  // namespace lazytrain
