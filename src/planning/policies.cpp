#include "planning/policies.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "model/vocabulary.h"
#include "planning/paper.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kMegatrainInterval = 4;
constexpr std::int64_t kMostInterval = 8;

// Everything on the device, every boundary materialised, nothing stashed.
Plan blank_plan(const PlanningInputs& inputs, const BatchGeometry& batch, const char* policy) {
  Plan plan;
  plan.groups = inputs.context.homes;
  plan.policy = policy;
  plan.batch = batch;
  plan.head_slices = inputs.head_slices;
  plan.optimizer_overlap = inputs.optimizer_overlap.value_or(true);
  plan.cost_fingerprint = fingerprint(inputs.costs);
  const auto layers = static_cast<std::size_t>(inputs.context.architecture.layers);
  plan.boundaries.assign(layers + 1, {.device_micro_batches = batch.micro_batches()});
  plan.layers.assign(layers, {.stash_device_micro_batches = batch.micro_batches()});
  return plan;
}

void keep_every(Plan& plan, std::int64_t k) {
  for (std::size_t b = 1; b + 1 < plan.boundaries.size(); ++b)
    plan.boundaries[b].materialised = static_cast<std::int64_t>(b) % k == 0;
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> kNames{
      "auto", "milp", "megatrain", "zero3-offload", "every-k", "keep-all", "offload-all", "greedy", "paper"};
  return kNames;
}

void check_policy_name(const std::string& name) {
  const std::vector<std::string>& names = policy_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string all;
  for (const std::string& known : names)
    all += (all.empty() ? "" : known == names.back() ? " or " : ", ") + known;
  fail(ExitCode::usage, "policy: '{}' is not a policy; use {}", name, all);
}

bool covers(const std::string& policy, const char* name) {
  return policy == name || policy == "auto";
}

bool may_slice_head(const PlanningInputs& inputs, const std::string& policy) {
  const bool published = policy == "megatrain" || policy == "zero3-offload" || policy == "paper";
  return !published && inputs.context.tiers == TierModel::tiered &&
         vocabulary_blocks(inputs.context.architecture.vocab) > 1;
}

Plan megatrain_plan(const PlanningInputs& inputs, const BatchGeometry& batch) {
  Plan plan = blank_plan(inputs, batch, "megatrain");
  keep_every(plan, kMegatrainInterval);
  plan.tail_skip = false;
  plan.sweep_last_layer = true;
  plan.retain_logits = true;
  plan.optimizer_overlap = inputs.optimizer_overlap.value_or(false);
  return plan;
}

Plan zero3_offload_plan(const PlanningInputs& inputs, const BatchGeometry& batch) {
  Plan plan = blank_plan(inputs, batch, "zero3-offload");
  plan.tail_skip = false;
  plan.retain_logits = true;
  plan.optimizer_overlap = inputs.optimizer_overlap.value_or(false);
  return plan;
}

Plan every_k_plan(const PlanningInputs& inputs, const BatchGeometry& batch, std::int64_t k, StashLevel kept) {
  check(k >= 1, "an interval of boundaries is at least 1");
  Plan plan = blank_plan(inputs, batch, "every-k");
  keep_every(plan, k);
  for (std::size_t l = 0; l < plan.layers.size(); ++l)
    if (is_swept(plan, static_cast<std::int64_t>(l))) plan.layers[l].stash = kept;
  return plan;
}

std::vector<std::int64_t> every_k_intervals(const PlanningInputs& inputs) {
  const std::int64_t layers = inputs.context.architecture.layers;
  if (inputs.every_k) return {std::min(*inputs.every_k, layers)};
  std::vector<std::int64_t> all(static_cast<std::size_t>(std::min(kMostInterval, layers)));
  std::iota(all.begin(), all.end(), 1);
  return all;
}

Plan split_plan(const PlanningInputs& inputs, const BatchGeometry& batch, const Split& split) {
  Plan plan = blank_plan(inputs, batch, "greedy");
  const std::int64_t micro_batches = batch.micro_batches();
  const std::int64_t most_stashes = split.level == StashLevel::none ? 0 : micro_batches - split.stash_share;
  const std::int64_t stashes_on_disk = std::clamp<std::int64_t>(split.disk_share, 0, most_stashes);
  for (BoundaryPlan& boundary : plan.boundaries) {
    boundary.device_micro_batches = split.boundary_share;
    boundary.disk_micro_batches =
        std::clamp<std::int64_t>(split.disk_share - stashes_on_disk, 0, micro_batches - split.boundary_share);
  }
  const auto layers = static_cast<std::int64_t>(plan.layers.size());
  const std::int64_t stashing = std::clamp<std::int64_t>(split.stashing_layers, 0, layers);
  for (std::int64_t l = layers - stashing; l < layers; ++l) {
    plan.layers[static_cast<std::size_t>(l)].stash = split.level;
    plan.layers[static_cast<std::size_t>(l)].stash_device_micro_batches = split.stash_share;
    plan.layers[static_cast<std::size_t>(l)].stash_disk_micro_batches = stashes_on_disk;
  }
  return plan;
}

Plan keep_all_plan(const PlanningInputs& inputs, const BatchGeometry& batch) {
  const std::int64_t all = batch.micro_batches();
  Plan plan = split_plan(inputs, batch,
                         {.level = StashLevel::all,
                          .boundary_share = all,
                          .stash_share = all,
                          .stashing_layers = inputs.context.architecture.layers});
  plan.policy = "keep-all";
  return plan;
}

Plan offload_all_plan(const PlanningInputs& inputs, const BatchGeometry& batch, StashLevel level) {
  Plan plan =
      split_plan(inputs, batch, {.level = level, .stashing_layers = inputs.context.architecture.layers});
  plan.policy = "offload-all";
  return plan;
}

std::optional<Plan> paper_plan(const PlanningInputs& inputs, const BatchGeometry& batch) {
  Plan plan = blank_plan(inputs, batch, "paper");
  plan.tail_skip = false;
  plan.optimizer_overlap = inputs.optimizer_overlap.value_or(false);
  return solve_paper(inputs, plan);
}

std::vector<Plan> knob_ladder(const Plan& plan, const PlanningInputs& inputs) {
  const bool disk = std::any_of(plan.boundaries.begin(), plan.boundaries.end(),
                                [](const BoundaryPlan& one) { return one.disk_micro_batches > 0; }) ||
                    std::any_of(plan.layers.begin(), plan.layers.end(),
                                [](const LayerPlan& one) { return one.stash_disk_micro_batches > 0; });
  if (inputs.context.tiers == TierModel::unified) {  // no link, no slots
    std::vector<Plan> ladder{plan};
    if (disk) ladder.push_back(plan), ladder.back().activation_stage_slots = 1;
    return ladder;
  }
  struct Rung {
    std::int64_t weight_slots, gradient_slots, fetch_lead, offload_lag;
  };
  const std::int64_t micro_batches = plan.batch.micro_batches();
  // One layer's backward is 2 ops a micro-batch: the roomiest rung fetches a layer ahead, before the next
  // layer's weights take the link.
  const Rung rungs[] = {{2, 2, 2 * micro_batches + 2, 2 * micro_batches},
                        {2, 2, 4, 2},
                        {2, 2, 2, 2},
                        {2, 1, 2, 1},
                        {2, 1, 1, 0},
                        {1, 1, 1, 0},
                        {1, 1, 0, 0}};
  std::vector<Plan> ladder;
  for (const Rung& rung : rungs) {
    ladder.push_back(plan);
    ladder.back().weight_slots = rung.weight_slots;
    ladder.back().gradient_slots = rung.gradient_slots;
    ladder.back().fetch_lead = rung.fetch_lead;
    ladder.back().offload_lag = rung.offload_lag;
    if (disk && rung.weight_slots == 1) ladder.back().activation_stage_slots = 1;
  }
  if (micro_batches > 1) {
    ladder.push_back(ladder.back());
    ladder.back().boundary_gradient_on_host = true;
  }
  return ladder;
}

}  // namespace lazytrain
