// Updates of parameter groups, and what of them lives on disk. A state on disk comes to the host in pieces:
// while one is updated, the next is read and the last is written back. The order of reads, updates and writes
// is the list's; how far they overlap follows from the number of stages.

#include <algorithm>

#include "program/lowering_common.h"

namespace lazytrain {
namespace {

// Pieces of states on the host at a time: one is read, one updated, one written.
constexpr std::size_t kStateStages = 3;
// Parts of gradients that were read from disk: one is read, one used.
constexpr std::size_t kGradientStages = 2;
// Gradients on their way to the disk: one arrives, one is written.
constexpr std::size_t kGradientSlots = 2;
// Weights of layers that live on disk: one is used, one is read.
constexpr std::size_t kWeightSlots = 2;
constexpr std::size_t kNoGroup = static_cast<std::size_t>(-1);

// The bytes on disk that hold a piece's elements of a gradient.
struct DiskRange {
  Bytes from, bytes;
};
DiskRange gradient_range(const LoweringContext& context, const StatePieceSize& piece) {
  const std::int64_t from = piece.begin * context.type_bytes / kDiskAlignment * kDiskAlignment;
  return {{from}, align_up({piece.end * context.type_bytes - from}, kDiskAlignment)};
}

// Of a group's weights, or of its gradient.
Bytes whole_blocks(const LoweringContext& context, std::size_t group) {
  return align_up({context.groups[group].elements * context.type_bytes}, kDiskAlignment);
}

}  // namespace

Bytes bytes_on_disk(const LoweringContext& context) {
  Bytes sum;
  for (std::size_t g = 0; g < context.groups.size(); ++g) {
    const GroupPlan home = home_of(context, g);
    if (home.states_on_disk) sum += context.state_bytes[g];
    if (home.gradient_on_disk) sum += whole_blocks(context, g);
    if (home.weights_on_disk) sum += whole_blocks(context, g);
  }
  return sum;
}

void add_disk_buffers(ProgramBuilder& builder, const LoweringContext& context, StateBuffers& state) {
  const std::size_t groups = context.groups.size();
  state.disk_states.resize(groups);
  state.disk_gradient.assign(groups, -1);
  state.disk_weights.assign(groups, -1);
  Bytes piece_bytes, part_bytes, gradient_bytes, weight_bytes;  // the largest of each
  for (std::size_t g = 0; g < groups; ++g) {
    const GroupPlan home = home_of(context, g);
    if (!home.states_on_disk) continue;
    const auto index = static_cast<std::int64_t>(g);
    for (std::size_t p = 0; p < context.state_pieces[g].size(); ++p) {
      const StatePieceSize& piece = context.state_pieces[g][p];
      state.disk_states[g].push_back(builder.persistent(fmt::format("disk.states[{}]p{}", index, p),
                                                        Tier::disk, piece.bytes, true, kDiskAlignment));
      piece_bytes = std::max(piece_bytes, piece.bytes);
      if (home.gradient_on_disk) part_bytes = std::max(part_bytes, gradient_range(context, piece).bytes);
    }
    if (!home.gradient_on_disk) continue;
    state.disk_gradient[g] = builder.persistent(name_of("disk.grad", index), Tier::disk,
                                                whole_blocks(context, g), true, kDiskAlignment);
    gradient_bytes = std::max(gradient_bytes, whole_blocks(context, g));
    if (!home.weights_on_disk) continue;
    state.disk_weights[g] = builder.persistent(name_of("disk.w", index), Tier::disk, whole_blocks(context, g),
                                               true, kDiskAlignment);
    weight_bytes = std::max(weight_bytes, whole_blocks(context, g));
  }
  const auto rotation = [&](const char* name, std::size_t count, Bytes bytes) {
    std::vector<BufferId> buffers;
    for (std::size_t k = 0; k < count && bytes.value > 0; ++k)
      buffers.push_back(builder.persistent(name_of(name, static_cast<std::int64_t>(k)), builder.host_tier(),
                                           bytes, false, kDiskAlignment));
    return buffers;
  };
  state.state_stage = rotation("host.stage", kStateStages, piece_bytes);
  state.gradient_stage = rotation("host.stage_grad", kGradientStages, part_bytes);
  state.gradient_slot = rotation("host.slot_grad", kGradientSlots, gradient_bytes);
  state.weight_slot = rotation("host.weights", kWeightSlots, weight_bytes);
}

HostWeights::HostWeights(const LoweringContext& context, const StateBuffers& state)
    : context_(context), state_(state) {
  for (const BufferId buffer : state.weight_slot) slots_.push_back({.buffer = buffer, .group = kNoGroup});
}

HostWeights::Use HostWeights::use(std::size_t group) {
  if (!home_of(context_, group).weights_on_disk) return {.buffer = state_.weights[group]};
  Slot* chosen = &slots_.front();
  for (Slot& slot : slots_) {
    if (slot.group == group) {
      slot.turn = turns_++;
      return {.buffer = slot.buffer, .after = slot.after};
    }
    if (slot.turn < chosen->turn) chosen = &slot;
  }
  Op read{
      .kind = OpKind::read_weights, .stream = StreamId::disk_read, .layer = static_cast<std::int32_t>(group)};
  read.bytes = whole_blocks(context_, group);
  read.operands = {{OperandRole::input, state_.disk_weights[group], Access::read},
                   {OperandRole::output, chosen->buffer, Access::write}};
  chosen->group = group;
  chosen->turn = turns_++;
  return {.buffer = chosen->buffer, .read = std::move(read), .after = chosen->after};
}

void HostWeights::used(std::size_t group, int compute) {
  for (Slot& slot : slots_)
    if (slot.group == group) slot.after = std::max(slot.after, compute);
}

UpdateLowering::Update UpdateLowering::update(std::size_t group) {
  const auto layer = static_cast<std::int32_t>(group);
  HostWeights::Use weights = weights_.use(group);
  Op whole{.kind = OpKind::update_group, .stream = StreamId::host, .layer = layer};
  whole.elements = context_.groups[group].elements;
  if (!context_.eight_bit_elements.empty()) whole.eight_bit_elements = context_.eight_bit_elements[group];
  const GroupPlan home = home_of(context_, group);
  if (home.on_device) whole.stream = StreamId::compute;
  const BufferId clip = home.on_device ? state_.device_clip : state_.clip;
  const auto operands = [&](BufferId gradient, BufferId states) -> std::vector<Operand> {
    return {{OperandRole::group_gradient, gradient, Access::read},
            {OperandRole::weights, weights.buffer, Access::read_write},
            {OperandRole::states, states, Access::read_write},
            {OperandRole::clip, clip, Access::read}};
  };
  Update update_of_group{.after = weights.after};
  std::vector<Op>& ops = update_of_group.ops;
  if (!home.states_on_disk) {
    whole.operands = operands(state_.gradient[group], state_.states[group]);
    ops.push_back(std::move(whole));
    return update_of_group;
  }
  if (weights.read) ops.push_back(std::move(*weights.read));
  for (std::size_t p = 0; p < context_.state_pieces[group].size(); ++p) {
    const StatePieceSize& piece = context_.state_pieces[group][p];
    const BufferId on_disk = state_.disk_states[group][p];
    const BufferId stage = state_.state_stage[pieces_++ % kStateStages];
    const auto index = static_cast<std::int32_t>(p);
    const auto transfer = [&](OpKind kind, StreamId stream, Bytes from, Bytes bytes, BufferId input,
                              BufferId output) {
      Op op{.kind = kind, .stream = stream, .layer = layer, .piece = index, .from = from, .bytes = bytes};
      op.operands = {{OperandRole::input, input, Access::read}, {OperandRole::output, output, Access::write}};
      ops.push_back(std::move(op));
    };
    transfer(OpKind::read_states, StreamId::disk_read, {}, piece.bytes, on_disk, stage);
    Op update = whole;
    update.piece = index;
    update.elements = piece.end - piece.begin;
    update.eight_bit_elements = piece.eight_bit_elements;
    BufferId gradient = state_.gradient[group];
    if (home.gradient_on_disk) {
      gradient = state_.gradient_stage[parts_++ % kGradientStages];
      const DiskRange range = gradient_range(context_, piece);
      transfer(OpKind::read_gradient, StreamId::disk_read, range.from, range.bytes,
               state_.disk_gradient[group], gradient);
      update.gradient_first = range.from.value / context_.type_bytes;
    }
    update.operands = operands(gradient, stage);
    ops.push_back(std::move(update));
    transfer(OpKind::write_states, StreamId::disk_write, {}, piece.bytes, stage, on_disk);
  }
  if (home.weights_on_disk) {
    Op write{.kind = OpKind::write_weights, .stream = StreamId::disk_write, .layer = layer};
    write.bytes = whole_blocks(context_, group);
    write.operands = {{OperandRole::input, weights.buffer, Access::read},
                      {OperandRole::output, state_.disk_weights[group], Access::write}};
    ops.push_back(std::move(write));
  }
  return update_of_group;
}

GradientHome gradient_home(const LoweringContext& context, const StateBuffers& state, std::size_t group) {
  if (!home_of(context, group).gradient_on_disk) return {.buffer = state.gradient[group]};
  const BufferId slot = state.gradient_slot[group % kGradientSlots];
  Op write{.kind = OpKind::write_gradient,
           .stream = StreamId::disk_write,
           .layer = static_cast<std::int32_t>(group) - 1};
  write.bytes = whole_blocks(context, group);
  write.operands = {{OperandRole::input, slot, Access::read},
                    {OperandRole::output, state.disk_gradient[group], Access::write}};
  return {.buffer = slot, .write = std::move(write)};
}

}  // namespace lazytrain
