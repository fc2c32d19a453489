#include "training/output_folder.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "core/disk_advice.h"
#include "core/error.h"
#include "core/log.h"
#include "formats/safetensors.h"
#include "training/checkpoint_folder.h"
#include "training/checkpoint_ownership.h"

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kAside = "replaced-checkpoints";
constexpr std::string_view kMoving = "replaced-checkpoints.moving";
constexpr const char* kStateName = "trainer_state.json";

void rename_or_fail(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    fail(ExitCode::disk, "{}: cannot rename it to {}: {}{}", from.string(), to.string(), error.message(),
         disk_advice(error.value()));
}

// Whether a folder of that name holds what was set aside, and nothing of a user's.
bool is_own_aside(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(folder, ignored))) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name != kStateName && !name.starts_with(".lazytrain-") &&
        !(checkpoint_step(name) && is_own_checkpoint(entry.path())))
      return false;
  }
  return true;
}

std::vector<fs::path> runs_set_aside(const fs::path& output_dir) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, ignored)) {
    if (is_aside_name(entry.path().filename().string()) && is_own_aside(entry.path()))
      found.push_back(entry.path());
  }
  return found;
}

void finish_moving(const OutputLock& lock) {
  const fs::path moving = lock.folder() / kMoving;
  for (const CheckpointInfo& info : list_checkpoints(lock.folder()))
    rename_or_fail(info.path, moving / info.path.filename());
  if (fs::exists(lock.folder() / kStateName)) rename_or_fail(lock.folder() / kStateName, moving / kStateName);
  sync_directory(moving);
  fs::path aside = lock.folder() / kAside;
  for (int number = 2; fs::exists(aside); ++number)
    aside = lock.folder() / fmt::format("{}-{}", kAside, number);
  rename_or_fail(moving, aside);
  sync_directory(lock.folder());
}

// The file that says that a run has ended here; "" where there is none.
std::string finished_run(const fs::path& output_dir) {
  for (const char* name : {kStateName, kSafetensorsFile, kSafetensorsIndex})
    if (fs::exists(output_dir / name)) return name;
  return "";
}

}  // namespace

std::vector<std::string> recover_output_folder(const OutputLock& lock) {
  std::vector<std::string> lines = restore_previous_checkpoints(lock);
  if (fs::is_directory(lock.folder() / kMoving)) {
    finish_moving(lock);
    lines.emplace_back("set the earlier run aside, as a run began to that was killed");
  }
  const std::vector<CheckpointInfo> checkpoints = list_checkpoints(lock.folder());
  const bool own = std::any_of(checkpoints.begin(), checkpoints.end(),
                               [](const CheckpointInfo& info) { return info.fault.empty(); });
  if (own && !runs_set_aside(lock.folder()).empty()) {
    remove_runs_set_aside(lock);
    lines.emplace_back("removed the checkpoints of the run that this one replaces");
  }
  return lines;
}

void require_unused(const fs::path& output_dir, bool wish_auto) {
  if (!list_checkpoints(output_dir).empty())
    fail(ExitCode::usage,
         "{} holds checkpoints of an earlier run; give resume_from_checkpoint: auto to go on, "
         "overwrite_output_dir: true to start anew (they are deleted once the new run has one), or another "
         "output_dir",
         output_dir.string());
  const std::string name = finished_run(output_dir);
  if (name.empty() || (wish_auto && !runs_set_aside(output_dir).empty())) return;
  fail(ExitCode::usage,
       "{} holds the {} of an earlier run, and no checkpoint to go on from; give overwrite_output_dir: true "
       "to "
       "train anew over it, or another output_dir",
       output_dir.string(), name);
}

void set_earlier_run_aside(const OutputLock& lock) {
  if (list_checkpoints(lock.folder()).empty() && finished_run(lock.folder()).empty()) return;
  std::error_code error;
  fs::create_directory(lock.folder() / kMoving, error);
  if (error)
    fail(ExitCode::disk, "{}: cannot create it: {}{}", (lock.folder() / kMoving).string(), error.message(),
         disk_advice(error.value()));
  sync_directory(lock.folder());
  finish_moving(lock);
}

void remove_runs_set_aside(const OutputLock& lock, const fs::path& newest) {
  const std::vector<fs::path> aside = runs_set_aside(lock.folder());
  if (aside.empty()) return;
  if (!newest.empty()) const Checkpoint verified(newest);
  for (const fs::path& path : aside) remove_folder(path);
}

bool lies_in(const Checkpoint& checkpoint, const fs::path& output_dir) {
  std::error_code error;
  const fs::path path = fs::canonical(checkpoint.path(), error);
  return !error && fs::equivalent(path.parent_path(), output_dir, error) && !error;
}

}  // namespace lazytrain
