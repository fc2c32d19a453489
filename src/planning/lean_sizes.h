// The least memory that the plans of a policy need: what is asked before searching for a plan, and for the
// sentence about what does not fit.
#pragma once

#include <string>
#include <vector>

#include "planning/inputs.h"

namespace lazytrain {

// Device, host and pinned bytes of the leanest plans that `policy` has, for the sentence about what does not
// fit; of those only that may fit, where the caller asks for no others.
struct LeanSize {
  Bytes device, host, pinned;

  [[nodiscard]] bool fits(const Machine& machine) const {
    return device <= machine.device_capacity &&
           (machine.tiers == TierModel::unified ||
            (host <= machine.host_capacity &&
             (!machine.pinned_capacity || pinned <= *machine.pinned_capacity)));
  }
};
std::vector<LeanSize> leanest_sizes(const PlanningInputs& inputs, const BatchGeometry& batch,
                                    const std::string& policy, bool fitting = false);

}  // namespace lazytrain
