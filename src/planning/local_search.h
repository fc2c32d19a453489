// Better plans around a good one, for small steps: the decisions of one layer at a time, judged by the
// simulator. The program counts bytes as a fluid and knows nothing of the order in which transfers queue;
// where a step has few objects both matter, and trying is cheap.
#pragma once

#include "planning/candidates.h"

namespace lazytrain {

// Layer calls of a step (layers times micro-batches) up to which improved() is worth its time.
inline constexpr std::int64_t kMostSearchedCalls = 32;

// `best`, or a plan with the same micro-batches that fits and is faster in simulation. Layer calls of the
// plans that are tried are taken off `calls_left`; it ends where none are left. Tiered machines alone; on
// others it returns `best`.
Candidate improved(Candidates& candidates, const PlanningInputs& inputs, Candidate best,
                   std::int64_t& calls_left);

}  // namespace lazytrain
