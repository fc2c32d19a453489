// The normal forms of Unicode, with a map back to the source, as the reference tokenizers have them (Unicode
// 9); marks and lower case as they see them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "text/origin_map.h"

namespace lazytrain {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// The form of valid UTF-8, or nothing where the text already is in it. `origin`, if not null, is filled only
// when there is a result. Linear in the text, also for adversarial runs of combining marks.
std::optional<std::string> to_normal_form(std::string_view text, NormalForm form, OriginMap* origin);

inline std::optional<std::string> to_nfc(std::string_view text, OriginMap* origin) {
  return to_normal_form(text, NormalForm::nfc, origin);
}

// What StripAccents takes away.
bool is_combining_mark(char32_t code_point);

void append_lower_case(std::string& text, char32_t code_point);  // two for a capital I with a dot

}  // namespace lazytrain
