// Streaming the rows of a CSV or TSV file as records: RFC 4180 with the columns' names in the first row.
// Fields may be quoted; inside quotes stand delimiters, line breaks, and quotes written twice. Lines end in
// LF or CRLF; blank lines are no rows. The file is mapped; finding rows is for one thread, parse() for many,
// and both have the form that JsonStream has.
//
// Include <nlohmann/json.hpp> in the .cpp that looks inside the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json_stream.h"

namespace lazytrain {

class DelimitedStream {
 public:
  // Error(data) where the first row is no header: a name twice, or none at all.
  DelimitedStream(const std::filesystem::path& path, char delimiter);

  // True where text begins with two rows or more of as many fields, at least two, and the first has a name
  // for each column, no two the same.
  static bool looks_like(std::string_view text, char delimiter);

  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  [[nodiscard]] char delimiter() const { return delimiter_; }
  [[nodiscard]] std::uint64_t size() const { return text_.size(); }
  [[nodiscard]] std::uint64_t position() const { return position_; }

  // The next row; bad are rows with text behind a closing quote. Error(data) where a quote is never closed.
  bool find(JsonRecord& record);
  // An object of texts, by column. Bad are rows with more or fewer fields than the header. A column without a
  // name is left out.
  void parse(JsonRecord& record, nlohmann::json& value) const;
  [[noreturn]] void fail_bad(const JsonRecord& record, const std::string& advice) const;

 private:
  std::filesystem::path path_;
  char delimiter_;
  MappedFile map_;
  std::string_view text_;
  std::vector<std::string> columns_;
  std::size_t position_ = 0;
  std::size_t released_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace lazytrain
