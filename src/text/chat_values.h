// Messages and tools as the values that a chat template works with. What they say is marked, so that it can
// be told from the template's own text wherever it ends up.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/jinja_value.h"

namespace lazytrain {

// Keys stay in order. Error(data) for numbers that are too large to be kept exactly.
jinja::Value value_of_json(const nlohmann::ordered_json& json, Mark mark);
// The same from JSON text; `what` names it in errors ("the tools"). Error(data) where it is not JSON.
jinja::Value value_of_json_text(std::string_view text, const std::string& what, Mark mark);

}  // namespace lazytrain
