#include "core/printable.h"

namespace lazytrain {
namespace {

// U+0080..U+009F steer terminals as ESC does; U+2028 and U+2029 end lines; U+202A..U+202E and
// U+2066..U+2069 reorder what stands around them.
bool steers(std::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7F;
  }
  const auto second = static_cast<unsigned char>(character[1]);
  if (character.size() == 2) return character[0] == '\xC2' && second < 0xA0;
  if (character.size() != 3 || character[0] != '\xE2') return false;
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

// Length of a colour sequence at the start of `text`, 0 where there is none.
std::size_t colour_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::string cleaned(std::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    std::size_t length = utf8_character_length(text);
    bool keep = length > 0 && !steers(text.substr(0, length));
    if (lines && !keep) {
      const std::size_t colour = colour_length(text);
      keep = colour > 0 || text[0] == '\n' || text[0] == '\t';
      if (colour > 0) length = colour;
    }
    if (length == 0) length = 1;
    if (keep)
      result += text.substr(0, length);
    else
      result += '?';
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

std::size_t utf8_character_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF.
  const unsigned low = first == 0xE0 ? 0xA0u : first == 0xF0 ? 0x90u : 0x80u;
  const unsigned high = first == 0xED ? 0x9Fu : first == 0xF4 ? 0x8Fu : 0xBFu;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

std::string printable_line(std::string_view text) {
  return cleaned(text, false);
}

std::string printable_text(std::string_view text) {
  return cleaned(text, true);
}

}  // namespace lazytrain
