// Python's string operations on marked text. Positions of characters are counted in code points, offsets in
// bytes; everything keeps the marks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_budget.h"
#include "text/marked_text.h"

namespace lazytrain::jinja {

// The offset behind the character at `at` < text.size().
std::size_t next_character(std::string_view text, std::size_t at);
std::size_t count_characters(std::string_view text);
// Offsets of all characters, and of the end.
std::vector<std::size_t> character_offsets(std::string_view text);

MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);  // the first character upper, the rest lower
MarkedText title(const MarkedText& text);       // so of every word

enum class Ends : std::uint8_t { both, left, right };
// `characters`: those that are taken off; not set: white space.
MarkedText strip(const MarkedText& text, Ends ends, std::optional<std::string_view> characters);

// At most `most` cuts (-1: all), from the left or from the right. Not set: at white space, without empty
// parts. `separator` is not empty. The budget pays for the parts as items of a list.
std::vector<MarkedText> split(const MarkedText& text, std::optional<std::string_view> separator,
                              std::int64_t most, bool from_right, Budget& budget);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends, Budget& budget);
// The first `most` occurrences (-1: all).
MarkedText replace(const MarkedText& text, std::string_view old, const MarkedText& by, std::int64_t most);

}  // namespace lazytrain::jinja
