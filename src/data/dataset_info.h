// Where a dataset named in a run's config lies and how its records are spelled: an entry of dataset_info.json
// in the dataset folder, in LLaMA-Factory's format, or simply the path of a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/record_layout.h"

namespace lazytrain {

struct DatasetSource {
  std::string name;  // as the config spells it
  std::filesystem::path file;
  std::optional<RecordLayout> layout;       // nullopt: found by the keys of the first record
  std::optional<std::int64_t> num_samples;  // only the first so many valid ones
  std::vector<std::string> notices = {};    // what of its entry changes nothing here
  std::string entry = {};                   // its JSON in dataset_info.json; "": it has none
};

// `names`: one or more, separated by commas. A name is looked up in dataset_dir/dataset_info.json (keys
// file_name, formatting, columns, tags, num_samples; split, subset and folder are of downloads and change
// nothing; entries that have to be downloaded, ranking data and pictures are refused), else
// taken as a file, as it stands or inside dataset_dir. Error(data) where a name is neither, or the entry is
// malformed.
[[nodiscard]] std::vector<DatasetSource> find_datasets(const std::string& names,
                                                       const std::filesystem::path& dataset_dir);
// The same for a list, in which a name may hold a comma.
std::vector<DatasetSource> find_datasets(const std::vector<std::string>& names,
                                         const std::filesystem::path& dataset_dir);

}  // namespace lazytrain
