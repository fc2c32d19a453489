// How fast the scratch disk is, measured through ScratchFile itself: what planning and simulation know of it.
// Rates are kept as files beside the cost tables, one for each file system and way of reaching it.
#pragma once

#include <filesystem>
#include <string>

namespace lazytrain {

// GB/s. A disk with a burst allowance may be slower over hours than in these two seconds.
struct DiskRates {
  double read = 0, write = 0;  // one direction alone
  double both = 0;             // sum of the two while both are busy
  std::string method = {};     // ScratchFile::method()
};

// Reads and writes blocks of 32 MB of a scratch file in `folder` for about two seconds, in 512 MB or, where
// less is free, in up to half of that. Error(disk) as from ScratchFile, or where less than 128 MB is free.
DiskRates measure_disk(const std::filesystem::path& folder);

// Where the rates of the file system that holds `folder` are kept, in cost_folder().
std::filesystem::path disk_rates_file(const std::filesystem::path& folder);

// The rates that an earlier run kept, else measured now and kept. A file that cannot be understood is
// measured anew, with a warning.
DiskRates load_or_measure_disk(const std::filesystem::path& folder);

}  // namespace lazytrain
