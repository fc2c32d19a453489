// Which tokens end, begin and pad a text: the files beside tokenizer.json.
#include <algorithm>
#include <utility>

#include "core/file.h"
#include "formats/json.h"
#include "text/json_field.h"
#include "text/tokenizer_state.h"

namespace lazytrain {

using nlohmann::json;

RoleTokens read_role_tokens(const std::filesystem::path& folder, const Vocabulary& vocabulary) {
  RoleTokens roles;
  const auto read = [&](const char* name) {
    const auto path = folder / name;
    return is_missing(path) ? json::object() : read_json(path, ExitCode::model_file);
  };
  const json named = read("tokenizer_config.json");
  const auto by_name = [&](const char* key) -> std::optional<std::int32_t> {
    const json* value = json_field::find(named, key);
    if (value != nullptr && value->is_object()) value = json_field::find(*value, "content");
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return vocabulary.find(value->get_ref<const std::string&>());
  };
  roles.end = by_name("eos_token");
  roles.begin = by_name("bos_token");
  roles.padding = by_name("pad_token");

  for (const char* name : {"generation_config.json", "config.json"}) {
    json document = read(name);
    // Models with several parts keep the ids with the text model.
    if (const json* inner = json_field::find(document, "text_config");
        inner != nullptr && json_field::find(document, "eos_token_id") == nullptr)
      document = json(*inner);
    const auto ids = [&](const char* key) {
      std::vector<std::int32_t> found;
      const json* value = json_field::find(document, key);
      if (value == nullptr) return found;
      const json list = value->is_array() ? *value : json::array({*value});
      for (const json& id :
           list) {  // a model may name rows that the tokenizer does not have; they never occur
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= INT32_MAX)
          continue;
        found.push_back(id.get<std::int32_t>());
      }
      return found;
    };
    const auto ends = ids("eos_token_id"), begins = ids("bos_token_id"), paddings = ids("pad_token_id");
    roles.stops.insert(roles.stops.end(), ends.begin(), ends.end());
    if (!roles.end && !ends.empty()) roles.end = ends.front();
    if (!roles.begin && !begins.empty()) roles.begin = begins.front();
    if (!roles.padding && !paddings.empty()) roles.padding = paddings.front();
  }
  if (roles.end) roles.stops.push_back(*roles.end);
  std::sort(roles.stops.begin(), roles.stops.end());
  roles.stops.erase(std::unique(roles.stops.begin(), roles.stops.end()), roles.stops.end());
  return roles;
}

}  // namespace lazytrain
