// Reading a dataset's file record by record (formats/record_stream.h), never more than a few in memory.
// What cannot be used is reported as file:line: reason; nothing is left out silently.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset_info.h"
#include "data/record_layout.h"
#include "formats/record_stream.h"

namespace lazytrain {

// What becomes of a record that is no JSON, or a row with too many fields.
enum class OnBadSample : std::uint8_t { error, skip };

// "error" or "skip"; Error(usage) otherwise.
[[nodiscard]] OnBadSample parse_on_bad_sample(const std::string& text);

// What reading one file gave.
struct DatasetReport {
  std::string name, file;
  std::string kind;           // "a JSON array", "CSV"...
  std::string layout;         // "metamath", "alpaca"...
  bool layout_found = false;  // by keys, not named in dataset_info.json
  std::int64_t records = 0;   // looked at
  std::int64_t accepted = 0;
  std::int64_t empty = 0;               // skipped: no text in them
  std::int64_t rejected = 0;            // skipped: something is wrong with them
  std::int64_t malformed = 0;           // skipped: not to be parsed
  std::int64_t replaced = 0;            // characters that were no valid Unicode and became U+FFFD
  std::vector<std::string> rejections;  // "file:line: reason", the first 20 rejected or malformed

  // A line on the file and, where something was left out, one on each kind and on each of `rejections`.
  [[nodiscard]] std::string summary() const;
};

// One file, in three steps of which only the middle one takes time: next() finds the records one by one,
// convert() makes samples of them on any thread, take() counts them in the order of the file.
// Error(data) for a file that is missing or malformed, with line and column; OnBadSample::skip passes over
// records that are malformed where it is known where they end.
class DatasetReader {
 public:
  struct Record {
    JsonRecord raw;
    std::shared_ptr<const RecordLayout> layout;  // null: no record so far had the keys of one that is known
  };
  struct Converted {
    JsonRecord raw;
    Conversion conversion;
  };

  // Of a file that says which columns it has (Parquet) only those that the layout looks at are read.
  // At most `max_samples` valid samples are used, and at most the source's num_samples.
  DatasetReader(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                OnBadSample on_bad_sample = OnBadSample::error);

  bool next(Record& record);
  [[nodiscard]] Converted convert(Record&& record) const;
  // True where the record is a sample to be used.
  bool take(Converted& converted);
  [[nodiscard]] bool enough() const { return report_.accepted >= limit_; }
  // What was read. Error(data) where there was not a single valid sample (with the keys that were expected).
  DatasetReport finish();

  [[nodiscard]] std::uint64_t size() const { return stream_.size(); }          // bytes
  [[nodiscard]] std::uint64_t position() const { return stream_.position(); }  // of next()

 private:
  void choose_columns(const std::vector<std::string>& columns);

  std::shared_ptr<const RecordLayout> layout_;
  std::int64_t limit_ = 0;
  OnBadSample on_bad_sample_;
  RecordStream stream_;
  DatasetReport report_;
};

// Hands the valid samples to `sink` in the order of the file, on one thread.
DatasetReport read_dataset(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                           const std::function<void(Sample&&)>& sink);

}  // namespace lazytrain
