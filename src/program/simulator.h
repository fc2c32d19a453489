// The simulator times a Program without running it: every stream works through its ops in order, an op starts
// when its stream is free and the ops it waits for have ended, compute and host ops last what the CostTable
// says, and transfers share their link (and the joint cap of both directions) as a fluid. Where cores are
// shared (unified machines, and emulated ones, on which cores also do the copying), threads that meet get
// fair parts of them, and a stream that slept takes a moment to wake. All times are simulated and must be
// called so wherever they are printed.
#pragma once

#include <vector>

#include "plan/cost_table.h"
#include "plan/machine.h"
#include "program/program.h"

namespace lazytrain {

struct SimulatedOp {
  Seconds start = 0, end = 0;
};

struct Simulation {
  Seconds step = 0;       // all streams empty
  Seconds compute = 0;    // the compute stream's own work
  Seconds recompute = 0;  // part of it: sweeps and re-forwards
  Seconds exposed = 0;    // step - compute: compute stands still
  std::vector<SimulatedOp> ops;
};

struct SimulationInput {
  const CostTable& costs;
  const Machine& machine;
  double supervised_fraction = 1;  // of the slots' tokens, scales the head
};

Simulation simulate(const Program& program, const SimulationInput& input);

// What one op costs when nothing disturbs it (transfers: at the full rate of their link).
Seconds op_seconds(const Program& program, const Op& op, const SimulationInput& input);

}  // namespace lazytrain
