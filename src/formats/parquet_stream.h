// Streaming the rows of a Parquet file as records. A batch of about a mebibyte is decoded at a time, of the
// columns that are asked for, so memory does not grow with the file; a record's text is the row as a line of
// JSON, and its line is the number of its row, from 1. The form is JsonStream's: find() on one thread,
// parse() on many.
//
// Text, numbers, booleans, null, lists, structs and maps with texts as keys become JSON; dictionaries are
// looked up. A field of a struct inside a column is left out where it is null, since Parquet gives every
// struct of a column the same fields. Numbers that JSON lacks (NaN, infinities) are null.
//
// It needs the Arrow libraries, which a build has only with LAZYTRAIN_PARQUET=ON; without them opening a file
// is Error(data) that says what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/json_stream.h"

namespace lazytrain {

// A column to read and, where it holds structs, which of their fields; none: all.
struct RecordColumn {
  std::string name;
  std::vector<std::string> fields = {};
};

class ParquetStream {
 public:
  [[nodiscard]] static bool is_built_in();

  // Error(data) where the file is damaged, cut short or encrypted; damage further inside is found by find().
  explicit ParquetStream(const std::filesystem::path& path);
  ~ParquetStream();
  ParquetStream(ParquetStream&& other) noexcept;
  ParquetStream& operator=(ParquetStream&& other) noexcept;

  [[nodiscard]] const std::vector<std::string>& columns() const;
  [[nodiscard]] std::int64_t rows() const;
  // Reads these columns only; those that the file lacks are passed over. To be called before the first
  // find(); else every column that can be read is. Error(data) where one has a type that is not read, or the
  // file has none of them.
  void use(const std::vector<RecordColumn>& columns);

  [[nodiscard]] std::uint64_t size() const;      // bytes of the file
  [[nodiscard]] std::uint64_t position() const;  // the share of them that the rows behind us are of all rows

  // Error(data) where the file turns out to be damaged.
  bool find(JsonRecord& record);
  void parse(JsonRecord& record, nlohmann::json& value) const;
  [[noreturn]] void fail_bad(const JsonRecord& record, const std::string& advice) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lazytrain
