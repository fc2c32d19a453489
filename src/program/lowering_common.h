// Shared by the lowerings: the persistent buffers of a run, streamed weights, and small helpers. Private to
// `program`.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

#include "program/builder.h"
#include "program/lowering.h"

namespace lazytrain {

// Of the buffer with the clip factor.
inline constexpr Bytes kClipBytes{64};

// Parameters, states and gradients of every group. They come first in their tier, so that their offsets are
// the same in every Program of a run.
struct StateBuffers {
  // By group; -1 where there is none, or it is on disk. Those of resident layers are on the device, but for
  // the norm.
  std::vector<BufferId> weights, states, gradient, norm;
  BufferId clip = -1, device_clip = -1;  // the device's: only where a layer is resident
  // On disk: the pieces of each group's state, and each group's gradient and weights (-1: on the host).
  std::vector<std::vector<BufferId>> disk_states = {};
  std::vector<BufferId> disk_gradient = {}, disk_weights = {};
  // On the host, in rotation: pieces of states, the parts of gradients that they need, whole gradients on
  // their way to the disk, and weights of layers.
  std::vector<BufferId> state_stage = {}, gradient_stage = {}, gradient_slot = {}, weight_slot = {};
};
StateBuffers add_state_buffers(ProgramBuilder& builder, const LoweringContext& context);

inline GroupPlan home_of(const LoweringContext& context, std::size_t group) {
  return context.homes.empty() ? GroupPlan{} : context.homes[group];
}

// Part of add_state_buffers: what is on disk, and the host buffers that it passes through.
void add_disk_buffers(ProgramBuilder& builder, const LoweringContext& context, StateBuffers& state);

// Whether some layer is resident.
bool any_resident(const LoweringContext& context);

// Part of add_state_buffers: what resident layers need beside their weights, states and gradients.
// Error(usage) on unified machines, where nothing can be resident.
void add_resident_buffers(ProgramBuilder& builder, const LoweringContext& context, StateBuffers& state);

// The clip factor goes to the device; placed once before the updates of resident layers.
Op load_clip(const StateBuffers& state);

// Places what becomes of a resident layer's gradient behind its last backward: it is rounded where it is, and
// its partial sums of squares go to the host.
void keep_gradient(ProgramBuilder& builder, const LoweringContext& context, const StateBuffers& state,
                   std::int32_t layer, BufferId accumulator);

// The layers' weights where they live: in place, or those that live on disk in slots that rotate. Ops
// must be placed in the list in the order in which they asked for weights, and behind the compute op `after`
// (-1: anywhere), when the slot is free.
class HostWeights {
 public:
  HostWeights(const LoweringContext& context, const StateBuffers& state);
  struct Use {
    BufferId buffer = -1;
    std::optional<Op> read = std::nullopt;  // brings the weights into the slot, where they are not there yet
    int after = -1;
  };
  // A group's weights for the ops that come next.
  [[nodiscard]] Use use(std::size_t group);
  // The compute op `compute`, or an op that is placed behind it, was the latest to use them.
  void used(std::size_t group, int compute);

 private:
  struct Slot {
    BufferId buffer;
    std::size_t group;  // that it holds; none: npos
    int after = -1;
    std::int64_t turn = -1;  // of the latest use
  };
  const LoweringContext& context_;
  const StateBuffers& state_;
  std::vector<Slot> slots_ = {};
  std::int64_t turns_ = 0;
};

// Updates of groups as ops: one for a group (of a resident layer: a compute op), or for a state on disk
// ReadStates, UpdateGroup and WriteStates of every piece, between reading and writing the weights where they
// are on disk too.
class UpdateLowering {
 public:
  UpdateLowering(const LoweringContext& context, const StateBuffers& state, HostWeights& weights)
      : context_(context), state_(state), weights_(weights) {}
  struct Update {
    std::vector<Op> ops = {};
    int after = -1;  // see HostWeights
  };
  [[nodiscard]] Update update(std::size_t group);

 private:
  const LoweringContext& context_;
  const StateBuffers& state_;
  HostWeights& weights_;
  std::size_t pieces_ = 0, parts_ = 0;  // so far: where the rotations are
};

// The host buffer for which a group's gradient leaves the device, and what then writes it to disk, if it
// lives there.
struct GradientHome {
  BufferId buffer = -1;
  std::optional<Op> write = std::nullopt;
};
GradientHome gradient_home(const LoweringContext& context, const StateBuffers& state, std::size_t group);

// Of the partial sums of squares of a group's gradient.
inline Bytes norm_bytes(const ParameterGroup& group) {
  return {(group.elements + kNormRun - 1) / kNormRun * 8};
}

inline Bytes boundary_bytes(const LoweringContext& context, std::int64_t rows) {
  return Bytes{rows} * context.architecture.hidden * context.type_bytes;
}

inline std::string name_of(const char* prefix, std::int64_t index, std::int64_t micro_batch = -1) {
  return micro_batch < 0 ? fmt::format("{}[{}]", prefix, index)
                         : fmt::format("{}[{}]m{}", prefix, index, micro_batch);
}

// Elements of the largest decoder layer.
std::int64_t largest_layer(const LoweringContext& context);

// Constants, index arrays and scratch that every kind of step has on the device; no scratch where `workspace`
// is 0 (a training step has one for each of its phases).
struct DeviceCommon {
  BufferId constants = -1, batch = -1, host_batch = -1, workspace = -1;
};
DeviceCommon add_device_common(ProgramBuilder& builder, const LoweringContext& context,
                               std::int64_t batch_rows, Bytes workspace);
// Puts the index arrays on the device at the beginning of a step (tiered machines).
void add_load_batch(ProgramBuilder& builder, const DeviceCommon& common, std::int64_t batch_rows);

// The weights of layers as compute ops see them: where they live on unified machines and of resident layers,
// else in rotating device buffers. A layer that a buffer still holds is not loaded again.
class WeightSlots {
 public:
  WeightSlots(ProgramBuilder& builder, const LoweringContext& context, HostWeights& host, std::int64_t slots);
  // The buffer that holds layer `layer` for the next compute op; places the load where it is needed.
  // `update`: the layer is updated first.
  BufferId use(std::int32_t layer, UpdateLowering* update = nullptr);
  // The compute op `compute` was the latest to use it.
  void used(std::int32_t layer, int compute);

 private:
  struct Slot {
    BufferId buffer;
    std::int32_t layer = -1;
    int last_use = -1;
  };
  ProgramBuilder& builder_;
  const LoweringContext& context_;
  HostWeights& host_;
  std::vector<Slot> slots_;
};

// Places LoadHead before compute op `compute`; returns the operands that name the head's parameters.
std::vector<Operand> use_head(ProgramBuilder& builder, const LoweringContext& context,
                              const StateBuffers& state, int load_at);

// What the head left in `loss` reaches the host: over the link where there is one, then Collect(m).
void add_collect(ProgramBuilder& builder, BufferId loss, std::int32_t micro_batch, Bytes bytes, int compute);

}  // namespace lazytrain
