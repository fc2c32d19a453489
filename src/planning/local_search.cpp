#include "planning/local_search.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planning/policies.h"

namespace lazytrain {
namespace {

// Differences below this are noise of the last digits.
constexpr double kBetter = 1e-6;

// What is decided for layer l and the boundary that enters it, or of a layer in a block, which stays there.
struct LayerChoice {
  BoundaryPlan boundary;
  LayerPlan layer;
  bool swept = false;
};

// None, all, what it is now, and one more or less.
std::set<std::int64_t> shares(std::int64_t now, std::int64_t all) {
  return {0, all, now, std::max<std::int64_t>(now - 1, 0), std::min(now + 1, all)};
}

// All choices for layer l beside the plan as it is. Nothing of it goes to disk or comes back from there.
std::vector<LayerChoice> choices(const Plan& plan, std::size_t l) {
  const std::int64_t all = plan.batch.micro_batches();
  const BoundaryPlan& boundary = plan.boundaries[l];
  const LayerPlan& layer = plan.layers[l];
  std::vector<LayerChoice> found;
  if (boundary.disk_micro_batches > 0 || layer.stash_disk_micro_batches > 0) return found;
  if (l > 0) found.push_back({.boundary = {.materialised = false}, .layer = {}});
  if (l > 0 && boundary.materialised && is_swept(plan, static_cast<std::int64_t>(l)))
    found.push_back({.boundary = {.materialised = false}, .layer = layer, .swept = true});
  if (is_swept(plan, static_cast<std::int64_t>(l)))
    for (const StashLevel level : kStashLevels)
      found.push_back({.boundary = boundary,
                       .layer = {.stash = level, .stash_device_micro_batches = all},
                       .swept = true});
  for (const std::int64_t kept : shares(boundary.device_micro_batches, all))
    for (const StashLevel level : kStashLevels)
      for (const std::int64_t stashed : shares(layer.stash_device_micro_batches, all)) {
        if (level == StashLevel::none && stashed > 0) continue;
        found.push_back({.boundary = {.materialised = true, .device_micro_batches = kept},
                         .layer = {.stash = level, .stash_device_micro_batches = stashed}});
      }
  return found;
}

// The plan with another choice for layer l. A layer that is not swept stashes only between boundaries that
// are kept: its neighbours' are kept where it stashes, and stop stashing where its own boundary is not. What
// was stashed on the device and is swept now is kept by the sweep.
Plan with_choice(Plan plan, std::size_t l, const LayerChoice& choice) {
  plan.boundaries[l] = choice.boundary;
  plan.layers[l] = choice.layer;
  if (!choice.swept && choice.layer.stash != StashLevel::none && !plan.boundaries[l + 1].materialised)
    plan.boundaries[l + 1] = {.materialised = true};
  const std::int64_t all = plan.batch.micro_batches();
  for (std::size_t other = 0; other < plan.layers.size(); ++other) {
    LayerPlan& layer = plan.layers[other];
    const bool swept = is_swept(plan, static_cast<std::int64_t>(other));
    if (swept ? layer.stash_device_micro_batches < all : !plan.boundaries[other].materialised) layer = {};
  }
  return plan;
}

}  // namespace

Candidate improved(Candidates& candidates, const PlanningInputs& inputs, Candidate best,
                   std::int64_t& calls_left) {
  constexpr int kMostRounds = 4;
  if (inputs.context.tiers != TierModel::tiered || best.plan.policy == "megatrain") return best;
  const std::int64_t calls = best.plan.batch.micro_batches() * std::ssize(best.plan.layers);
  bool found = false;
  const auto consider = [&](const Plan& shape) {
    std::vector<Plan> knobs = knob_ladder(shape, inputs);
    knobs.push_back(shape);
    knobs.push_back(shape);
    knobs.back().weight_slots = static_cast<std::int64_t>(shape.layers.size());
    for (const Plan& plan : knobs) {
      if (calls_left < calls) return;
      calls_left -= calls;
      Candidate tried = candidates.exactly(plan, best.row.variant);
      if (!tried.row.fits || tried.row.step >= best.row.step * (1 - kBetter)) continue;
      best = std::move(tried);
      best.plan.objective = best.plan.bound = 0;  // those of a program that chose otherwise
      found = true;
    }
  };
  for (int round = 0; round < kMostRounds; ++round) {
    found = false;
    for (std::size_t l = 0; l < best.plan.layers.size(); ++l)
      for (const LayerChoice& choice : choices(best.plan, l)) consider(with_choice(best.plan, l, choice));
    if (!found || calls_left < calls) break;
  }
  return best;
}

}  // namespace lazytrain
