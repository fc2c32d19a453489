// From a point of the step's program to a Plan: shares become whole micro-batches. What rounding takes from
// one object it gives to the next, so that the bytes on every tier stay what the program counted, to about
// one micro-batch. Whether the plan fits is for its lowering to say.
#pragma once

#include <vector>

#include "planning/step_program.h"

namespace lazytrain {

// `bare` gives the plan everything that the program does not decide (bare_plan()).
Plan round_to_plan(const StepModel& model, const StepProgram& program, const std::vector<double>& values,
                   Plan bare);

// How many layers get a stash level of which a point has a share, and how many blocks are swept with all
// items kept: about as many as the share, or never more, which fits where the point does.
enum class LevelRounding : std::uint8_t { nearest, down };

// The binaries of a point that is not whole, rounded to the path that holds most of it, with as many layers
// at each stash level as the point has: those of layers `from` and above are fixed in `program`, so that
// solving it again finds the rest.
void fix_rounded_path(const StepModel& model, StepProgram& program, const std::vector<double>& values,
                      std::int64_t from = 0, LevelRounding rounding = LevelRounding::nearest);

}  // namespace lazytrain
