#include "formats/text_stream.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "formats/text_checks.h"
#include "formats/utf8_repair.h"

namespace lazytrain {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r\n\f\v";
constexpr std::size_t kLookedAt = std::size_t{4} << 20;
constexpr std::size_t kReleaseEvery = std::size_t{16} << 20;

bool blank(std::string_view line) {
  return line.find_first_not_of(kBlank) == std::string_view::npos;
}

std::size_t line_end(std::string_view text, std::size_t from) {
  return std::min(text.find('\n', from), text.size());
}

// Whether a blank line stands between two that are not.
bool has_paragraphs(std::string_view text) {
  bool seen_text = false, seen_blank = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end(text, at);
    if (!blank(text.substr(at, end - at))) {
      if (seen_blank) return true;
      seen_text = true;
    } else if (seen_text) {
      seen_blank = true;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace

TextStream::TextStream(const std::filesystem::path& path) : path_(path) {
  require_file(path, ExitCode::data);
  map_ = MappedFile(path);
  text_ = map_.text();
  if (text_.starts_with(kByteOrderMark)) position_ = kByteOrderMark.size();
  if (blank(text_.substr(position_)))
    fail(ExitCode::data, "{}: the file holds no text, only blanks", path.string());
  paragraphs_ = has_paragraphs(text_.substr(position_, kLookedAt));
}

bool TextStream::find(JsonRecord& record) {
  if (position_ - released_ >= kReleaseEvery) {
    map_.release(0, position_);
    released_ = position_;
  }
  const auto next_line = [&] {
    position_ = std::min(line_end(text_, position_) + 1, text_.size());
    ++line_;
  };
  const auto at_blank = [&] {
    return blank(text_.substr(position_, line_end(text_, position_) - position_));
  };
  while (position_ < text_.size() && at_blank()) next_line();
  if (position_ == text_.size()) return false;
  const std::size_t begin = position_;
  record = {};
  record.line = line_;
  next_line();
  while (paragraphs_ && position_ < text_.size() && !at_blank()) next_line();
  std::string_view text = text_.substr(begin, position_ - begin);
  text.remove_suffix(text.size() - text.find_last_not_of(kBlank) - 1);
  record.text = text;
  if (text.size() > JsonStream::kLongestRecord)
    record.reason = fmt::format("a paragraph longer than {} MiB", JsonStream::kLongestRecord >> 20);
  return true;
}

void TextStream::parse(JsonRecord& record, nlohmann::json& value) const {
  record.replaced = 0;
  value = nlohmann::json::object();
  std::string text = valid_utf8(record.text, record.replaced);
  std::erase(text, '\r');
  value["text"] = std::move(text);
}

void TextStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  fail(ExitCode::data, "{}:{}:1: {}{}", path_.string(), record.line, record.reason, advice);
}

}  // namespace lazytrain
