#include "text/jinja_strings.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::jinja {
namespace {

// What a part weighs, in items of a list.
constexpr std::size_t kItems = 5;

// What str.isspace() accepts.
bool is_space(char32_t c) {
  return (c >= 0x1C && c <= 0x1F) || is_white_space(c);
}

bool holds(std::string_view characters, std::string_view one) {
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t next = next_character(characters, at);
    if (characters.substr(at, next - at) == one) return true;
    at = next;
  }
  return false;
}

// Appends the character at `at` in the given case; the offset behind it.
enum class Case : std::uint8_t { upper, lower };
std::size_t append_character(MarkedText& result, const MarkedText& text, std::size_t at, Case letter_case) {
  const CodePoint point = decode_utf8(text.bytes(), at);
  std::string bytes;
  if (letter_case == Case::upper) {
    append_upper_case(bytes, point.value);
  } else {
    append_utf8(bytes, lower_case(point.value));
  }
  result.append(bytes, text.mark_at(at));
  return at + point.size;
}

}  // namespace

std::size_t next_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return at;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < text.size(); at = next_character(text, at)) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

MarkedText upper(const MarkedText& text) {
  MarkedText result;
  for (std::size_t at = 0; at < text.size();) at = append_character(result, text, at, Case::upper);
  return result;
}

MarkedText lower(const MarkedText& text) {
  MarkedText result;
  for (std::size_t at = 0; at < text.size();) at = append_character(result, text, at, Case::lower);
  return result;
}

MarkedText capitalize(const MarkedText& text) {
  MarkedText result;
  for (std::size_t at = 0; at < text.size();)
    at = append_character(result, text, at, at == 0 ? Case::upper : Case::lower);
  return result;
}

MarkedText title(const MarkedText& text) {
  MarkedText result;
  bool inside = false;  // a word
  for (std::size_t at = 0; at < text.size();) {
    const bool letter = is_cased(decode_utf8(text.bytes(), at).value);
    at = append_character(result, text, at, letter && !inside ? Case::upper : Case::lower);
    inside = letter;
  }
  return result;
}

MarkedText strip(const MarkedText& text, Ends ends, std::optional<std::string_view> characters) {
  const std::string_view bytes = text.bytes();
  const auto goes = [&](std::size_t begin, std::size_t end) {
    return characters ? holds(*characters, bytes.substr(begin, end - begin))
                      : is_space(decode_utf8(bytes, begin).value);
  };
  std::size_t begin = 0, end = bytes.size();
  while (ends != Ends::right && begin < end) {
    const std::size_t next = next_character(bytes, begin);
    if (!goes(begin, next)) break;
    begin = next;
  }
  while (ends != Ends::left && begin < end) {
    std::size_t before = end - 1;
    while (before > begin && (static_cast<unsigned char>(bytes[before]) & 0xC0) == 0x80) --before;
    if (!goes(before, end)) break;
    end = before;
  }
  return text.slice(begin, end);
}

namespace {

std::vector<MarkedText> split_at_space(const MarkedText& text, std::int64_t most, bool from_right,
                                       Budget& budget) {
  const std::string_view bytes = text.bytes();
  struct Word {
    std::size_t begin, end;
  };
  std::vector<Word> words;
  bool inside = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint point = decode_utf8(bytes, at);
    const bool space = is_space(point.value);
    if (!space && !inside) {
      budget.spend_items(kItems);
      words.push_back({at, at});
    }
    if (!space) words.back().end = at + point.size;
    inside = !space;
    at += point.size;
  }
  std::vector<MarkedText> parts;
  const auto count = static_cast<std::int64_t>(words.size());
  if (most >= 0 && count > most) {  // the rest stays one part, with its white space
    const auto rest = static_cast<std::size_t>(count - most);
    if (from_right) {
      // Python keeps the white space before the rest.
      words[rest - 1].begin = 0;
      words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(rest - 1));
    } else {
      words.resize(static_cast<std::size_t>(most) + 1);
      words.back().end = bytes.size();
    }
  }
  parts.reserve(words.size());
  for (const Word& word : words) parts.push_back(text.slice(word.begin, word.end));
  return parts;
}

}  // namespace

std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> separator,
                              std::int64_t most, bool from_right, Budget& budget) {
  if (!separator) return split_at_space(text, most, from_right, budget);
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> parts;
  if (from_right) {
    std::size_t end = bytes.size();
    while (most < 0 || std::ssize(parts) < most) {
      if (end < separator->size()) break;
      const std::size_t found = bytes.rfind(*separator, end - separator->size());
      if (found == std::string_view::npos) break;
      budget.spend_items(kItems);
      parts.push_back(text.slice(found + separator->size(), end));
      end = found;
    }
    parts.push_back(text.slice(0, end));
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  std::size_t begin = 0;
  while (most < 0 || std::ssize(parts) < most) {
    const std::size_t found = bytes.find(*separator, begin);
    if (found == std::string_view::npos) break;
    budget.spend_items(kItems);
    parts.push_back(text.slice(begin, found));
    begin = found + separator->size();
  }
  parts.push_back(text.slice(begin, bytes.size()));
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends, Budget& budget) {
  const std::string_view bytes = text.bytes();
  std::vector<MarkedText> lines;
  for (std::size_t begin = 0; begin < bytes.size();) {
    std::size_t end = begin, next = 0;
    for (; end < bytes.size(); end = next) {
      const char32_t c = decode_utf8(bytes, end).value;
      next = next_character(bytes, end);
      if ((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029) {
        if (c == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
        break;
      }
    }
    if (end >= bytes.size()) next = bytes.size();
    budget.spend_items(kItems);
    lines.push_back(text.slice(begin, keep_ends ? next : std::min(end, bytes.size())));
    begin = next;
  }
  return lines;
}

MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& by, std::int64_t most) {
  const std::string_view bytes = text.bytes();
  MarkedText result;
  std::size_t done = 0;
  for (std::size_t at = 0; most != 0; --most) {
    const std::size_t found = old.empty() ? at : bytes.find(old, at);
    if (found == std::string_view::npos || found > bytes.size()) break;
    result.append(text, done, found);
    result.append(by);
    done = found + old.size();
    // An empty text is found before every character and at the end.
    at = !old.empty() ? done : found < bytes.size() ? next_character(bytes, found) : bytes.size() + 1;
  }
  result.append(text, done, bytes.size());
  return result;
}

}  // namespace lazytrain::jinja
