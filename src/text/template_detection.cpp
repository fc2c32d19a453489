#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/file.h"
#include "formats/json.h"
#include "text/chat_template.h"
#include "text/json_field.h"

namespace lazytrain {
namespace {

struct Source {
  std::string file, text;
};

// The Jinja text of the folder's chat template. Newer folders keep it in a file of its own.
std::optional<Source> find_jinja(const std::filesystem::path& folder) {
  constexpr const char* kFile = "chat_template.jinja";
  if (!is_missing(folder / kFile)) {
    require_file(folder / kFile, ExitCode::model_file);
    return Source{kFile, read_file(folder / kFile)};
  }
  constexpr const char* kConfig = "tokenizer_config.json";
  if (is_missing(folder / kConfig)) return std::nullopt;
  const nlohmann::json config = read_json(folder / kConfig, ExitCode::model_file);
  const nlohmann::json* value = json_field::find(config, "chat_template");
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return Source{kConfig, value->get<std::string>()};
  if (!value->is_array()) return std::nullopt;
  for (const nlohmann::json& entry : *value) {  // several, by name
    const nlohmann::json* name = json_field::find(entry, "name");
    const nlohmann::json* text = json_field::find(entry, "template");
    if (name != nullptr && *name == "default" && text != nullptr && text->is_string())
      return Source{kConfig, text->get<std::string>()};
  }
  return std::nullopt;
}

}  // namespace

DetectedTemplate detect_template(const std::filesystem::path& folder) {
  const auto source = find_jinja(folder);
  if (!source) return {.name = "plain", .reason = "the model folder has no chat template"};
  const auto has = [&](std::string_view text) { return source->text.find(text) != std::string::npos; };
  if (!has("<|im_start|>") || !has("<|im_end|>")) {
    return {.name = "plain",
            .reason = "the chat template of " + source->file +
                      " is none that is known; set `template` to override"};
  }
  if (has("named SmolLM, trained by Hugging Face"))
    return {.name = "smollm2",
            .reason = source->file + " has ChatML turns and SmolLM2's default system message"};
  std::string reason = source->file + " has ChatML turns";
  if (has("<think>")) reason += " (its rules for <think> blocks are not applied)";
  return {.name = "chatml", .reason = reason};
}

}  // namespace lazytrain
