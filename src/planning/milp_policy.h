// Policy milp: the planner's own mixed-integer program, solved and rounded to a Plan.
//
// The program fixes how far ahead bytes move (StepKnobs) before it is solved; policy milp solves it for a few
// of them, from roomy to lean. Where a rounded plan needs more bytes than a tier has, the excess is taken off
// that capacity and the program is solved again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/step_model.h"

namespace lazytrain {

// Layers of the deepest model whose program is solved.
inline constexpr std::int64_t kMostProgramLayers = 256;

// Knobs from roomy to lean, with the same meaning as knob_ladder()'s.
std::vector<StepKnobs> program_knobs(std::int64_t micro_batches);

// Decisions that may be taken: residency where homes are open, activations on disk where there is one.
StepOptions program_options(const PlanningInputs& inputs);

struct ProgramPlan {
  Plan plan;              // objective and bound in seconds
  std::string how;        // "relaxation rounded, gap 0.04 %" or "searched, gap 0.04 %"
  bool too_slow = false;  // the step is proven slower than a known one; then there is no plan
};

// Empty where no point was found: the step does not fit with these knobs. The relaxation is rounded; small
// programs are searched for better. Too slow is a step whose bound is above `known_step`, another plan's, by
// more than simulation and program differ.
std::optional<ProgramPlan> solve_step(const PlanningInputs& inputs, const BatchGeometry& batch,
                                      const StepModel& model, Seconds known_step = kInfinity);

}  // namespace lazytrain
