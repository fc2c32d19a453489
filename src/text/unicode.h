// What tokenizers need to know of Unicode: the classes "numeric", "white space" and "word", letters of the
// other case, and stand-ins for code points younger than the regex engine's tables.
#pragma once

#include <string>
#include <string_view>

namespace lazytrain {

bool is_numeric(char32_t code_point);      // general category N
bool is_white_space(char32_t code_point);  // property White_Space
bool is_word(char32_t code_point);         // Alphabetic, M, Nd, Pc, joiners: UTS 18's \w
bool is_cased(char32_t code_point);        // general categories Lu, Ll and Lt
bool is_alphabetic(char32_t code_point);   // general category L
bool is_printable(char32_t code_point);    // neither C nor Z, but the space is

char32_t lower_case(char32_t code_point);
void append_upper_case(std::string& text, char32_t code_point);  // two letters for a sharp s

// The text as the regex engine should see it: code points that its Unicode tables lack are replaced by one of
// the same general category and the same length in UTF-8, so that offsets stay. Returns `text` itself, or a
// view of `storage` where something had to be replaced. Valid UTF-8 only.
std::string_view with_stand_ins(std::string_view text, std::string& storage);

}  // namespace lazytrain
