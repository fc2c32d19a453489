// The other kinds of step: updates alone, evaluation, and generation (prefill, decoding one token a
// sequence).

#include <algorithm>

#include "program/lowering_common.h"
#include "program/lowering_head.h"

namespace lazytrain {
namespace {

// Boundary 0 of one micro-batch, gathered on the host and, on tiered machines, brought to the device.
BufferId gathered_boundary(ProgramBuilder& builder, const StateBuffers& state, const DeviceCommon& common,
                           std::int32_t m, Bytes bytes) {
  const BufferId host =
      builder.transient(name_of(builder.unified() ? "dev.b" : "host.b", 0, m), builder.host_tier(), bytes);
  Op gather{.kind = OpKind::gather_embedding, .stream = StreamId::host, .micro_batch = m};
  gather.operands = {{OperandRole::embedding, state.weights[0], Access::read},
                     {OperandRole::batch, common.host_batch, Access::read},
                     {OperandRole::output, host, Access::write}};
  builder.before(0, std::move(gather));
  if (builder.unified()) return host;
  const BufferId device = builder.transient(name_of("dev.b", 0, m), Tier::device, bytes);
  Op fetch{
      .kind = OpKind::fetch_boundary, .stream = StreamId::h2d, .layer = 0, .micro_batch = m, .bytes = bytes};
  fetch.operands = {{OperandRole::input, host, Access::read}, {OperandRole::output, device, Access::write}};
  builder.before(m - 2, std::move(fetch));
  return device;
}

std::vector<Operand> layer_operands(const DeviceCommon& common, BufferId weights, BufferId input,
                                    BufferId output) {
  return {{OperandRole::weights, weights, Access::read},
          {OperandRole::input, input, Access::read},
          {OperandRole::output, output, Access::write},
          {OperandRole::batch, common.batch, Access::read},
          {OperandRole::constants, common.constants, Access::read},
          {OperandRole::workspace, common.workspace, Access::read_write}};
}

}  // namespace

Program lower_update_only(const LoweringContext& context) {
  const BatchGeometry none{.slots = 1, .slot_tokens = 1, .micro_batch = 1};
  ProgramBuilder builder(ProgramKind::update_only, context, none);
  const StateBuffers state = add_state_buffers(builder, context);
  HostWeights weights(context, state);
  UpdateLowering updates(context, state, weights);
  // A run without optimizer states has nothing to update; its parameters still get their offsets.
  if (context.state_bytes.empty()) return builder.finish();
  if (any_resident(context)) builder.before(0, load_clip(state));
  for (std::size_t g = 0; g < context.groups.size(); ++g)
    for (Op& op : updates.update(g).ops) {
      if (op.stream == StreamId::compute)
        builder.compute(std::move(op));
      else
        builder.before(0, std::move(op));
    }
  return builder.finish();
}

Program lower_evaluate(const LoweringContext& context, const BatchGeometry& batch, std::int64_t weight_slots,
                       const WorkspaceBytes& workspace, std::int64_t head_slices) {
  ProgramBuilder builder(ProgramKind::evaluate, context, batch);
  const StateBuffers state = add_state_buffers(builder, context);
  const std::int64_t batch_rows = batch.slots * batch.slot_tokens;
  // Without a backward the whole head has the scratch of a slice, too.
  const DeviceCommon common =
      add_device_common(builder, context, batch_rows, std::max(workspace.forward, workspace.head_slice));
  HostWeights host_weights(context, state);
  WeightSlots weights(builder, context, host_weights, weight_slots);
  add_load_batch(builder, common, batch_rows);
  const auto micro_batches = static_cast<std::int32_t>(batch.micro_batches());
  std::vector<BufferId> boundary;
  boundary.reserve(static_cast<std::size_t>(micro_batches));
  for (std::int32_t m = 0; m < micro_batches; ++m)
    boundary.push_back(
        gathered_boundary(builder, state, common, m, boundary_bytes(context, batch.rows_of(m))));
  for (std::int32_t l = 0; l < static_cast<std::int32_t>(context.architecture.layers); ++l) {
    const BufferId parameters = weights.use(l);
    for (std::int32_t m = 0; m < micro_batches; ++m) {
      BufferId& input = boundary[static_cast<std::size_t>(m)];
      const BufferId output = builder.transient(name_of("dev.b", l + 1, m), Tier::device,
                                                boundary_bytes(context, batch.rows_of(m)));
      Op op{.kind = OpKind::forward, .stream = StreamId::compute, .layer = l, .micro_batch = m};
      op.operands = layer_operands(common, parameters, input, output);
      weights.used(l, builder.compute(std::move(op)));
      input = output;
    }
  }
  if (head_slices > 1 && !builder.unified()) {
    lower_head_forward({.builder = builder,
                        .context = context,
                        .state = state,
                        .geometry = batch,
                        .slices = head_slices,
                        .batch = common.batch,
                        .workspace = common.workspace,
                        .load_at = builder.next_compute() - 1,
                        .inputs = boundary});
    return builder.finish();
  }
  const std::vector<Operand> head = use_head(builder, context, state, builder.next_compute() - 1);
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    const Bytes bytes{batch.rows_of(m) * 4};
    const BufferId loss = builder.transient(fmt::format("dev.loss.m{}", m), Tier::device, bytes);
    Op op{.kind = OpKind::head_forward, .stream = StreamId::compute, .micro_batch = m};
    op.operands = head;
    op.operands.insert(op.operands.end(),
                       {{OperandRole::input, boundary[static_cast<std::size_t>(m)], Access::read},
                        {OperandRole::loss, loss, Access::write},
                        {OperandRole::batch, common.batch, Access::read},
                        {OperandRole::workspace, common.workspace, Access::read_write}});
    add_collect(builder, loss, m, bytes, builder.compute(std::move(op)));
  }
  return builder.finish();
}

GenerationPrograms lower_generation(const LoweringContext& context, const GenerationGeometry& geometry,
                                    std::int64_t weight_slots, const WorkspaceBytes& workspace) {
  const Architecture& architecture = context.architecture;
  const std::int64_t prefill_rows = geometry.prefill.slots * geometry.prefill.slot_tokens;
  const std::int64_t batch_rows = std::max(prefill_rows, geometry.sequences);
  const auto lower = [&](ProgramKind kind) {
    const bool prefill = kind == ProgramKind::prefill;
    const BatchGeometry batch =
        prefill ? geometry.prefill
                : BatchGeometry{.slots = 1, .slot_tokens = geometry.sequences, .micro_batch = 1};
    ProgramBuilder builder(kind, context, batch);
    const StateBuffers state = add_state_buffers(builder, context);
    const DeviceCommon common = add_device_common(
        builder, context, batch_rows, std::max({workspace.forward, workspace.decode, workspace.head}));
    HostWeights host_weights(context, state);
    WeightSlots weights(builder, context, host_weights, weight_slots);
    std::vector<BufferId> caches;
    for (std::int64_t l = 0; l < architecture.layers; ++l)
      caches.push_back(builder.persistent(
          name_of("dev.cache", l), Tier::device,
          {geometry.sequences * geometry.capacity * 2 * architecture.kv_width() * context.type_bytes},
          !prefill));
    add_load_batch(builder, common, batch_rows);
    const std::int64_t rows = prefill ? prefill_rows : geometry.sequences;
    BufferId boundary = gathered_boundary(builder, state, common, 0, boundary_bytes(context, rows));
    for (std::int32_t l = 0; l < static_cast<std::int32_t>(architecture.layers); ++l) {
      const BufferId parameters = weights.use(l);
      const BufferId output =
          builder.transient(name_of("dev.b", l + 1, 0), Tier::device, boundary_bytes(context, rows));
      Op op{.kind = prefill ? OpKind::forward : OpKind::decode_layer,
            .stream = StreamId::compute,
            .layer = l,
            .micro_batch = 0};
      op.operands = layer_operands(common, parameters, boundary, output);
      op.operands.push_back({OperandRole::cache, caches[static_cast<std::size_t>(l)],
                             prefill ? Access::write : Access::read_write});
      weights.used(l, builder.compute(std::move(op)));
      boundary = output;
    }
    const std::vector<Operand> head = use_head(builder, context, state, builder.next_compute() - 1);
    const Bytes bytes{geometry.sequences * 4};
    const BufferId tokens = builder.transient("dev.tokens", Tier::device, bytes);
    Op op{.kind = OpKind::head_argmax, .stream = StreamId::compute, .micro_batch = 0};
    op.operands = head;
    op.operands.insert(op.operands.end(), {{OperandRole::input, boundary, Access::read},
                                           {OperandRole::loss, tokens, Access::write},
                                           {OperandRole::batch, common.batch, Access::read},
                                           {OperandRole::workspace, common.workspace, Access::read_write}});
    add_collect(builder, tokens, 0, bytes, builder.compute(std::move(op)));
    return builder.finish();
  };
  return {.prefill = lower(ProgramKind::prefill), .decode = lower(ProgramKind::decode)};
}

}  // namespace lazytrain
