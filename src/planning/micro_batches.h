// The search over micro-batch sizes: for each of them the candidates of a policy, for the promising ones the
// programs on top, and a search from the fastest in simulation. Private to `planning`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/candidates.h"

namespace lazytrain {

// Layers times sequences of a step for which the program is solved for every micro-batch size that has hope.
inline constexpr std::int64_t kSmallStep = 128;

// Differences of less than this count as none when the planner chooses between plans.
inline constexpr double kSameStep = 1e-3;

// Slots of a micro-batch, large to small: one size for each of 1, 2, 3, 4, 6, 8, 12, ... calls of a layer in
// a step, up to `most_calls`.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t slots, std::int64_t most_calls);

// Whether to take `step` and the writes to disk that come with it rather than what is `best` so far.
bool better(const PlanningInputs& inputs, Seconds step, Bytes writes, Seconds best, Bytes best_writes);

PlannedStep planned_step(Candidate candidate, std::vector<Evaluation> table, const Machine& machine);

struct SearchedSizes {
  std::optional<PlannedStep> step;  // none where nothing fits, or what does is slower than inputs.known_step
  bool too_slow = false;            // a program was left out for that
};

// The best plan with a head in inputs.head_slices slices, and everything of the groups where
// inputs.context.homes says. `sizes`: slots of a micro-batch, large to small.
SearchedSizes plan_micro_batches(const PlanningInputs& inputs, const std::string& policy,
                                 std::span<const std::int64_t> sizes);

}  // namespace lazytrain
