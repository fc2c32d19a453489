// `lazytrain plan` without a run.yaml: a model's config.json, a machine file and a batch are enough. Nothing
// is measured; costs are modelled and times simulated.
#pragma once

#include <cstdint>
#include <string>

#include "planning/portfolio.h"

namespace lazytrain {

struct PlanFiles {
  std::string model, machine;  // folder with a config.json; machine file
  std::int64_t slots = 0, slot_tokens = 0;
  std::string policy = "auto";
  std::int64_t micro_batch = 0;           // 0: the planner's choice
  std::string optimizer = "adamw_torch";  // as the key optim of run.yaml
  std::string host_pool;                  // not empty: replaces the machine's host capacity
  std::string disk;  // not empty: a disk of this size, used wherever it makes a step faster
  std::string optimizer_overlap = "auto";  // auto, on or off
  double supervised_fraction = 1;
};

// Throws Error(usage, model_file, does_not_fit) in one sentence.
PlanningInputs planning_inputs(const PlanFiles& files);

}  // namespace lazytrain
