#include "text/byte_token.h"

#include "text/vocabulary.h"

namespace lazytrain {
namespace {

constexpr std::string_view kDigits = "0123456789ABCDEF";

int digit(char c) {
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  const std::size_t found = kDigits.find(c);
  return found == std::string_view::npos ? -1 : static_cast<int>(found);
}

}  // namespace

std::optional<std::uint8_t> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const int high = token[3] == '+' ? 0 : digit(token[3]);  // the reference's parser of numbers takes a sign
  const int low = digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<std::uint8_t>(16 * high + low);
}

std::string token_of_byte(std::uint8_t byte) {
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

std::array<std::int32_t, 256> find_byte_tokens(const Vocabulary& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte)
    ids[byte] = vocabulary.find(token_of_byte(static_cast<std::uint8_t>(byte))).value_or(-1);
  return ids;
}

}  // namespace lazytrain
