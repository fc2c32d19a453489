// The alphabet of byte-level BPE: each of the 256 bytes as one printable code point, the way vocabularies in
// tokenizer.json are spelled (a space is "Ġ", a newline "Ċ"). The scheme is GPT-2's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lazytrain {

// The bytes that a spelled token stands for; nothing where it has a code point outside of the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

// How a string of bytes is spelled.
std::string spelling_of_bytes(std::string_view bytes);

}  // namespace lazytrain
