// Tokenised datasets kept on disk, so that the second run on the same data starts at once: files named after
// a key of everything that decides the tokens, written whole or not at all, and mapped for reading, so that
// they need hardly any memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/tokenized_dataset.h"

namespace lazytrain {

struct TokenCache {
  std::filesystem::path folder;  // need not exist
  bool overwrite = false;        // tokenise again although there is a file
  // Hash of all files that decide how text becomes tokens (tokenizer, its settings, chat template).
  std::uint64_t tokenizer = 0;
};

// XXH3-64 of those files of a model folder.
[[nodiscard]] std::uint64_t tokenizer_files_hash(const std::filesystem::path& model_folder);

// As tokenize(), from the cache where it has the same data files (path, size, time, content), tokenizer,
// template and options by the same build of the program; else tokenised and kept there. A damaged file is
// made anew, and a cache that cannot be written leaves the samples in memory: `notice` receives a line on it,
// as on what was found. Error(data) also where a data file changes while it is read.
[[nodiscard]] TokenizedDataset tokenize_cached(const TokenCache& cache,
                                               const std::vector<DatasetSource>& sources,
                                               const DatasetTemplates& templates,
                                               const TokenizeOptions& options, ThreadPool& pool,
                                               const std::function<void(const std::string&)>& notice,
                                               const TokenizeProgress& progress = {});

}  // namespace lazytrain
