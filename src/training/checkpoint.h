// Checkpoints: folders `checkpoint-<step>` that are there whole or not at all, whatever is killed and when.
//
// A checkpoint is written as `checkpoint-<step>.tmp-<pid>`; every file is flushed to the disk, then
// manifest.json with the size and XXH3-64 of each, and its own, then the folder is renamed. So a folder of
// the final name with an agreeing manifest is complete. What the files mean is the trainer's business: binary
// states are streamed as named files, small states are JSON texts, the model lies in Hugging Face's layout
// beside them.
//
// Each checkpoint carries a serial number, one above all that were there before: the latest is the one that
// was written last, also when a run went on from an older step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/disk_space.h"
#include "core/file.h"
#include "core/units.h"

namespace lazytrain {

// One run at a time writes into an output folder. Makes the folder where it is missing; Error(usage) that
// names the other process where one holds it. Released with the object, or by the system when the process
// dies.
class OutputLock {
 public:
  explicit OutputLock(const std::filesystem::path& output_dir);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
};

// Removes what killed runs left: folders checkpoint-<step>.tmp-<pid> (the lock proves that nobody is writing
// them), and <file>.tmp-<pid> of this program's files and of processes that are gone; nothing that it did not
// write, see checkpoint_ownership.h. Returns the names.
std::vector<std::string> remove_stale_temporaries(const OutputLock& lock);

// Writes one checkpoint. Every failure is Error(disk); destroyed without commit(), it leaves nothing.
class CheckpointWriter {
 public:
  CheckpointWriter(const OutputLock& lock, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // A binary file, in pieces: begin, write..., begin of the next or commit ends it. `name` is a plain file
  // name.
  void begin(const std::string& name);
  void write(std::span<const std::byte> piece);
  // A whole small file.
  void add(const std::string& name, std::string_view text);
  // Where other writers may put further files (the model's safetensors); commit() takes them in.
  [[nodiscard]] const std::filesystem::path& folder() const { return temporary_; }
  // Makes it real and returns its path. An older checkpoint of the same step is replaced, but nothing that
  // this program did not write.
  std::filesystem::path commit();

 private:
  struct Entry {
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  void end();
  void take_in_other_files();

  std::filesystem::path output_dir_, temporary_;
  std::int64_t step_ = 0;
  std::map<std::string, Entry> files_;
  std::string name_;  // of the open file
  std::unique_ptr<AtomicFile> file_;
  std::unique_ptr<Checksum> checksum_;
  std::int64_t bytes_ = 0;
  bool committed_ = false;
};

// A checkpoint that was opened: every file verified by size and checksum, or Error(model_file) naming the
// file.
class Checkpoint {
 public:
  explicit Checkpoint(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] std::int64_t serial() const { return serial_; }
  [[nodiscard]] bool has(const std::string& name) const { return files_.contains(name); }
  [[nodiscard]] Bytes size() const;  // all files
  // Error(model_file) naming the checkpoint and the file where it has none of that name.
  [[nodiscard]] MappedFile map(const std::string& name) const;
  [[nodiscard]] std::string text(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::int64_t step_ = 0;
  std::int64_t serial_ = 0;
  std::map<std::string, std::int64_t> files_;
};

// A folder that is a checkpoint by name and manifest; sizes are compared, contents are not read.
struct CheckpointInfo {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::int64_t serial = 0;
  std::string fault = {};  // empty: looks complete; else why it is not, naming the file
};

// All `checkpoint-<step>` of a folder that this program wrote, in the order they were written (those without
// a readable manifest first).
std::vector<CheckpointInfo> list_checkpoints(const std::filesystem::path& output_dir);

// Error(usage) where `output_dir` has a `checkpoint-<step>` that this program did not write: before a run,
// whose checkpoint may have to go there.
void require_no_foreign_checkpoints(const std::filesystem::path& output_dir);

// The last one that is complete, verified; broken ones are passed over with a warning that says why. None
// where the folder has no checkpoint; Error(model_file) where it has some and all are broken (nothing is
// restarted silently).
std::optional<Checkpoint> latest_checkpoint(const std::filesystem::path& output_dir);

// resume_from_checkpoint's value: "auto" as above; else the checkpoint at that path, Error(model_file) if it
// is none.
std::optional<Checkpoint> checkpoint_to_resume(const std::string& wish,
                                               const std::filesystem::path& output_dir);

// Verifies `newest` (reads it back), then deletes the oldest until `limit` are left, `newest` and `best`
// always among them (two where the limit is one). limit <= 0: no limit. A `newest` that does not verify is
// Error(disk) and deletes nothing.
void prune_checkpoints(const OutputLock& lock, const std::filesystem::path& newest, std::int64_t limit,
                       const std::filesystem::path& best = {});

// Refuses (Error(disk)) before the first step what will not fit at its largest: (limit + 1) checkpoints, or
// `checkpoints` of them if that is fewer or there is no limit, and the final model, less what is there
// already.
struct DiskNeed {
  Bytes checkpoint = {};         // of one
  std::int64_t checkpoints = 0;  // that the run will write
  std::int64_t limit = 0;        // save_total_limit; <= 0 none
  Bytes model = {};              // the final export
  Bytes scratch = {};            // what the run keeps on the same file system while it lasts
  bool anew = false;             // the checkpoints that are there are another run's: they make no room
};
void check_disk_space(const std::filesystem::path& output_dir, const DiskNeed& need);

}  // namespace lazytrain
