#include "program/lowering_common.h"

#include <algorithm>

namespace lazytrain {

std::int64_t largest_layer(const LoweringContext& context) {
  std::int64_t largest = 0;
  for (const ParameterGroup& group : context.groups)
    if (group.kind == GroupKind::layer) largest = std::max(largest, group.elements);
  return largest;
}

StateBuffers add_state_buffers(ProgramBuilder& builder, const LoweringContext& context) {
  StateBuffers state;
  const Tier tier = builder.host_tier();
  const bool training = !context.state_bytes.empty();
  for (std::size_t g = 0; g < context.groups.size(); ++g) {
    const ParameterGroup& group = context.groups[g];
    const auto index = static_cast<std::int64_t>(g);
    const GroupPlan home = home_of(context, g);
    const auto at_home = [&](const char* on_host, const char* on_device, Bytes size) {
      return home.on_device ? builder.persistent(name_of(on_device, index), Tier::device, size, true)
                            : builder.persistent(name_of(on_host, index), tier, size, true);
    };
    const Bytes elements{group.elements * context.type_bytes};
    state.weights.push_back(home.weights_on_disk ? -1 : at_home("host.w", "dev.w", elements));
    state.states.push_back(
        training && !home.states_on_disk ? at_home("host.states", "dev.states", context.state_bytes[g]) : -1);
    state.gradient.push_back(training && !home.gradient_on_disk ? at_home("host.grad", "dev.grad", elements)
                                                                : -1);
    state.norm.push_back(
        training ? builder.persistent(name_of("host.norm", index), tier, norm_bytes(group), true) : -1);
  }
  if (training) state.clip = builder.persistent("host.clip", tier, kClipBytes, true);
  if (training) add_disk_buffers(builder, context, state);
  add_resident_buffers(builder, context, state);
  return state;
}

DeviceCommon add_device_common(ProgramBuilder& builder, const LoweringContext& context,
                               std::int64_t batch_rows, Bytes workspace) {
  DeviceCommon common;
  const Architecture& architecture = context.architecture;
  common.constants =
      builder.persistent("dev.rope", Tier::device, {context.position_rows * architecture.head_dim * 4}, true);
  const std::int64_t arrays = builder.unified() ? kHostBatchArrays : kDeviceBatchArrays;
  common.batch = builder.persistent("dev.batch", Tier::device, {batch_rows * arrays * 4}, builder.unified());
  common.host_batch = builder.unified() ? common.batch
                                        : builder.persistent("host.batch", Tier::host,
                                                             {batch_rows * kHostBatchArrays * 4}, true);
  if (workspace.value > 0)
    common.workspace = builder.persistent("dev.workspace", Tier::device, workspace, false);
  return common;
}

void add_load_batch(ProgramBuilder& builder, const DeviceCommon& common, std::int64_t batch_rows) {
  if (builder.unified()) return;
  Op op{.kind = OpKind::load_batch, .stream = StreamId::h2d, .bytes = {batch_rows * kDeviceBatchArrays * 4}};
  op.operands = {{OperandRole::input, common.host_batch, Access::read},
                 {OperandRole::output, common.batch, Access::write}};
  builder.before(0, std::move(op));
}

WeightSlots::WeightSlots(ProgramBuilder& builder, const LoweringContext& context, HostWeights& host,
                         std::int64_t slots)
    : builder_(builder), context_(context), host_(host) {
  if (builder.unified()) return;
  std::int64_t streamed = 0;
  Bytes largest;
  for (std::size_t g = 1; g + 1 < context.groups.size(); ++g) {
    if (home_of(context, g).on_device) continue;
    ++streamed;
    largest = std::max(largest, Bytes{context.groups[g].elements * context.type_bytes});
  }
  for (std::int64_t k = 0; k < std::min(slots, streamed); ++k)
    slots_.push_back({.buffer = builder.persistent(name_of("dev.slot", k), Tier::device, largest, false)});
}

BufferId WeightSlots::use(std::int32_t layer, UpdateLowering* update) {
  const auto group = static_cast<std::size_t>(layer) + 1;
  if (home_of(context_, group).on_device) return host_.use(group).buffer;
  Slot* chosen = nullptr;
  for (Slot& slot : slots_) {
    if (slot.layer == layer && update == nullptr) return slot.buffer;
    if (chosen == nullptr || slot.last_use < chosen->last_use) chosen = &slot;
  }
  UpdateLowering::Update before;
  if (update != nullptr) before = update->update(group);
  HostWeights::Use host = host_.use(group);
  std::vector<Op>& ops = before.ops;
  int after = std::max(before.after, host.after);
  if (host.read) ops.push_back(std::move(*host.read));
  if (chosen != nullptr) {
    Op op{.kind = OpKind::load_weights, .stream = StreamId::h2d, .layer = layer};
    op.bytes = {context_.groups[group].elements * context_.type_bytes};
    op.elements = context_.groups[group].elements;
    op.operands = {{OperandRole::input, host.buffer, Access::read},
                   {OperandRole::output, chosen->buffer, Access::write}};
    ops.push_back(std::move(op));
    after = std::max(after, chosen->last_use);
    chosen->layer = layer;
  }
  for (Op& op : ops) {
    if (after < 0)
      builder_.before(0, std::move(op));
    else
      builder_.after(after, std::move(op));
  }
  host_.used(group, after);
  return chosen == nullptr ? host.buffer : chosen->buffer;
}

void WeightSlots::used(std::int32_t layer, int compute) {
  if (slots_.empty()) host_.used(static_cast<std::size_t>(layer) + 1, compute);
  for (Slot& slot : slots_)
    if (slot.layer == layer) slot.last_use = compute;
}

void add_collect(ProgramBuilder& builder, BufferId loss, std::int32_t micro_batch, Bytes bytes, int compute) {
  BufferId source = loss;
  if (!builder.unified()) {
    source = builder.transient(fmt::format("host.loss.m{}", micro_batch), Tier::host, bytes);
    Op offload{
        .kind = OpKind::offload_loss, .stream = StreamId::d2h, .micro_batch = micro_batch, .bytes = bytes};
    offload.operands = {{OperandRole::input, loss, Access::read},
                        {OperandRole::output, source, Access::write}};
    builder.after(compute, std::move(offload));
  }
  Op collect{.kind = OpKind::collect, .stream = StreamId::host, .micro_batch = micro_batch, .bytes = bytes};
  collect.operands = {{OperandRole::input, source, Access::read}};
  builder.after(compute, std::move(collect));
}

std::vector<Operand> use_head(ProgramBuilder& builder, const LoweringContext& context,
                              const StateBuffers& state, int load_at) {
  const std::size_t head = context.groups.size() - 1;
  const bool tied = context.architecture.tied_head;
  if (builder.unified()) {
    std::vector<Operand> operands{{OperandRole::weights, state.weights[head], Access::read}};
    if (tied) operands.push_back({OperandRole::embedding, state.weights.front(), Access::read});
    return operands;
  }
  std::vector<Operand> operands;
  const auto load = [&](std::size_t group, const char* name, OperandRole role) {
    const Bytes bytes{context.groups[group].elements * context.type_bytes};
    const BufferId buffer = builder.transient(name, Tier::device, bytes);
    Op op{.kind = OpKind::load_head,
          .stream = StreamId::h2d,
          .bytes = bytes,
          .elements = context.groups[group].elements};
    op.operands = {{OperandRole::input, state.weights[group], Access::read},
                   {OperandRole::output, buffer, Access::write}};
    builder.before(load_at, std::move(op), true);
    operands.push_back({role, buffer, Access::read});
  };
  load(head, "dev.head", OperandRole::weights);
  if (tied) load(0, "dev.projection", OperandRole::embedding);
  return operands;
}

}  // namespace lazytrain
