// What planning needs to know: the model, the machine, its costs, and the tokens of one step. Weights and
// data are not needed: config.json and a cost table are enough.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "plan/cost_table.h"
#include "plan/machine.h"
#include "plan/plan.h"
#include "program/lowering.h"

namespace lazytrain {

// Scratch that the layers need on the device for `slots` slots of `slot_tokens` tokens a call.
using WorkspaceFunction = std::function<WorkspaceBytes(std::int64_t slots, std::int64_t slot_tokens)>;

// Where optimizer states, and where that is not enough gradients and weights of layers, may live.
enum class StatesHome : std::uint8_t {
  automatic,  // on disk what the host has no room for, if there is a disk
  host,
  disk,  // all states; gradients and weights as with automatic
};

struct PlanningInputs {
  LoweringContext context;       // homes: as the planner finds them, or
  bool homes_are_fixed = false;  // everything of the groups lives where context.homes says already
  Machine machine;
  CostTable costs;  // for batch.slot_tokens
  WorkspaceFunction workspace;
  BatchGeometry batch;                    // micro_batch 0: the planner chooses it
  double supervised_fraction = 1;         // of the tokens, scales the head's time
  std::optional<bool> optimizer_overlap;  // empty: the planner chooses
  StatesHome states_home = StatesHome::automatic;
  // Fills in the machine's disk. Asked only where something has to go there; none: the machine is complete.
  std::function<void(Machine&)> find_disk = {};
  // A disk is used where that makes a step faster; otherwise only where something has no other room.
  bool disk_for_speed = false;
  Bytes most_disk_writes{INT64_MAX};  // a step; plans that write more are taken only where no other fits
  Seconds known_step = kInfinity;     // of a plan that was found: large programs that are slower are left out
  std::int64_t head_slices = 1;       // of the plans that are made (Plan::head_slices)
  std::optional<std::int64_t> every_k = {};  // of policy every-k; empty: all small K are tried
  // Told what is planned next, by questions that plan many times (planning/questions.h).
  std::function<void(const std::string& what)> progress = {};
  // What the user calls the budgets, for messages.
  std::string device_key = "device_memory", host_key = "host_memory", disk_key = "scratch_dir",
              pinned_key = "pinned_memory";
};

}  // namespace lazytrain
