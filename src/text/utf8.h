// UTF-8: decoding with well-defined replacement of what is not UTF-8, and encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain {

struct CodePoint {
  char32_t value = 0;
  std::uint8_t size = 0;  // bytes consumed, at least 1
  bool valid = false;     // false: value is U+FFFD and size the length of the maximal ill-formed part
};

// The code point that starts at text[at]; at < text.size().
CodePoint decode_utf8(std::string_view text, std::size_t at);

void append_utf8(std::string& text, char32_t code_point);

// The offset of the first byte that is not part of well-formed UTF-8; text.size() where there is none.
std::size_t find_invalid_utf8(std::string_view text);

// Every maximal ill-formed part replaced by U+FFFD (Unicode 16, section 3.9, "U+FFFD substitution").
std::string replace_invalid_utf8(std::string_view text);

}  // namespace lazytrain
