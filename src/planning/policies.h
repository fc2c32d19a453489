// Policies: known ways to place a training step, each a function that makes a Plan. They decide what is kept,
// where it lives and what is recomputed; how far ahead bytes may move (the knobs) is found afterwards by
// `knob_ladder`, from roomy to lean. All plans give the same result; they differ in bytes and seconds.
//
// Micro-batch and overlap come with the arguments: `batch.micro_batch` must be set here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/inputs.h"

namespace lazytrain {

// The names that the key `policy` takes, "auto" first.
const std::vector<std::string>& policy_names();
// Throws Error(usage) with the names when `name` is none of them.
void check_policy_name(const std::string& name);
// Whether `policy` is `name`, or auto, which tries them all.
bool covers(const std::string& policy, const char* name);
// Whether plans of `policy` may compute the head in slices: the published ones know none.
bool may_slice_head(const PlanningInputs& inputs, const std::string& policy);

// MegaTrain's schedule: a boundary every 4 layers on the device, blocks swept to their last layer, nothing of
// a re-forward left out, logits of the whole batch kept, optimizer after the backward unless `inputs` says
// otherwise. Five forwards a step.
Plan megatrain_plan(const PlanningInputs& inputs, const BatchGeometry& batch);

// DeepSpeed's way (ZeRO stage 3 with offloaded states, activation checkpointing): every layer's boundary on
// the device, weights streamed, each layer's forward repeated whole, logits kept, optimizer after the
// backward unless `inputs` says otherwise. Four forwards a step. It runs layer by layer over all
// micro-batches as every plan does, so weights are streamed twice a step and not, as there, twice a
// micro-batch.
Plan zero3_offload_plan(const PlanningInputs& inputs, const BatchGeometry& batch);

// A boundary every k layers on the device, the layers between recomputed; tail skip. The sweep over a block
// keeps `kept` of the layers that it passes, so that what it computes is not computed a third time.
Plan every_k_plan(const PlanningInputs& inputs, const BatchGeometry& batch, std::int64_t k,
                  StashLevel kept = StashLevel::none);
// The k that policy every-k tries: the one that is asked for, or 1 to 8.
std::vector<std::int64_t> every_k_intervals(const PlanningInputs& inputs);

// Every boundary and everything that backward needs stays on the device. Three forwards a step.
Plan keep_all_plan(const PlanningInputs& inputs, const BatchGeometry& batch);

// Every boundary and a stash of `level` in every layer go to the host.
Plan offload_all_plan(const PlanningInputs& inputs, const BatchGeometry& batch, StashLevel level);

// Every boundary materialised, a stash of `level` in the last `stashing_layers` layers; of each boundary the
// first `boundary_share` micro-batches live on the device, of each stash the first `stash_share`; the last
// `disk_share` are on disk: of stashes first, and what is left of it of boundaries.
struct Split {
  StashLevel level = StashLevel::none;
  std::int64_t boundary_share = 0, stash_share = 0, stashing_layers = 0;
  std::int64_t disk_share = 0;
};
Plan split_plan(const PlanningInputs& inputs, const BatchGeometry& batch, const Split& split);

// The published mixed-integer program, solved and lowered (planning/paper.h), with the knobs that fit; no
// tail skip, optimizer after the backward unless `inputs` says otherwise. Empty where no placement fits.
std::optional<Plan> paper_plan(const PlanningInputs& inputs, const BatchGeometry& batch);

// The same plan with ever leaner knobs: weight and gradient slots, lead and lag of transfers, and at last the
// gradient of the boundary on the host; where boundaries or stashes are on disk, also fewer stages of them.
// The first is the roomiest; the last needs the fewest device bytes.
std::vector<Plan> knob_ladder(const Plan& plan, const PlanningInputs& inputs);

}  // namespace lazytrain
