// Shared by the tests of chat templates.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "text/chat_values.h"
#include "text/jinja.h"
#include "text/jinja_value.h"

namespace lazytrain::testing {

// What a template writes, given variables as a JSON object.
inline std::string rendered(std::string_view source, const std::string& variables = "{}") {
  jinja::Template::Variables values;
  const auto object = nlohmann::ordered_json::parse(variables);
  for (const auto& [name, value] : object.items()) values.emplace_back(name, value_of_json(value, {}));
  return jinja::Template::parse(source, "t").render(values, 0).bytes();
}

}  // namespace lazytrain::testing
