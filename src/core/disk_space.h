// Which file system a folder is on, or will be on, and what is free there.
#pragma once

#include <filesystem>

#include "core/units.h"

namespace lazytrain {

// The folder, or its nearest parent that exists.
[[nodiscard]] std::filesystem::path nearest_existing(const std::filesystem::path& folder);

// Both lie on one file system, or will.
[[nodiscard]] bool same_file_system(const std::filesystem::path& a, const std::filesystem::path& b);

// Space that this user may still fill on the folder's file system. Error(disk) where the system does not say.
[[nodiscard]] Bytes free_space(const std::filesystem::path& folder);

}  // namespace lazytrain
