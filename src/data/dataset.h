// Reading a dataset's file record by record: JSON array or JSONL, never more than one record in memory. What
// cannot be used is reported as file:line: reason; nothing is left out silently.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_info.h"
#include "data/record_layout.h"

namespace lazytrain {

// What reading one file gave.
struct DatasetReport {
  std::string name, file;
  std::string layout;         // "metamath", "alpaca"...
  bool layout_found = false;  // by keys, not named in dataset_info.json
  std::int64_t records = 0;   // looked at
  std::int64_t accepted = 0;
  std::int64_t empty = 0;               // skipped: no text in them
  std::int64_t rejected = 0;            // skipped: something is wrong with them
  std::int64_t replaced = 0;            // characters that were no valid Unicode and became U+FFFD
  std::vector<std::string> rejections;  // "file:line: reason", the first 20

  // A line on the file and, where something was left out, one on each kind and on each of `rejections`.
  [[nodiscard]] std::string summary() const;
};

// Hands the valid samples to `sink` in the order of the file, at most `max_samples` of them (and at most the
// source's num_samples). Error(data), exit code 3, for a file that is missing or malformed JSON (with line
// and column) and for one without a single valid sample (with the keys that were expected).
DatasetReport read_dataset(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                           const std::function<void(Sample&&)>& sink);

}  // namespace lazytrain
