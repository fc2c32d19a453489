// Small questions about bytes that claim to be text, shared by the readers of this room: where a byte stands
// as line and column, whether text is UTF-8, and how to quote text from a file inside an error message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/printable.h"

namespace lazytrain {

struct TextPosition {
  std::int64_t line = 1;    // 1-based
  std::int64_t column = 1;  // 1-based, in bytes
};

// Line and column of the byte at `offset`; offsets behind the end mean the end.
[[nodiscard]] TextPosition position_of(std::string_view text, std::size_t offset);

// Offset of the first byte that does not belong to well-formed UTF-8 (RFC 3629: no surrogates, no overlong
// forms, nothing above U+10FFFF), or npos.
[[nodiscard]] std::size_t first_invalid_utf8(std::string_view text);

// `text` in single quotes, fit for a one-line message: control characters and invalid UTF-8 become '?', and
// what is longer than 100 bytes is cut with "...".
[[nodiscard]] std::string in_quotes(std::string_view text);

// Where the content is plainly something else than a model or data file, what it is and what to do, as the
// rest of a sentence after the file's name: a Git-LFS pointer, a web page, an archive... Empty otherwise.
// `size` is that of the whole file, `head` its first bytes (256 are enough).
[[nodiscard]] std::string wrong_content(std::string_view head, std::uint64_t size);

}  // namespace lazytrain
