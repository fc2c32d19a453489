// Parquet files for the tests, written by Arrow from rows in JSON. Only for builds with LAZYTRAIN_PARQUET.
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/json/from_string.h>
#include <parquet/arrow/writer.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace lazytrain::test {

template <typename Value>
Value value_of(arrow::Result<Value> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return std::move(result).ValueUnsafe();
}

// A table of these columns. `rows`: a JSON list of objects; maps are lists of pairs.
inline std::shared_ptr<arrow::Table> table_of(const arrow::FieldVector& columns, const std::string& rows) {
  const auto array = value_of(arrow::json::ArrayFromJSONString(arrow::struct_(columns), rows));
  const auto batch = value_of(arrow::RecordBatch::FromStructArray(array));
  return value_of(arrow::Table::FromRecordBatches({batch}));
}

struct ParquetForm {
  std::int64_t group_rows = 1024;
  bool checksums = false;  // of pages
  bool dictionaries = true;
  bool keep_types = true;  // Arrow's own types (large, dictionary) are named in the file
};

inline void write_parquet(const std::filesystem::path& path, const arrow::Table& table,
                          const ParquetForm& form = {}) {
  parquet::WriterProperties::Builder properties;
  properties.data_pagesize(1024);
  if (form.checksums) properties.enable_page_checksum();
  if (!form.dictionaries) properties.disable_dictionary();
  parquet::ArrowWriterProperties::Builder types;
  if (form.keep_types) types.store_schema();
  const auto file = value_of(arrow::io::FileOutputStream::Open(path.string()));
  const arrow::Status written = parquet::arrow::WriteTable(
      table, arrow::default_memory_pool(), file, form.group_rows, properties.build(), types.build());
  if (!written.ok() || !file->Close().ok()) throw std::runtime_error(written.ToString());
}

}  // namespace lazytrain::test
