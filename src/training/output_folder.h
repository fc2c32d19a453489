// What an output folder holds of earlier runs, and how a run starts anew in it (overwrite_output_dir: true)
// such that no kill at any moment mixes the two: the old run's checkpoints are set aside before the first
// step and deleted once the new run has a checkpoint, or its model, of its own.
//
// Setting aside is one decision although it is many renames: `replaced-checkpoints.moving` is made first, and
// whoever finds it moves the rest; no checkpoint of the new run is written before it has its final name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "training/checkpoint.h"

namespace lazytrain {

// Brings a folder in order whose run was killed while it renamed checkpoints: an old checkpoint that was
// about to be replaced comes back or goes, a run that was being set aside is set aside. To be called before
// anything looks for checkpoints. Returns a line for the user on each thing it did.
std::vector<std::string> recover_output_folder(const OutputLock& lock);

// Error(usage) where a run that does not go on from a checkpoint of this folder would write over what an
// earlier one left there: checkpoints, or a finished run without any. `wish_auto`: the run looked for a
// checkpoint; then it may go on with starting anew where an earlier one was killed at that.
void require_unused(const std::filesystem::path& output_dir, bool wish_auto);

// Sets an earlier run aside, if there is one.
void set_earlier_run_aside(const OutputLock& lock);
// Deletes what was set aside, if anything was; `newest`, the new run's checkpoint, is read back before
// (Error(model_file) where it is damaged, and nothing is deleted).
void remove_runs_set_aside(const OutputLock& lock, const std::filesystem::path& newest = {});

// Whether a checkpoint is one of this folder's.
[[nodiscard]] bool lies_in(const Checkpoint& checkpoint, const std::filesystem::path& output_dir);

}  // namespace lazytrain
