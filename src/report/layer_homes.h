// Where what belongs to each decoder layer lives between its uses, as the plan says. On unified machines
// device and host are one tier, Tier::device, which a person is told as memory.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "program/program.h"

namespace lazytrain {

// Micro-batches of one object by home.
struct Shares {
  std::int64_t device = 0, host = 0, disk = 0;
  [[nodiscard]] std::int64_t sum() const { return device + host + disk; }
  bool operator==(const Shares&) const = default;
};

struct LayerHomes {
  bool boundary_kept = false;  // the activation that enters the layer; else it is computed again
  Shares boundary;             // all 0 where it is not kept
  StashLevel stash = StashLevel::none;
  Shares stash_shares;  // all 0 where nothing is stashed
  bool swept = false;   // the layer stashes in the sweep over its block, not in the forward
  Tier weights = Tier::host, gradient = Tier::host, states = Tier::host;
};
std::vector<LayerHomes> layer_homes(const Plan& plan, TierModel tiers);

// The same as a picture of characters for the terminal: one column a layer, or a few layers where there are
// more than fit; lines end with a newline and are at most 120 columns wide. Rows in which all layers are
// alike are told in words.
std::string layer_strip(const Plan& plan, TierModel tiers);

}  // namespace lazytrain
