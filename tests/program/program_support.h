// Shared by the tests of plan, program and planning: small models, machines and random plans.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "plan/cost_table.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "program/lowering.h"
#include "program/program.h"
#include "program/verifier.h"

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

// bf16 weights with fp32 master and moments.
inline LoweringContext small_context(const Architecture& architecture, TierModel tiers) {
  LoweringContext context;
  context.architecture = architecture;
  context.groups = parameter_groups(architecture);
  context.tiers = tiers;
  context.type_bytes = 2;
  context.position_rows = 16;
  for (const ParameterGroup& group : context.groups) context.state_bytes.push_back({group.elements * 12});
  return context;
}

inline WorkspaceBytes small_workspace() {
  return {.forward = {4096}, .recompute = {4096}, .backward = {8192}, .head = {6144}, .decode = {1024}};
}

inline Machine roomy_machine(TierModel tiers) {
  Machine machine;
  machine.tiers = tiers;
  machine.device_capacity = {std::int64_t{1} << 40};
  machine.host_capacity = {tiers == TierModel::unified ? 0 : std::int64_t{1} << 40};
  machine.h2d = machine.d2h = 1;
  return machine;
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

// Any plan that check_plan() allows.
inline Plan random_plan(Random& random, const Architecture& architecture, const BatchGeometry& batch) {
  Plan plan = plain_plan(architecture, batch);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most) + 1));
  };
  const auto coin = [&] { return random.below(2) == 1; };
  for (std::size_t b = 0; b < plan.boundaries.size(); ++b) {
    const bool end = b == 0 || b + 1 == plan.boundaries.size();
    plan.boundaries[b] = {.materialised = end || random.below(3) > 0,
                          .device_micro_batches = up_to(batch.micro_batches())};
  }
  for (const Block& block : blocks_of(plan)) {
    LayerPlan& layer = plan.layers[static_cast<std::size_t>(block.begin)];
    layer.stash_device_micro_batches = up_to(batch.micro_batches());
    if (block.end - block.begin == 1) layer.stash = kStashLevels[random.below(4)];
  }
  plan.weight_slots = 1 + up_to(3);
  plan.gradient_slots = 1 + up_to(2);
  plan.fetch_lead = random.below(8) == 0 ? 1000 : up_to(8);
  plan.offload_lag = random.below(8) == 0 ? 1000 : up_to(8);
  plan.boundary_gradient_on_host = coin();
  plan.tail_skip = coin();
  plan.sweep_last_layer = coin();
  plan.retain_logits = coin();
  plan.optimizer_overlap = coin();
  return plan;
}

struct RandomCase {
  LoweringContext context;
  Plan plan;
};

// Architecture, tiers, batch and plan number `n`.
inline RandomCase random_case(std::uint64_t n) {
  Random random(7, n);
  const auto layers = 1 + static_cast<std::int64_t>(random.below(6));
  const auto slots = 1 + static_cast<std::int64_t>(random.below(5));
  const BatchGeometry batch{
      .slots = slots,
      .slot_tokens = 4 + 4 * static_cast<std::int64_t>(random.below(3)),
      .micro_batch = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(slots)))};
  const Architecture architecture = small_architecture(layers, random.below(2) == 0);
  RandomCase result{
      .context = small_context(architecture, random.below(4) == 0 ? TierModel::unified : TierModel::tiered),
      .plan = random_plan(random, architecture, batch)};
  if (random.below(2) == 0) result.context.type_bytes = 4;
  return result;
}

inline std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += violation.what + "\n";
  return text;
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
