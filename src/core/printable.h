// Text of unknown origin (paths, keys, values) on its way to a terminal: what could steer it, hide text or
// forge lines is taken out, everything else stays as it is, in UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lazytrain {

// Length in bytes of the well-formed character at the start of `text`, 0 where there is none (RFC 3629: no
// surrogates, no overlong forms, nothing above U+10FFFF).
[[nodiscard]] std::size_t utf8_character_length(std::string_view text);

// One line: control characters (line ends too), marks that reorder text, and bytes that are not UTF-8 become
// '?'.
[[nodiscard]] std::string printable_line(std::string_view text);

// The same for text of several lines that we compose: line ends, tabs and colours (ESC [ digits m) stay.
[[nodiscard]] std::string printable_text(std::string_view text);

}  // namespace lazytrain
