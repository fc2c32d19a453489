// Shared by the tests of program and planning: contexts, machines and random cases.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "plan/plan_support.h"
#include "program/lowering.h"
#include "program/program.h"
#include "program/verifier.h"

namespace lazytrain {

// bf16 weights with fp32 master and moments.
inline LoweringContext small_context(const Architecture& architecture, TierModel tiers) {
  LoweringContext context;
  context.architecture = architecture;
  context.groups = parameter_groups(architecture);
  context.tiers = tiers;
  context.type_bytes = 2;
  context.position_rows = 16;
  // Three pieces a state, the last one ragged.
  for (const ParameterGroup& group : context.groups) {
    std::vector<StatePieceSize>& pieces = context.state_pieces.emplace_back();
    Bytes bytes;
    for (std::int64_t begin = 0, step = group.elements / 3 + 1; begin < group.elements; begin += step) {
      const std::int64_t end = std::min(group.elements, begin + step);
      pieces.push_back({.begin = begin, .end = end, .bytes = align_up({(end - begin) * 12}, kDiskAlignment)});
      bytes += pieces.back().bytes;
    }
    context.state_bytes.push_back(bytes);
  }
  return context;
}

inline WorkspaceBytes small_workspace() {
  return {.forward = {4096},
          .recompute = {4096},
          .backward = {8192},
          .head = {6144},
          .head_slice = {2048},
          .decode = {1024}};
}

inline Machine roomy_machine(TierModel tiers) {
  Machine machine;
  machine.tiers = tiers;
  machine.device_capacity = {std::int64_t{1} << 40};
  machine.host_capacity = {tiers == TierModel::unified ? 0 : std::int64_t{1} << 40};
  machine.disk_capacity = {std::int64_t{1} << 40};
  machine.disk_read = machine.disk_write = 1;
  machine.h2d = machine.d2h = 1;
  return machine;
}

// How many cases a property test tries: what the environment says, or else `otherwise`.
inline std::uint64_t cases(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
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
  const bool tied = random.below(2) == 0;
  const Architecture architecture =
      n % 3 == 1 ? hybrid_architecture(layers, tied) : small_architecture(layers, tied);
  RandomCase result{
      .context = small_context(architecture, random.below(4) == 0 ? TierModel::unified : TierModel::tiered),
      .plan = random_plan(random, architecture, batch)};
  if (random.below(2) == 0) result.context.type_bytes = 4;
  std::vector<GroupPlan>& homes = result.plan.groups;
  if (result.context.tiers == TierModel::unified) homes.clear();
  if (random.below(3) == 0) {
    const auto levels = static_cast<std::uint64_t>(most_disk_level(layers)) + 1;
    const std::vector<GroupPlan> resident = homes;
    homes = groups_on_disk(static_cast<std::int64_t>(random.below(levels)), layers);
    for (std::size_t g = 0; g < resident.size() && g < homes.size(); ++g)
      if (resident[g].on_device) homes[g] = resident[g];
  }
  result.context.homes = homes;
  return result;
}

inline std::string text_of(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) text += violation.what + "\n";
  return text;
}

}  // namespace lazytrain
