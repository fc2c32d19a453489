#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace lazytrain {
namespace {

constexpr std::size_t kEnd = 256 + 68;  // the alphabet lies below this code point

struct Alphabet {
  std::array<char32_t, 256> letter{};
  std::array<std::int16_t, kEnd> byte{};
};

// Printable Latin-1 stands for itself; the other 68 bytes get the code points from U+0100 on, in order.
constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const char32_t letter = printable ? static_cast<char32_t>(b) : next++;
    alphabet.letter[static_cast<std::size_t>(b)] = letter;
    alphabet.byte[letter] = static_cast<std::int16_t>(b);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::size_t at = 0; at < spelling.size();) {
    const CodePoint point = decode_utf8(spelling, at);
    if (point.value >= kEnd || kAlphabet.byte[point.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[point.value]));
    at += point.size;
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string spelling;
  for (const char byte : bytes) append_utf8(spelling, kAlphabet.letter[static_cast<unsigned char>(byte)]);
  return spelling;
}

}  // namespace lazytrain
