// Streaming a plain text file as records of one key, "text": a paragraph each, paragraphs being lines between
// blank lines; in a file without blank lines every line is one. Which of the two is found from the first
// 4 MiB. The form is JsonStream's; no record is bad but one that is too long.
//
// Include <nlohmann/json.hpp> in the .cpp that looks inside the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "formats/json_stream.h"

namespace lazytrain {

class TextStream {
 public:
  explicit TextStream(const std::filesystem::path& path);

  [[nodiscard]] bool paragraphs() const { return paragraphs_; }  // false: lines
  [[nodiscard]] std::uint64_t size() const { return text_.size(); }
  [[nodiscard]] std::uint64_t position() const { return position_; }

  bool find(JsonRecord& record);
  void parse(JsonRecord& record, nlohmann::json& value) const;
  [[noreturn]] void fail_bad(const JsonRecord& record, const std::string& advice) const;

 private:
  std::filesystem::path path_;
  MappedFile map_;
  std::string_view text_;
  bool paragraphs_ = true;
  std::size_t position_ = 0;
  std::size_t released_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace lazytrain
