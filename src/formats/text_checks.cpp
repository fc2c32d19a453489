#include "formats/text_checks.h"

#include <fmt/core.h>

#include <algorithm>

namespace lazytrain {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

TextPosition position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t newline = before.rfind('\n');
  const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  return {.line = 1 + std::count(before.begin(), before.end(), '\n'),
          .column = static_cast<std::int64_t>(before.size() - line_start) + 1};
}

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = utf8_character_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 100;
  std::string result = "'";
  std::size_t i = 0;
  while (i < text.size() && i < kLongest) {
    const std::size_t length = utf8_character_length(text.substr(i));
    const bool control = static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7F;
    if (length == 0 || control) {
      result += '?';
      ++i;
    } else {
      result += text.substr(i, length);
      i += length;
    }
  }
  if (i < text.size()) result += "...";
  return result + "'";
}

std::string wrong_content(std::string_view head, std::uint64_t size) {
  if (size == 0) return "the file is empty; download or create it again";
  if (head.starts_with("version https://git-lfs")) {
    return fmt::format("a Git-LFS pointer of {} bytes, not the file itself; fetch it with `git lfs pull`",
                       size);
  }
  const std::size_t content = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  const std::string start = lower(head.substr(std::min(content, head.size()), 16));
  if (start.starts_with("<!doctype") || start.starts_with("<html") || start.starts_with("<?xml")) {
    return "a web page (HTML), not the file itself; the download went wrong, fetch it again";
  }
  if (head.starts_with("PK\x03\x04"))
    return "a zip archive (PyTorch .bin files are such); unpack or convert it first";
  if (head.starts_with("\x1F\x8B")) return "compressed with gzip; unpack it first";
  if (head.starts_with("\x28\xB5\x2F\xFD")) return "compressed with zstd; unpack it first";
  if (head.starts_with("PAR1"))
    return "a Parquet file, which is data to train on; name it as dataset, or choose another file";
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) return "text in UTF-16; save it as UTF-8";
  return {};
}

}  // namespace lazytrain
