#include "formats/delimited_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "core/error.h"
#include "formats/text_checks.h"
#include "formats/utf8_repair.h"

namespace lazytrain {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kReleaseEvery = std::size_t{16} << 20;
constexpr const char* kBehindQuote = "text follows a closing quote; quotes inside a field are written twice";

// Where a row ends: before its line break. npos: a quote is never closed.
struct RowEnd {
  std::size_t at = 0;
  std::size_t quote = 0;              // npos only: the quote that stays open
  std::optional<std::size_t> behind;  // text that follows a closing quote
};

RowEnd row_end(std::string_view text, std::size_t from, char delimiter) {
  RowEnd end;
  for (std::size_t i = from;; ++i) {  // at the beginning of a field
    if (i < text.size() && text[i] == '"') {
      end.quote = i;
      for (i = text.find('"', i + 1); i != std::string_view::npos && text.substr(i + 1, 1) == "\"";)
        i = text.find('"', i + 2);
      if (i == std::string_view::npos) {
        end.at = i;
        return end;
      }
      ++i;
      const bool closes = i == text.size() || text[i] == delimiter || text[i] == '\n' ||
                          (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] == '\n'));
      if (!closes && !end.behind) end.behind = i;
    }
    while (i < text.size() && text[i] != delimiter && text[i] != '\n') ++i;
    if (i < text.size() && text[i] == delimiter) continue;
    end.at = i > from && text[i - 1] == '\r' ? i - 1 : i;
    return end;
  }
}

// The fields of one row that row_end() found good.
std::vector<std::string> fields_of(std::string_view row, char delimiter) {
  std::vector<std::string> fields;
  for (std::size_t i = 0;; ++i) {
    std::string& field = fields.emplace_back();
    if (i < row.size() && row[i] == '"') {
      std::size_t close = row.find('"', ++i);
      for (; close != std::string_view::npos && row.substr(close + 1, 1) == "\""; close = row.find('"', i)) {
        field += row.substr(i, close + 1 - i);
        i = close + 2;
      }
      field += row.substr(i, close - i);
      i = close == std::string_view::npos ? row.size() : close + 1;
    } else {
      const std::size_t end = std::min(row.find(delimiter, i), row.size());
      field = row.substr(i, end - i);
      i = end;
    }
    if (i >= row.size()) return fields;
  }
}

bool distinct_names(const std::vector<std::string>& names) {
  std::unordered_set<std::string_view> seen;
  return std::all_of(names.begin(), names.end(),
                     [&](const std::string& name) { return !name.empty() && seen.insert(name).second; });
}

}  // namespace

bool DelimitedStream::looks_like(std::string_view text, char delimiter) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  const RowEnd first = row_end(text, 0, delimiter);
  if (first.at == std::string_view::npos || first.behind) return false;
  const std::size_t second = text.find_first_not_of("\r\n", first.at);
  if (second == std::string_view::npos) return false;
  const RowEnd next = row_end(text, second, delimiter);
  if (next.at == std::string_view::npos || next.behind) return false;
  const std::vector<std::string> names = fields_of(text.substr(0, first.at), delimiter);
  return names.size() >= 2 && distinct_names(names) &&
         fields_of(text.substr(second, next.at - second), delimiter).size() == names.size();
}

DelimitedStream::DelimitedStream(const std::filesystem::path& path, char delimiter)
    : path_(path), delimiter_(delimiter) {
  require_file(path, ExitCode::data);
  map_ = MappedFile(path);
  text_ = map_.text();
  if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
  JsonRecord header;
  if (!find(header)) fail(ExitCode::data, "{}: the file holds no header, only blanks", path.string());
  if (!header.good()) fail_bad(header, "");
  std::int64_t replaced = 0;
  for (const std::string& field : fields_of(header.text, delimiter_))
    columns_.push_back(valid_utf8(field, replaced));
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : columns_) {
    if (!name.empty() && !seen.insert(name).second)
      fail(ExitCode::data, "{}:{}: the header names the column {} twice; rename one", path.string(),
           header.line, in_quotes(name));
  }
  if (seen.empty())
    fail(ExitCode::data, "{}:{}: the first row must name the columns", path.string(), header.line);
}

bool DelimitedStream::find(JsonRecord& record) {
  if (position_ - released_ >= kReleaseEvery) {
    map_.release(0, position_);
    released_ = position_;
  }
  const auto advance = [&](std::size_t to) {
    const std::string_view passed = text_.substr(position_, to - position_);
    line_ += std::count(passed.begin(), passed.end(), '\n');
    position_ = to;
  };
  advance(std::min(text_.find_first_not_of("\r\n", position_), text_.size()));
  if (position_ == text_.size()) return false;
  const RowEnd end = row_end(text_, position_, delimiter_);
  if (end.at == std::string_view::npos) {
    const TextPosition at = position_of(text_, end.quote);
    fail(ExitCode::data, "{}:{}:{}: the quote that opens here is never closed", path_.string(), at.line,
         at.column);
  }
  record = {};
  record.line = line_;
  record.text = text_.substr(position_, end.at - position_);
  if (end.behind) {
    const TextPosition at = position_of(record.text, *end.behind - position_);
    record.fault_line = at.line;
    record.fault_column = at.column;
    record.reason = kBehindQuote;
  } else if (record.text.size() > JsonStream::kLongestRecord) {
    record.reason = fmt::format("longer than {} MiB", JsonStream::kLongestRecord >> 20);
  }
  advance(end.at);
  return true;
}

void DelimitedStream::parse(JsonRecord& record, nlohmann::json& value) const {
  value = nullptr;
  record.replaced = 0;
  const std::vector<std::string> fields = fields_of(record.text, delimiter_);
  if (fields.size() != columns_.size()) {
    record.fault_line = record.fault_column = 1;
    record.reason = fmt::format("the row has {} fields, the header names {}", fields.size(), columns_.size());
    return;
  }
  value = nlohmann::json::object();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (!columns_[i].empty()) value[columns_[i]] = valid_utf8(fields[i], record.replaced);
  }
}

void DelimitedStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  fail(ExitCode::data, "{}:{}:{}: {}{}", path_.string(),
       record.line + std::max<std::int64_t>(record.fault_line, 1) - 1,
       std::max<std::int64_t>(record.fault_column, 1), record.reason, advice);
}

}  // namespace lazytrain
