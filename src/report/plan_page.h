// A planned step as files to look at: plan.html, one page that needs no network, and a trace for Perfetto or
// chrome://tracing. Both show the simulated times, and beside them those of a run where it took them.
#pragma once

#include <span>
#include <string>

#include "planning/portfolio.h"
#include "report/step_figures.h"

namespace lazytrain {

struct StepPicture {
  const PlannedStep& step;
  const CostTable& costs;
  std::string model;                      // "llama, 30 layers, 134.5 M parameters"
  std::span<const OpTime> measured = {};  // by op; empty: no run took them
  std::int64_t measured_step = 0;         // its number in the run
};

// Everything the page shows, as JSON of one line in which no "<" occurs. Times are whole ticks of `tick_s`
// seconds, a hundred-millionth of the step or finer; ops are columns; starts are counted from the end of the
// op before in the same stream, waits from the op itself.
std::string page_data(const StepPicture& picture);
// The whole page.
std::string plan_page(const StepPicture& picture);

// Trace events: one process for the simulated and one for the measured step, one thread a stream, one
// complete event an op, one counter a tier. Times in microseconds.
std::string step_trace(const StepPicture& picture);

}  // namespace lazytrain
