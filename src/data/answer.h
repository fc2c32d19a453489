// The final answer of a response to a word problem, and when two answers are the same: exact match.
//
// Where the answer is looked for, first that yields one: after the last "The answer is:"; on the line of the
// last
// "####"; inside the last \boxed{}; the last number of the text. What is found there is brought to a normal
// form: a number loses $ , % and trailing zeros ("$1,234.50." -> "1234.5"), a LaTeX or plain fraction becomes
// "a/b" in lowest terms, prose around a number is dropped ("72 clips, altogether" -> "72"), "x=5" becomes
// "5"; anything else ("2x+3", "Monday") stays as text without spaces.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lazytrain {

// The answer in normal form; nullopt where the text has none. Linear in the length of the text.
[[nodiscard]] std::optional<std::string> extract_answer(std::string_view text);

// Equal as exact rational numbers where both are numbers ("3/4" and "0.75"), else as text. Takes normal
// forms.
[[nodiscard]] bool equal_answers(std::string_view a, std::string_view b);

}  // namespace lazytrain
