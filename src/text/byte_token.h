// Tokens that spell one byte, "<0x0A>": what byte_fallback makes of text that no other token spells.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lazytrain {

class Vocabulary;

// The byte of such a token, in upper or lower case.
std::optional<std::uint8_t> byte_of_token(std::string_view token);

std::string token_of_byte(std::uint8_t byte);

// The ids of the tokens of all bytes; -1 where the vocabulary has none.
std::array<std::int32_t, 256> find_byte_tokens(const Vocabulary& vocabulary);

}  // namespace lazytrain
