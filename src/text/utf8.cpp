#include "text/utf8.h"

#include <cstring>

namespace lazytrain {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// What a lead byte promises: continuation bytes to come and the range of the first of them.
struct Lead {
  int continuation = 0;
  std::uint8_t low = 0x80, high = 0xBF;
  char32_t bits = 0;
};

Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {.continuation = 1, .bits = byte & 0x1Fu};
  if (byte == 0xE0) return {.continuation = 2, .low = 0xA0, .bits = 0};
  if (byte == 0xED) return {.continuation = 2, .high = 0x9F, .bits = 0xD};
  if (byte >= 0xE1 && byte <= 0xEF) return {.continuation = 2, .bits = byte & 0x0Fu};
  if (byte == 0xF0) return {.continuation = 3, .low = 0x90, .bits = 0};
  if (byte >= 0xF1 && byte <= 0xF3) return {.continuation = 3, .bits = byte & 0x07u};
  if (byte == 0xF4) return {.continuation = 3, .high = 0x8F, .bits = 4};
  return {};
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const auto byte = static_cast<std::uint8_t>(text[at]);
  if (byte < 0x80) return {.value = byte, .size = 1, .valid = true};
  const Lead lead = lead_of(byte);
  if (lead.continuation == 0) return {.value = kReplacement, .size = 1, .valid = false};
  char32_t value = lead.bits;
  std::uint8_t low = lead.low, high = lead.high;
  std::uint8_t size = 1;
  for (int i = 0; i < lead.continuation; ++i, ++size) {
    if (at + size >= text.size()) return {.value = kReplacement, .size = size, .valid = false};
    const auto next = static_cast<std::uint8_t>(text[at + size]);
    if (next < low || next > high) return {.value = kReplacement, .size = size, .valid = false};
    value = (value << 6) | (next & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {.value = value, .size = size, .valid = true};
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto push = [&](char32_t byte) {
    text.push_back(static_cast<char>(static_cast<std::uint8_t>(byte)));
  };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8) {  // eight ASCII bytes at a time
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + at, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return at;
    at += point.size;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t good = find_invalid_utf8(text);
    result.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    append_utf8(result, kReplacement);
    text.remove_prefix(decode_utf8(text, 0).size);
  }
  return result;
}

}  // namespace lazytrain
