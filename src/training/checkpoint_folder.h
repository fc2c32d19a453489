// The manifest of a checkpoint folder: shared by the writer and reader (checkpoint.cpp) and by what looks at
// many folders (checkpoint_folder.cpp). Not for use outside.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace lazytrain
