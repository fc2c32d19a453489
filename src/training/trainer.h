// The training loop: data in, Programs run, logs, evaluations and checkpoints out. It knows no schedule: what
// a step does is the Program's business.
//
// A run is a pure function of its configuration, its data and its model: stopped and resumed at any point it
// ends with the same bits.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/model_folder.h"
#include "plan/machine.h"
#include "program/program.h"
#include "runtime/session.h"
#include "runtime/step.h"
#include "training/checkpoint.h"
#include "training/run_config.h"
#include "training/run_data.h"
#include "training/signals.h"

namespace lazytrain {

// A plan that takes over between two steps. Its groups have the homes of the plan before, its micro-batch is
// the same.
struct NextPlan {
  Plan plan;
  Program program;
};
struct Replanned {
  std::string message = {};  // for the log; empty: there is nothing to say
  std::optional<NextPlan> next = {};
};

struct TrainingRun {
  const RunConfig& config;
  const ModelFolder& model;
  const RunData& data;
  const Machine& machine;
  const Plan& plan;
  const Program& program;  // the plan's training step
  const SessionOptions& session;
  const OutputLock& lock;            // of config.output_dir
  std::optional<Checkpoint> resume;  // to go on from
  const StopSignals& signals;
  // Looks at every step, with the times of all its operations; the plan that it returns runs from then on,
  // and may use `machine`'s budgets. Empty: the plan stays.
  std::function<Replanned(const StepOutcome&)> replan = {};
  // Called after step config.trace_step, with its number and when each op ran.
  std::function<void(std::int64_t, const std::vector<OpTiming>&)> traced = {};
};

struct TrainingResult {
  std::int64_t steps = 0;  // optimizer steps finished, all sessions
  std::int64_t session_steps = 0;
  std::int64_t total_steps = 0;
  std::int64_t tokens = 0;   // real tokens of this session
  Seconds step_seconds = 0;  // of this session's steps, without evaluation and saving
  Seconds median_step = 0;   // of the last plan
  Seconds median_compute =
      0;  // the median step times the part that the compute stream was busy in the steps that were timed
  double last_loss = 0;
  Bytes device_peak, host_peak;    // highest byte written in each arena
  Bytes resident;                  // anonymous and shared memory of the process after the last step
  std::string disk_method = {};    // how what is on disk was read and written; empty: nothing was
  bool interrupted = false;        // stopped by a signal; a checkpoint holds everything
  std::int64_t exported_step = 0;  // whose weights the model in output_dir has
};

// Trains to the end, to max_steps, or to a signal; exports the model into output_dir at the end. Nothing in
// output_dir is replaced before the checkpoint to resume and the disk have been found good.
// Errors: numerics after three non-finite steps in a row (states are as after the last good one, saved),
// disk, and what a checkpoint refuses (other model, other data). Where the last export fails, the error names
// the checkpoint that holds the trained model.
TrainingResult train(const TrainingRun& run);

// The checkpoint's masters (checkpoint_export.cpp) as a model folder of the same shape as `model`.
// `before_group` is called before each group of parameters; what it throws ends the export, which leaves
// nothing.
void export_checkpoint(const Checkpoint& checkpoint, const ModelFolder& model,
                       const std::filesystem::path& out, const std::string& dtype,
                       const std::function<void()>& before_group = {});

}  // namespace lazytrain
