#include "formats/json_stream.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "formats/json.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kSpace = " \t\r\n";

// The code unit of the escape \uXXXX at the start of `text`.
std::optional<unsigned> escaped_unit(std::string_view text) {
  if (text.size() < 6 || text[0] != '\\' || text[1] != 'u') return std::nullopt;
  unsigned unit = 0;
  for (const char c : text.substr(2, 4)) {
    unit *= 16;
    if (c >= '0' && c <= '9') {
      unit += static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      unit += static_cast<unsigned>(c - 'a' + 10);
    } else if (c >= 'A' && c <= 'F') {
      unit += static_cast<unsigned>(c - 'A' + 10);
    } else {
      return std::nullopt;
    }
  }
  return unit;
}

bool is_high(unsigned unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}
bool is_low(unsigned unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

bool may_need_repair(std::string_view text) {
  if (first_invalid_utf8(text) != std::string_view::npos) return true;
  for (std::size_t at = text.find("\\u"); at != std::string_view::npos; at = text.find("\\u", at + 2)) {
    if (at + 2 < text.size() && (text[at + 2] == 'd' || text[at + 2] == 'D')) return true;
  }
  return false;
}

// The text with lone surrogates and invalid bytes replaced by U+FFFD.
std::string repaired(std::string_view text, std::int64_t& replaced) {
  std::string result;
  result.reserve(text.size() + 16);
  std::size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '\\') {
      const auto unit = escaped_unit(text.substr(i));
      if (!unit || (!is_high(*unit) && !is_low(*unit))) {
        // An escape is taken whole, so that the second half of \\ does not start another. What follows the
        // backslash may be an invalid byte, which the next turn sees.
        const std::size_t length =
            i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0x80 ? 2 : 1;
        result += text.substr(i, length);
        i += length;
        continue;
      }
      const auto partner = is_high(*unit) ? escaped_unit(text.substr(i + 6)) : std::nullopt;
      const bool pair = partner && is_low(*partner);
      if (!pair) ++replaced;
      result += pair ? text.substr(i, 12) : std::string_view("\\ufffd");
      i += pair ? 12 : 6;
      continue;
    }
    const std::size_t length = utf8_character_length(text.substr(i));
    if (length == 0) {
      result += "\xEF\xBF\xBD";
      ++replaced;
      ++i;
    } else {
      result += text.substr(i, length);
      i += length;
    }
  }
  return result;
}

// The closing quote of the string that opens at `open`; npos where there is none.
std::size_t string_end(std::string_view text, std::size_t open) {
  for (std::size_t at = text.find('"', open + 1); at != std::string_view::npos; at = text.find('"', at + 1)) {
    std::size_t backslashes = 0;
    while (text[at - 1 - backslashes] == '\\') ++backslashes;  // the opening quote ends this at the latest
    if (backslashes % 2 == 0) return at;
  }
  return std::string_view::npos;
}

// Pages are given back when so many bytes are behind.
constexpr std::size_t kReleaseEvery = std::size_t{16} << 20;

}  // namespace

void parse_record(JsonRecord& record, nlohmann::json& value) {
  record.replaced = 0;
  record.reason.clear();
  std::string repair;
  std::string_view text = record.text;
  if (may_need_repair(text)) {
    repair = repaired(text, record.replaced);
    text = repair;
  }
  if (const auto fault = try_parse_json(text, value)) {
    const TextPosition at = position_of(text, fault->offset);
    record.fault_line = at.line;
    record.fault_column = at.column;
    record.reason = at.line == 1
                        ? fmt::format("{}, at column {}", fault->reason, at.column)
                        : fmt::format("{}, at column {} of its line {}", fault->reason, at.column, at.line);
  }
}

void JsonStream::parse(JsonRecord& record, nlohmann::json& value) const {
  parse_record(record, value);
}

JsonStream::JsonStream(const std::filesystem::path& path) : path_(path) {
  require_file(path, ExitCode::data);
  map_ = MappedFile(path);
  text_ = map_.text();
  const std::string wrong = wrong_content(text_.substr(0, 256), text_.size());
  if (!wrong.empty()) fail(ExitCode::data, "{}: {}", path.string(), wrong);
  if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
  skip_space();
  if (position_ == text_.size())
    fail(ExitCode::data, "{}: the file holds no records, only blanks; choose another file", path.string());
  const char first = text_[position_];
  if (first == '[') {
    layout_ = Layout::array;
    advance(position_ + 1);
  } else if (first == '{') {
    const std::size_t line_end = std::min(text_.find('\n', position_), text_.size());
    const std::string_view line = text_.substr(position_, line_end - position_);
    if (line.find_last_not_of(kSpace) == 0 && line_end < text_.size()) {
      fail_at(position_,
              "one JSON object over several lines; a dataset is a JSON array of records, or one record a "
              "line (JSONL)");
    }
  } else {
    fail_at(position_, "neither a JSON array nor JSONL: a record should start with '{'");
  }
}

// Moves on, counting lines.
void JsonStream::advance(std::size_t to) {
  const std::string_view passed = text_.substr(position_, to - position_);
  line_ += std::count(passed.begin(), passed.end(), '\n');
  position_ = to;
}

void JsonStream::skip_space() {
  advance(std::min(text_.find_first_not_of(kSpace, position_), text_.size()));
}

void JsonStream::fail_at(std::size_t offset, const std::string& what) const {
  const TextPosition at = position_of(text_, offset);
  fail(ExitCode::data, "{}:{}:{}: {}", path_.string(), at.line, at.column, what);
}

void JsonStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  const auto offset = static_cast<std::size_t>(record.text.data() - text_.data());
  if (layout_ == Layout::array) fail_at(offset, "in the record that starts here: " + record.reason + advice);
  const std::size_t before = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  const std::size_t column = offset - (before == std::string_view::npos ? 0 : before + 1);
  fail(ExitCode::data, "{}:{}:{}: {}{}", path_.string(), record.line,
       static_cast<std::int64_t>(column) + std::max<std::int64_t>(record.fault_column, 1), record.reason,
       advice);
}

bool JsonStream::next(JsonRecord& record, nlohmann::json& value) {
  value = nullptr;
  if (!find(record)) return false;
  if (record.good()) parse(record, value);
  if (!record.good() && layout_ == Layout::array) fail_bad(record, "");
  return true;
}

bool JsonStream::find(JsonRecord& record) {
  if (position_ - released_ >= kReleaseEvery) {
    // From the beginning: whoever parses looks at pages behind position_, and brings them back.
    map_.release(0, position_);
    released_ = position_;
  }
  return layout_ == Layout::array ? find_element(record) : find_line(record);
}

bool JsonStream::find_line(JsonRecord& record) {
  skip_space();
  if (position_ == text_.size()) return false;
  const std::size_t end = std::min(text_.find('\n', position_), text_.size());
  record = {};
  record.line = line_;
  record.text = text_.substr(position_, end - position_);
  if (record.text.size() > kLongestRecord)
    record.reason = fmt::format("longer than {} MiB", kLongestRecord >> 20);
  advance(end);
  return true;
}

// The end of the element at position_: behind its closing bracket or quote, or before the comma, bracket or
// space that ends a number or word. npos where the file ends inside it.
std::size_t JsonStream::element_end() const {
  std::size_t depth = 0;
  for (std::size_t i = position_; i < text_.size(); ++i) {
    if (i - position_ > kLongestRecord) return i;
    switch (text_[i]) {
      case '"':
        i = string_end(text_, i);
        if (i == std::string_view::npos) return i;
        if (depth == 0) return i + 1;
        break;
      case '[':
      case '{':
        ++depth;
        break;
      case ']':
      case '}':
        if (depth == 0) return i;
        if (--depth == 0) return i + 1;
        break;
      case ',':
      case ' ':
      case '\t':
      case '\r':
      case '\n':
        if (depth == 0) return i;
        break;
      default:
        break;
    }
  }
  return std::string_view::npos;
}

bool JsonStream::find_element(JsonRecord& record) {
  if (finished_) return false;
  skip_space();
  const auto at_end = [&] { return position_ == text_.size(); };
  const char* unclosed = "the array is not closed: the file is truncated";
  if (at_end()) fail_at(position_, unclosed);
  if (text_[position_] == ']') {
    advance(position_ + 1);
    skip_space();
    if (!at_end()) fail_at(position_, "text follows the end of the array");
    finished_ = true;
    return false;
  }
  if (!first_) {
    if (text_[position_] != ',') fail_at(position_, "a comma or the array's end is missing before this");
    advance(position_ + 1);
    skip_space();
    if (at_end()) fail_at(position_, unclosed);
  }
  first_ = false;
  const std::size_t end = element_end();
  if (end == std::string_view::npos) {
    fail_at(position_,
            "the file ends inside the record that starts here: it is truncated, or a quote or bracket is "
            "missing: correct it there");
  }
  record = {};
  record.line = line_;
  record.text = text_.substr(position_, end - position_);
  if (record.text.size() > kLongestRecord) {
    fail_at(position_,
            fmt::format("the record that starts here is longer than {} MiB; a quote or bracket is missing",
                        kLongestRecord >> 20));
  }
  advance(end);
  return true;
}

}  // namespace lazytrain
