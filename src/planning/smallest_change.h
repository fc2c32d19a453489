// What to say when nothing fits: the smallest change of the budgets, the micro-batch, the batch or the slot
// length with which the leanest plan fits, found by lowering it.
#pragma once

#include <string>

#include "planning/inputs.h"

namespace lazytrain {

// One sentence for Error(does_not_fit). `batch.micro_batch` is set; nothing of `policy` fits
// `inputs.machine`.
std::string smallest_change(const PlanningInputs& inputs, const BatchGeometry& batch,
                            const std::string& policy);

}  // namespace lazytrain
