#include "text/folder_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"
#include "text/chat_values.h"
#include "text/json_field.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

constexpr const char* kFile = "chat_template.jinja";
constexpr const char* kConfig = "tokenizer_config.json";

nlohmann::json read_if_there(const std::filesystem::path& path) {
  return is_missing(path) ? nlohmann::json::object() : read_json(path, ExitCode::model_file);
}

// The text of the template in a tokenizer_config.json, or null.
const std::string* template_of(const nlohmann::json& config, const std::filesystem::path& where) {
  const nlohmann::json* value = json_field::find(config, "chat_template");
  if (value == nullptr) return nullptr;
  if (value->is_string()) return value->get_ptr<const std::string*>();
  if (value->is_null()) return nullptr;
  if (!value->is_array())
    fail(ExitCode::model_file,
         "{}: chat_template should be a text or a list of templates; correct or remove it", where.string());
  for (const nlohmann::json& entry : *value) {  // several, by name
    const nlohmann::json* name = json_field::find(entry, "name");
    const nlohmann::json* text = json_field::find(entry, "template");
    if (name != nullptr && *name == "default" && text != nullptr && text->is_string())
      return text->get_ptr<const std::string*>();
  }
  return nullptr;
}

// Keys such as bos_token; the value is a text, or an object with its content.
void add_special_tokens(const nlohmann::json& object,
                        std::vector<std::pair<std::string, std::string>>& tokens) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    if (!key.ends_with("_token")) continue;
    const nlohmann::json* content = value.is_object() ? json_field::find(value, "content") : &value;
    if (content == nullptr || !content->is_string()) continue;
    const bool known = std::any_of(tokens.begin(), tokens.end(),
                                   [&name = key](const auto& token) { return token.first == name; });
    if (!known) tokens.emplace_back(key, content->get<std::string>());
  }
}

jinja::Value said(const std::string& text, Mark mark) {
  return jinja::Value::text(replace_invalid_utf8(text), mark);
}

jinja::Value value_of(const Message& message, std::int32_t turn) {
  std::vector<std::pair<jinja::Text, jinja::Value>> entries;
  const auto add = [&](const char* key, jinja::Value value) {
    entries.emplace_back(std::make_shared<const MarkedText>(key), std::move(value));
  };
  const bool answers = message.role == Role::assistant;
  const Mark mark{.source = answers ? Source::answer : Source::data, .turn = turn};
  add("role", jinja::Value::text(std::string(name_of(message.role))));
  add("content", said(message.content, mark));
  if (message.reasoning_content) add("reasoning_content", said(*message.reasoning_content, mark));
  if (!message.tool_calls.empty())
    add("tool_calls", value_of_json_text(message.tool_calls, "tool_calls", mark));
  if (!message.name.empty()) add("name", said(message.name, mark));
  if (!message.tool_call_id.empty()) add("tool_call_id", said(message.tool_call_id, mark));
  return jinja::make_dict(std::move(entries), turn);
}

}  // namespace

FolderTemplate::FolderTemplate(jinja::Template parsed, std::string file)
    : jinja_(std::move(parsed)), file_(std::move(file)) {}

FolderTemplate FolderTemplate::parse(std::string_view source, const std::string& file,
                                     const std::vector<std::pair<std::string, std::string>>& special_tokens,
                                     std::time_t now) {
  FolderTemplate result(jinja::Template::parse(source, file), file);
  result.special_tokens_ = special_tokens;
  result.now_ = now;
  return result;
}

std::optional<FolderTemplate> FolderTemplate::find(const std::filesystem::path& folder, std::time_t now) {
  const nlohmann::json config = read_if_there(folder / kConfig);
  std::optional<std::string> own_file;
  if (!is_missing(folder / kFile)) {
    require_file(folder / kFile, ExitCode::model_file);
    own_file = read_file(folder / kFile);
  }
  const std::string* source = own_file ? &*own_file : template_of(config, folder / kConfig);
  if (source == nullptr) return std::nullopt;
  std::vector<std::pair<std::string, std::string>> tokens;
  add_special_tokens(config, tokens);
  add_special_tokens(read_if_there(folder / "special_tokens_map.json"), tokens);
  const std::string file =
      own_file ? (folder / kFile).string() : (folder / kConfig).string() + ": chat_template";
  return parse(*source, file, tokens, now);
}

void FolderTemplate::require_place(bool wanted, std::string_view variable, std::string_view what) const {
  if (wanted && !jinja_.mentions(variable))
    fail(ExitCode::data, "{} has no place for {}, which the conversation has", file_, what);
}

MarkedText FolderTemplate::text(const TemplateInput& input) const {
  require_place(!input.tools.empty(), "tools", "tools");
  jinja::Template::Variables variables;
  std::vector<jinja::Value> messages;
  for (const Message& message : input.messages) {
    require_place(!message.tool_calls.empty(), "tool_calls", "tool calls");
    require_place(message.reasoning_content.has_value(), "reasoning_content", "reasoning_content");
    messages.push_back(value_of(message, static_cast<std::int32_t>(messages.size())));
  }
  variables.emplace_back("messages", jinja::make_list(std::move(messages)));
  variables.emplace_back("tools", input.tools.empty()
                                      ? jinja::Value(jinja::None{})
                                      : value_of_json_text(input.tools, "tools", {.source = Source::data}));
  variables.emplace_back("documents", jinja::None{});
  variables.emplace_back("add_generation_prompt", input.add_generation_prompt);
  if (input.enable_thinking) variables.emplace_back("enable_thinking", *input.enable_thinking);
  for (const auto& [name, token] : special_tokens_) variables.emplace_back(name, jinja::Value::text(token));
  return jinja_.render(variables, now_);
}

}  // namespace lazytrain
