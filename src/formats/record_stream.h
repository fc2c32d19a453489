// The records of a dataset file, whatever its kind: a JSON array, JSONL, CSV, TSV, plain text or Parquet,
// found from the content first and the name second. The form of all of them is JsonStream's: find() on one
// thread, parse() on many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "formats/delimited_stream.h"
#include "formats/json_stream.h"
#include "formats/parquet_stream.h"
#include "formats/text_stream.h"

namespace lazytrain {

class RecordStream {
 public:
  // What begins with { or [ is JSON (in a .txt only where it is JSON indeed); .csv, .tsv and .txt are what
  // their names say; anything else with a header and rows of as many fields is CSV or TSV. Error(data) where
  // it is none of these.
  explicit RecordStream(const std::filesystem::path& path);

  // "a JSON array", "JSONL", "CSV", "TSV", "text by paragraphs", "text by lines" or "Parquet".
  [[nodiscard]] const std::string& kind() const { return kind_; }
  [[nodiscard]] std::uint64_t size() const;      // bytes of the file
  [[nodiscard]] std::uint64_t position() const;  // bytes behind us

  // Of Parquet: its columns, and which of them to read (ParquetStream::use). Null for the other kinds, whose
  // records have what they have.
  [[nodiscard]] const std::vector<std::string>* columns() const;
  void use(const std::vector<RecordColumn>& columns);

  bool find(JsonRecord& record);
  void parse(JsonRecord& record, nlohmann::json& value) const;
  [[noreturn]] void fail_bad(const JsonRecord& record, const std::string& advice) const;

 private:
  using Stream = std::variant<JsonStream, DelimitedStream, TextStream, ParquetStream>;
  static Stream open(const std::filesystem::path& path);
  Stream stream_;
  std::string kind_;
};

}  // namespace lazytrain
