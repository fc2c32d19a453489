#include "text/chat_values.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/json.h"

namespace lazytrain {

jinja::Value value_of_json(const nlohmann::ordered_json& json, Mark mark) {
  using Json = nlohmann::ordered_json;
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
      return json.get<std::int64_t>();
    case Json::value_t::number_unsigned:
      if (json.get<std::uint64_t>() > INT64_MAX)
        fail(ExitCode::data, "the number {} is larger than 9223372036854775807", json.get<std::uint64_t>());
      return json.get<std::int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return jinja::Value::text(json.get<std::string>(), mark);
    case Json::value_t::array: {
      std::vector<jinja::Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(value_of_json(item, mark));
      return jinja::make_list(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<jinja::Text, jinja::Value>> entries;
      for (const auto& [key, item] : json.items())
        entries.emplace_back(std::make_shared<const MarkedText>(key, mark), value_of_json(item, mark));
      return jinja::make_dict(std::move(entries));
    }
    default:
      return jinja::None{};
  }
}

jinja::Value value_of_json_text(std::string_view text, const std::string& what, Mark mark) {
  return value_of_json(parse_ordered_json(text, what, ExitCode::data), mark);
}

}  // namespace lazytrain
