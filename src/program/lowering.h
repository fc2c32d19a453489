// Lowering: Plan -> Program. A mechanical translation that adds no choice: the plan says what lives where,
// what is recomputed and how far ahead bytes may move, and this turns it into the list of operations of one
// step.
#pragma once

#include <vector>

#include "model/architecture.h"
#include "plan/cost_table.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "program/program.h"

namespace lazytrain {

// Layers x calls of a layer in one Program: a longer one takes long to make, to lay out and to verify, and
// gains nothing. Planning and evaluation keep to it.
inline constexpr std::int64_t kMostLayerCalls = 1 << 12;

// Elements of a gradient whose squares make one partial sum of its norm. The runtime holds it against the
// device's.
inline constexpr std::int64_t kNormRun = 65536;

// Of a row's scores in a head in slices. The runtime holds it against the device's, too.
inline constexpr std::int64_t kScoreBytes = 12;

// A run of a group's elements with its part of the group's state.
struct StatePieceSize {
  std::int64_t begin = 0, end = 0;  // elements of the group
  std::int64_t eight_bit_elements = 0;
  Bytes bytes = {};  // of state, a multiple of kDiskAlignment
};

// What lowering needs to know beside the plan. The same values for all Programs of a run, so that
// parameters and states have the same offsets in each.
struct LoweringContext {
  Architecture architecture;
  std::vector<ParameterGroup> groups;  // parameter_groups(architecture)
  TierModel tiers = TierModel::tiered;
  std::int64_t type_bytes = 2;       // storage type: 2 = bf16, 4 = fp32
  std::int64_t position_rows = 512;  // rows of the rotary tables
  // Optimizer states of each group, fp32 masters included (empty: a run that only evaluates or generates has
  // none).
  std::vector<Bytes> state_bytes;
  // Parameters of each group with 8-bit moments (empty: none); decides what an update costs.
  std::vector<std::int64_t> eight_bit_elements = {};
  // The pieces of each group's state that are moved and updated one by one where the state is on disk (empty:
  // no state can be), and where each group's state and gradient are (empty: all on the host).
  std::vector<std::vector<StatePieceSize>> state_pieces = {};
  std::vector<GroupPlan> homes = {};
};

// Buffers on the host through which what is resident on the device is read and set between steps: as large as
// the largest weights of a resident layer, and as the largest piece of a state.
inline constexpr const char* kWindowOfWeights = "host.window_weights";
inline constexpr const char* kWindowOfStates = "host.window_states";

// Int32 arrays of the batch buffer, each slots * slot_tokens long, in this order: positions, document starts,
// head rows, head targets (generation: cache sequences, or which sequences are active), one more (training:
// the distinct tokens of the step; generation: cache entries). The host's copy ends with what the device
// never sees: the tokens, and where each is among the distinct ones.
inline constexpr std::int64_t kDeviceBatchArrays = 5;
inline constexpr std::int64_t kHostBatchArrays = 7;

// Bytes of the fp32 sums of the embedding's gradient: a row for every distinct token that a step can hold.
Bytes gradient_rows_bytes(const LoweringContext& context, const BatchGeometry& batch);

// Bytes of the retained logits of one micro-batch (megatrain).
Bytes retained_logits_bytes(const LoweringContext& context, std::int64_t rows);

// How far a lowering goes. `estimate`: no buffer has an offset, and the arena sizes are the most bytes alive
// at one op, which no layout can undercut. `memory`: every buffer has its offset, the sizes are exact.
// Neither has waits, so such a Program can be neither run nor simulated; lay_out() and add_dependencies()
// complete it.
enum class LoweringDepth : std::uint8_t { estimate, memory, complete };

// One steady-state training step. With optimizer overlap it begins with the updates of the step before.
Program lower_train_step(const LoweringContext& context, const Plan& plan, const WorkspaceBytes& workspace,
                         LoweringDepth depth = LoweringDepth::complete);

// The updates alone: what overlap leaves to do before an evaluation, a save or the end.
Program lower_update_only(const LoweringContext& context);

// What context.homes puts on disk.
Bytes bytes_on_disk(const LoweringContext& context);

// Forward and losses of one batch; weights streamed through `weight_slots`, the head in `head_slices` slices
// of the vocabulary (Plan::head_slices).
Program lower_evaluate(const LoweringContext& context, const BatchGeometry& batch, std::int64_t weight_slots,
                       const WorkspaceBytes& workspace, std::int64_t head_slices = 1);

// Generation for `sequences` sequences of at most `capacity` tokens: prefill takes prompts packed into slots,
// decode one token a sequence. Both see the same caches at the same offsets.
struct GenerationGeometry {
  std::int64_t sequences = 1;
  std::int64_t capacity = 512;
  BatchGeometry prefill;
};
struct GenerationPrograms {
  Program prefill, decode;
};
GenerationPrograms lower_generation(const LoweringContext& context, const GenerationGeometry& geometry,
                                    std::int64_t weight_slots, const WorkspaceBytes& workspace);

}  // namespace lazytrain
