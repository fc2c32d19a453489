// The manifest of a checkpoint folder and the renames that replace one: shared by the writer and reader
// (checkpoint.cpp) and by what looks at many folders (checkpoint_folder.cpp, output_folder.cpp). Not for use
// outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "training/checkpoint.h"

namespace lazytrain {

struct CheckpointManifest {
  struct File {
    std::string name = {};
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  std::int64_t step = 0;
  std::int64_t serial = 0;
  std::vector<File> files;
};

// Error(model_file) where there is none or it is not valid.
CheckpointManifest read_manifest(const std::filesystem::path& folder);
// Every file is there and has its size, or Error(model_file) naming the file.
void check_sizes(const std::filesystem::path& folder, const CheckpointManifest& manifest);

// Puts the folder `from` in the place of `to`. Where `to` exists the two change places at once, so that at
// every moment a whole checkpoint has the final name. File systems that cannot do that (`exchange` false
// stands for one) move the old one to `<to>.previous` first; a kill in between leaves that to
// restore_previous_checkpoints(). What this program did not write is not replaced: Error(disk).
void put_in_place(const std::filesystem::path& from, const std::filesystem::path& to, bool exchange = true);
// checkpoint-<step>.previous gets its name back where nothing has it, else it is removed. Returns a line on
// each.
std::vector<std::string> restore_previous_checkpoints(const OutputLock& lock);

// "replaced-checkpoints", "replaced-checkpoints-2", ...: where output_folder.cpp sets earlier runs aside.
[[nodiscard]] bool is_aside_name(std::string_view name);

// Deletes a folder, under a temporary name first: a deletion that is cut short leaves nothing half. A failure
// is a warning.
void remove_folder(const std::filesystem::path& path);

}  // namespace lazytrain
