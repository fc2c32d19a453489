// Text of unknown origin as valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain {

// Each byte that belongs to no well-formed character becomes U+FFFD and adds one to `replaced`.
[[nodiscard]] std::string valid_utf8(std::string_view text, std::int64_t& replaced);

}  // namespace lazytrain
