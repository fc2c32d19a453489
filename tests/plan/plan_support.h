// Shared by the tests of plan, program and planning: small models and random plans.
#pragma once

#include <optional>

#include "core/error.h"
#include "core/random.h"
#include "model/architecture.h"
#include "model/vocabulary.h"
#include "plan/cost_table.h"
#include "plan/machine.h"
#include "plan/plan.h"

namespace lazytrain {

// A llama of `layers` layers with hidden size 32 (4 heads, 2 of keys and values) and 48 tokens.
inline Architecture small_architecture(std::int64_t layers, bool tied_head) {
  Architecture architecture;
  architecture.model_type = "llama";
  architecture.layers = layers;
  architecture.hidden = 32;
  architecture.heads = 4;
  architecture.kv_heads = 2;
  architecture.head_dim = 8;
  architecture.ffn = 80;
  architecture.vocab = 48;
  architecture.tied_head = tied_head;
  architecture.max_position = 512;
  return architecture;
}

// The same with layers of all kinds in turn, so that neighbours differ in their parameters and stashes.
inline Architecture hybrid_architecture(std::int64_t layers, bool tied_head) {
  Architecture architecture = small_architecture(layers, tied_head);
  architecture.linear = {.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 8, .taps = 4};
  architecture.experts = {.count = 4, .active = 2, .ffn = 24};
  for (std::int64_t layer = 0; layer < layers; ++layer)
    architecture.kinds.push_back(kLayerKinds[static_cast<std::size_t>(layer) % kLayerKindCount]);
  return architecture;
}

// Every boundary materialised on the device, nothing stashed.
inline Plan plain_plan(const Architecture& architecture, const BatchGeometry& batch) {
  Plan plan;
  plan.policy = "test";
  plan.batch = batch;
  plan.boundaries.assign(static_cast<std::size_t>(architecture.layers) + 1,
                         {.materialised = true, .device_micro_batches = batch.micro_batches()});
  plan.layers.assign(static_cast<std::size_t>(architecture.layers), {});
  return plan;
}

// Any plan that check_plan() allows, but for what is on disk; for unified machines, without `groups`.
inline Plan random_plan(Random& random, const Architecture& architecture, const BatchGeometry& batch) {
  Plan plan = plain_plan(architecture, batch);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most) + 1));
  };
  const auto coin = [&] { return random.below(2) == 1; };
  // Half of the plans have nothing on disk.
  const bool disk = coin();
  const auto disk_share = [&](std::int64_t device) {
    return disk ? up_to(batch.micro_batches() - device) : 0;
  };
  for (std::size_t b = 0; b < plan.boundaries.size(); ++b) {
    const bool end = b == 0 || b + 1 == plan.boundaries.size();
    plan.boundaries[b] = {.materialised = end || random.below(3) > 0,
                          .device_micro_batches = up_to(batch.micro_batches())};
    plan.boundaries[b].disk_micro_batches = disk_share(plan.boundaries[b].device_micro_batches);
  }
  for (const Block& block : blocks_of(plan)) {
    LayerPlan& layer = plan.layers[static_cast<std::size_t>(block.begin)];
    layer.stash_device_micro_batches = up_to(batch.micro_batches());
    layer.stash_disk_micro_batches = disk_share(layer.stash_device_micro_batches);
    if (block.end - block.begin == 1) layer.stash = kStashLevels[random.below(4)];
    for (std::int32_t l = block.begin; l + 1 < block.end; ++l)  // kept by the sweep
      plan.layers[static_cast<std::size_t>(l)] = {.stash = kStashLevels[random.below(4)],
                                                  .stash_device_micro_batches = batch.micro_batches()};
  }
  plan.weight_slots = 1 + up_to(3);
  plan.gradient_slots = 1 + up_to(2);
  plan.fetch_lead = random.below(8) == 0 ? 1000 : up_to(8);
  plan.offload_lag = random.below(8) == 0 ? 1000 : up_to(8);
  plan.activation_stage_slots = 1 + up_to(2);
  plan.boundary_gradient_on_host = coin();
  plan.tail_skip = coin();
  plan.sweep_last_layer = coin();
  plan.retain_logits = coin();
  plan.optimizer_overlap = coin();
  if (const std::int64_t blocks = vocabulary_blocks(architecture.vocab); !plan.retain_logits && coin())
    plan.head_slices = 1 + up_to(blocks - 1);
  if (coin()) {
    plan.groups.resize(plan.layers.size() + 2);
    for (std::size_t g = 1; g <= plan.layers.size(); ++g) plan.groups[g].on_device = coin();
  }
  return plan;
}

// The Error that `action` throws.
template <typename Action>
std::optional<Error> error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace lazytrain
