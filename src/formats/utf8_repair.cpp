#include "formats/utf8_repair.h"

#include <algorithm>

#include "formats/text_checks.h"

namespace lazytrain {

std::string valid_utf8(std::string_view text, std::int64_t& replaced) {
  std::string result;
  result.reserve(text.size());
  for (;;) {
    const std::size_t good = std::min(first_invalid_utf8(text), text.size());
    result += text.substr(0, good);
    if (good == text.size()) return result;
    result += "\xEF\xBF\xBD";
    ++replaced;
    text.remove_prefix(good + 1);
  }
}

}  // namespace lazytrain
