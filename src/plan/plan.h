// Plan: the decisions of one training step and nothing else: which boundaries are kept and where, what each
// layer stashes, which weights stay, how far ahead transfers may start, and when the optimizer runs.
// `program` lowers it to operations and adds no choice of its own. A Plan can never change a result.
//
// Shares of an object between the tiers are split by micro-batch: the first n micro-batches live on the
// device, the last d on disk, those between on the host (backward meets the first ones first, so the fetches
// of the others hide behind them).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/units.h"
#include "model/architecture.h"

namespace lazytrain {

// The tokens of one step: `slots` slots of `slot_tokens` tokens, `micro_batch` slots per layer call.
struct BatchGeometry {
  std::int64_t slots = 1;
  std::int64_t slot_tokens = 512;
  std::int64_t micro_batch = 1;

  [[nodiscard]] std::int64_t micro_batches() const { return (slots + micro_batch - 1) / micro_batch; }
  // Slots of micro-batch m (the last one may be smaller).
  [[nodiscard]] std::int64_t slots_of(std::int64_t m) const {
    return m + 1 < micro_batches() ? micro_batch : slots - micro_batch * (micro_batches() - 1);
  }
  [[nodiscard]] std::int64_t rows_of(std::int64_t m) const { return slots_of(m) * slot_tokens; }
  bool operator==(const BatchGeometry&) const = default;
};

// Boundary b enters layer b; L is the last hidden state, which the head consumes at once.
struct BoundaryPlan {
  bool materialised = true;  // kept from the forward to the backward
  std::int64_t device_micro_batches =
      0;                                // of these many micro-batches, the first ones, the home is the device
  std::int64_t disk_micro_batches = 0;  // of these many, the last ones, the disk; of the rest the host
};

// Items of a layer that its backward finds rather than computes again. A layer between two kept boundaries
// stashes them in the forward. One inside a recomputed block keeps them when the sweep over its block passes
// it: on the device, and not for long.
struct LayerPlan {
  StashLevel stash = StashLevel::none;
  std::int64_t stash_device_micro_batches = 0;
  std::int64_t stash_disk_micro_batches = 0;
};

// Where what the optimizer has of a parameter group lives between uses. Neither on disk nor on the device is
// on the host.
struct GroupPlan {
  bool states_on_disk = false;    // moments, and the residuals of the masters
  bool gradient_on_disk = false;  // of decoder layers alone, and only beside states on disk
  bool weights_on_disk = false;   // likewise, and only beside gradients on disk
  // A resident layer: weights, gradient and optimizer states live on the device and it is updated there;
  // nothing of it crosses a link. Decoder layers alone, on tiered machines, and nothing of them on disk.
  bool on_device = false;
  bool operator==(const GroupPlan&) const = default;
};

struct Plan {
  static constexpr int kVersion = 4;

  std::string policy;
  BatchGeometry batch;
  std::vector<BoundaryPlan> boundaries;  // L + 1; 0 and L are always materialised
  std::vector<LayerPlan> layers;         // L
  std::vector<GroupPlan> groups = {};  // by parameter group (embedding, layers, head); empty: all on the host

  // Tiered machines: device buffers that streamed weights rotate through. A load may start as soon as the
  // layer that held the slot before is done with it.
  std::int64_t weight_slots = 2;
  // Tiered machines: a boundary or stash may be fetched once the compute op this many ops before its consumer
  // has started.
  std::int64_t fetch_lead = 2;
  // Bytes that leave the device stay reserved until this many further compute ops have been issued, so that
  // compute need not wait for the link at once.
  std::int64_t offload_lag = 2;
  // Boundaries and stashes on disk: host buffers that they pass through on the way there, and as many on the
  // way back. A read from disk may start as soon as one is free; on unified machines, where the disk fills
  // the layers' own buffers, this many are read ahead.
  std::int64_t activation_stage_slots = 2;
  // fp32 gradient accumulators that layers rotate through; one is free again when its gradient has left.
  std::int64_t gradient_slots = 2;
  bool boundary_gradient_on_host = false;  // the gradient of a boundary leaves the device between layers
  // Tiered machines: slices of the vocabulary in which the head is computed, two of them on the device at a
  // time. 1: whole. More compute the logits twice, and stream all slices but the last twice.
  std::int64_t head_slices = 1;

  bool tail_skip = true;           // a re-forward leaves out the down-projection
  bool sweep_last_layer = false;   // MegaTrain: the no-grad sweep over a block runs its last layer too
  bool retain_logits = false;      // MegaTrain: the logits of the whole batch stay until the head's backward
  bool optimizer_overlap = false;  // updates hide before the next step's forward instead of ending this one

  // What the planner knew when it made the plan (reports and re-planning).
  Seconds simulated_step = 0;
  std::string cost_fingerprint;
  double objective = 0, bound = 0;  // of a mixed-integer program, 0 otherwise
};

// Every rule a Plan must obey for `architecture`; throws Error(usage) with the first broken one (`where` in
// front).
void check_plan(const Plan& plan, const Architecture& architecture, const std::string& where);

nlohmann::json to_json(const Plan& plan);
// Refuses other versions, missing keys and impossible values in one sentence.
Plan plan_from_json(const nlohmann::json& json, const std::string& where);
Plan read_plan(const std::filesystem::path& path, const Architecture& architecture);

// What is on disk at level n of 0..most_disk_level(layers): the states of the last n groups, the embedding's
// last; beyond layers + 2 the gradients of the last layers as well, and beyond all of those their weights.
// The last groups go first because their update has the most time to come back before the next forward needs
// it.
[[nodiscard]] std::vector<GroupPlan> groups_on_disk(std::int64_t level, std::int64_t layers);
[[nodiscard]] constexpr std::int64_t most_disk_level(std::int64_t layers) {
  return 3 * layers + 2;
}

// Blocks between consecutive materialised boundaries, first to last: layers [begin, end).
struct Block {
  std::int32_t begin, end;
};
std::vector<Block> blocks_of(const Plan& plan);

// Whether the backward's sweep over layer l is what makes its output, and its stash: of all layers of a block
// but the last.
[[nodiscard]] inline bool is_swept(const Plan& plan, std::int64_t layer) {
  return !plan.boundaries[static_cast<std::size_t>(layer) + 1].materialised;
}

}  // namespace lazytrain
