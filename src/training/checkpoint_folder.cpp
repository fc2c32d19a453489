#include "training/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <system_error>

#include "core/disk_advice.h"
#include "core/error.h"
#include "core/log.h"
#include "training/checkpoint.h"
#include "training/checkpoint_ownership.h"

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrevious = ".previous";
constexpr const char* kLockName = ".lazytrain.lock";

bool occupied_by_another(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored)) && !is_own_checkpoint(path);
}

// The checkpoint whose replacement "checkpoint-<step>.previous" is.
bool is_previous(std::string_view name) {
  return name.ends_with(kPrevious) && checkpoint_step(name.substr(0, name.size() - kPrevious.size()));
}

// "<this>.tmp-<pid>" are folders that are being written or deleted.
bool is_own_folder_name(std::string_view name) {
  return checkpoint_step(name) || is_previous(name) || is_aside_name(name);
}

}  // namespace

void put_in_place(const fs::path& from, const fs::path& to, bool exchange) {
  if (rename(from.c_str(), to.c_str()) == 0) return;
  const bool occupied = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;
  if (occupied && occupied_by_another(to))
    fail(ExitCode::disk, "{}: cannot be replaced: this program did not write it; move it away", to.string());
  if (occupied && exchange) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      std::error_code ignored;
      remove_own_folder(from, ignored);  // what stays behind is a temporary, removed at the next start
      return;
    }
    exchange = errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP;
  }
  if (occupied && !exchange) {
    fs::path previous = to;
    previous += kPrevious;
    std::error_code ignored;
    if (is_own_checkpoint(previous)) remove_own_folder(previous, ignored);
    if (rename(to.c_str(), previous.c_str()) == 0) {
      if (rename(from.c_str(), to.c_str()) == 0) {
        remove_own_folder(previous, ignored);
        return;
      }
      const int reason = errno;
      fs::rename(previous, to, ignored);
      errno = reason;
    }
  }
  fail(ExitCode::disk, "{}: cannot rename it to {}: {}{}", from.string(), to.filename().string(),
       std::strerror(errno), disk_advice(errno));
}

std::vector<std::string> restore_previous_checkpoints(const OutputLock& lock) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(lock.folder())) {
    if (is_previous(entry.path().filename().string()) && is_own_checkpoint(entry.path()))
      found.push_back(entry.path());
  }
  std::vector<std::string> lines;
  for (const fs::path& previous : found) {
    const fs::path name = previous.parent_path() / previous.stem();
    if (fs::exists(name)) {
      remove_folder(previous);
      lines.push_back(fmt::format("removed {}, which was replaced", previous.filename().string()));
      continue;
    }
    put_in_place(previous, name);
    sync_directory(lock.folder());
    lines.push_back(
        fmt::format("{} is back: a run was killed while it replaced it", name.filename().string()));
  }
  return lines;
}

void remove_folder(const fs::path& path) {
  fs::path doomed = path;
  doomed += fmt::format(".tmp-{}", getpid());
  std::error_code error;
  if (!fs::is_symlink(path, error)) mark_unfinished(path);
  fs::rename(path, doomed, error);
  if (error)
    unmark_unfinished(path);
  else
    remove_own_folder(doomed, error);
  if (error) log::warning("{}: cannot delete it: {}", path.string(), error.message());
}

OutputLock::OutputLock(const fs::path& output_dir) : folder_(output_dir) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    fail(ExitCode::disk, "output_dir {}: cannot create it: {}{}", folder_.string(), error.message(),
         disk_advice(error.value()));
  const fs::path path = folder_ / kLockName;
  // Neither through a link into another file nor into a pipe.
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
  if (descriptor_ < 0 && errno == ELOOP)
    fail(ExitCode::usage, "{}: a symbolic link, where a file of this program belongs; remove it",
         path.string());
  if (descriptor_ < 0)
    fail(ExitCode::disk, "{}: cannot create it: {}{}", path.string(), std::strerror(errno),
         disk_advice(errno));
  struct stat status {};
  if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1) {
    close(descriptor_);
    fail(ExitCode::usage, "{}: not a file of this program; remove it", path.string());
  }
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    char owner[32] = {};
    const ssize_t size = pread(descriptor_, owner, sizeof(owner) - 1, 0);
    close(descriptor_);
    if (reason != EWOULDBLOCK) {
      fail(ExitCode::disk, "{}: cannot lock it: {}{}", path.string(), std::strerror(reason),
           disk_advice(reason));
    }
    const std::string_view text(owner, size > 0 ? static_cast<std::size_t>(size) : 0);
    fail(ExitCode::usage,
         "output_dir {}: process {} is training into it; wait for it or choose another folder",
         folder_.string(),
         !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos
             ? text
             : std::string_view("unknown"));
  }
  const std::string owner = std::to_string(getpid());
  // Only for the message above: a lock without a number is as good.
  [[maybe_unused]] const bool written =
      ftruncate(descriptor_, 0) == 0 && pwrite(descriptor_, owner.data(), owner.size(), 0) > 0;
}

OutputLock::~OutputLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::vector<std::string> remove_stale_temporaries(const OutputLock& lock) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(lock.folder())) {
    const std::optional<TemporaryName> name = temporary_name(entry.path().filename().string());
    if (name && is_own_folder_name(name->base) && is_own_leftover(entry.path()))
      found.push_back(entry.path());
  }
  std::vector<std::string> removed;
  for (const fs::path& path : found) {
    std::error_code error;
    remove_own_folder(path, error);
    if (error)
      log::warning("{}: cannot remove what a killed run left: {}", path.string(), error.message());
    else
      removed.push_back(path.filename().string());
  }
  for (std::string& name : remove_stale_files(lock.folder())) removed.push_back(std::move(name));
  return removed;
}

bool is_aside_name(std::string_view name) {
  constexpr std::string_view kAside = "replaced-checkpoints";
  if (!name.starts_with(kAside)) return false;
  name.remove_prefix(kAside.size());
  return name.empty() || (name.starts_with('-') && name.size() > 1 &&
                          name.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

void require_no_foreign_checkpoints(const fs::path& output_dir) {
  std::error_code ignored;
  std::vector<std::string> foreign;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (checkpoint_step(name) && !is_own_checkpoint(entry.path())) foreign.push_back(name);
  }
  if (foreign.empty()) return;
  fail(
      ExitCode::usage,
      "output_dir {} holds {}, which this program did not write and will not replace; move it away or choose "
      "another output_dir",
      output_dir.string(), *std::ranges::min_element(foreign));
}

std::vector<CheckpointInfo> list_checkpoints(const fs::path& output_dir) {
  std::vector<CheckpointInfo> checkpoints;
  if (!fs::is_directory(output_dir)) return checkpoints;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir)) {
    const std::optional<std::int64_t> step = checkpoint_step(entry.path().filename().string());
    if (!step || !is_own_checkpoint(entry.path())) continue;
    CheckpointInfo info{.path = entry.path(), .step = *step};
    try {
      const CheckpointManifest manifest = read_manifest(info.path);
      info.serial = manifest.serial;
      if (manifest.step != info.step) {
        fail(ExitCode::model_file, "{}: its manifest is of step {}", info.path.string(), manifest.step);
      }
      check_sizes(info.path, manifest);
    } catch (const Error& error) {
      info.fault = error.what();
    }
    checkpoints.push_back(std::move(info));
  }
  std::sort(checkpoints.begin(), checkpoints.end(), [](const CheckpointInfo& a, const CheckpointInfo& b) {
    return std::pair(a.serial, a.step) < std::pair(b.serial, b.step);
  });
  return checkpoints;
}

std::optional<Checkpoint> latest_checkpoint(const fs::path& output_dir) {
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(output_dir);
  // All of them: one whose manifest cannot be read stands first, whenever it was written.
  for (const CheckpointInfo& info : checkpoints)
    if (!info.fault.empty()) log::warning("{}; passed over", info.fault);
  for (auto info = checkpoints.rbegin(); info != checkpoints.rend(); ++info) {
    if (!info->fault.empty()) continue;
    try {
      return Checkpoint(info->path);
    } catch (const Error& error) {
      log::warning("{}; passed over", error.what());
    }
  }
  if (!checkpoints.empty()) {
    fail(ExitCode::model_file,
         "{}: none of its {} checkpoints is complete; to start anew set resume_from_checkpoint: null and "
         "overwrite_output_dir: true",
         output_dir.string(), checkpoints.size());
  }
  return std::nullopt;
}

std::optional<Checkpoint> checkpoint_to_resume(const std::string& wish, const fs::path& output_dir) {
  if (wish == "auto") return latest_checkpoint(output_dir);
  if (!fs::is_directory(wish)) {
    fail(ExitCode::model_file,
         "resume_from_checkpoint: {} is not a folder; give a checkpoint-<step> folder or auto", wish);
  }
  return Checkpoint(wish);
}

void prune_checkpoints(const OutputLock& lock, const fs::path& newest, std::int64_t limit,
                       const fs::path& best) {
  if (limit <= 0) return;
  try {
    const Checkpoint verified(newest);
  } catch (const Error& error) {
    fail(ExitCode::disk,
         "{} (right after it was written: the disk is failing); no older checkpoint was deleted: check the "
         "disk",
         error.what());
  }
  std::vector<CheckpointInfo> checkpoints = list_checkpoints(lock.folder());
  const std::int64_t present = std::ssize(checkpoints);
  std::error_code ignored;
  std::erase_if(checkpoints, [&](const CheckpointInfo& info) {
    return fs::equivalent(info.path, newest) || (!best.empty() && fs::equivalent(info.path, best, ignored));
  });
  const std::int64_t surplus = std::min(present - limit, std::ssize(checkpoints));
  // Broken ones are of no use to anybody: they go first.
  std::stable_partition(checkpoints.begin(), checkpoints.end(),
                        [](const CheckpointInfo& info) { return !info.fault.empty(); });
  for (std::int64_t i = 0; i < surplus; ++i) remove_folder(checkpoints[static_cast<std::size_t>(i)].path);
  if (surplus > 0) sync_directory(lock.folder());
}

void check_disk_space(const fs::path& output_dir, const DiskNeed& need) {
  std::int64_t together = std::max<std::int64_t>(0, need.checkpoints);
  if (need.limit > 0) {
    // Those that are there make room one by one, but only after the new one is whole.
    const auto present = need.anew ? 0 : static_cast<std::int64_t>(list_checkpoints(output_dir).size());
    together = std::min(together, need.limit + 1 - std::min(present, need.limit));
  }
  const Bytes needed = need.checkpoint * together + need.model + need.scratch;
  const Bytes free = free_space(output_dir);
  if (needed <= free) return;
  fail(ExitCode::disk,
       "output_dir {}: {} checkpoint{} of {} and the trained model of {}{} need {} more, but {} are free; "
       "lower "
       "save_total_limit, set save_only_model: true, or choose another folder",
       output_dir.string(), together, together == 1 ? "" : "s", format_bytes(need.checkpoint),
       format_bytes(need.model),
       need.scratch.value > 0
           ? fmt::format(", beside {} of scratch on the same disk,", format_bytes(need.scratch))
           : "",
       format_bytes(needed), format_bytes(free));
}

}  // namespace lazytrain
