// The plans that tests compare: every policy, with boundaries and stashes in every home, and random ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planning/inputs.h"
#include "runtime/session.h"

namespace lazytrain::test {

struct PlanCase {
  std::string name;  // "every-k 2, boundaries on the host"
  Plan plan;
};

// Inputs of the planner for a model under test; the device has room for about half of what keep-all wants, so
// that planners which split have something to split.
PlanningInputs planning_inputs(const Architecture& architecture, const SessionOptions& options,
                               const BatchGeometry& batch);

// One plan of each policy: megatrain, every-k for 1..longest, keep-all, offload-all at each stash level,
// paper.
std::vector<PlanCase> policy_cases(const PlanningInputs& inputs, std::int64_t longest_interval = 4);
// Each of `cases` with boundaries and stashes on the device, on the host and split by micro-batch, in all
// combinations that differ, and on tiered machines with the boundary gradient on either tier.
std::vector<PlanCase> in_every_home(const std::vector<PlanCase>& cases, TierModel tiers);
std::vector<PlanCase> random_cases(const Architecture& architecture, const BatchGeometry& batch,
                                   std::uint64_t first_seed, std::int64_t count);
// Each of `cases` with the optimizer overlapped and not.
std::vector<PlanCase> with_and_without_overlap(const std::vector<PlanCase>& cases);

}  // namespace lazytrain::test
