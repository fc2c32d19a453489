#include "data/record_layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

using nlohmann::json;

bool blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

const char* kind_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "a list";
    case json::value_t::string:
      return "text";
    case json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

Conversion rejected(std::string reason) {
  return {.sample = {}, .empty = false, .reason = std::move(reason)};
}
Conversion empty(std::string reason) {
  return {.sample = {}, .empty = true, .reason = std::move(reason)};
}

// A field that must be text; on failure nothing, and `fault` says why.
const std::string* required_text(const json& object, const std::string& key, std::string& fault) {
  const auto found = object.find(key);
  if (found == object.end()) {
    fault = fmt::format("there is no key {}", in_quotes(key));
    return nullptr;
  }
  if (!found->is_string()) {
    fault = fmt::format("{} is {}, not text", in_quotes(key), kind_of(*found));
    return nullptr;
  }
  return found->get_ptr<const std::string*>();
}

// A field that may be absent or null; then "".
const std::string* optional_text(const json& object, const std::string& key, std::string& fault) {
  static const std::string none;
  const auto found = key.empty() ? object.end() : object.find(key);
  return found == object.end() || found->is_null() ? &none : required_text(object, key, fault);
}

Conversion finished(const json& record, std::vector<Message> messages) {
  Sample sample{.messages = std::move(messages), .original_question = {}, .line = 0};
  const auto question = record.find("original_question");
  if (question != record.end() && question->is_string())
    sample.original_question = question->get<std::string>();
  return {.sample = std::move(sample), .empty = false, .reason = {}};
}

Conversion from_columns(const json& record, const RecordLayout& layout) {
  std::string fault;
  const std::string* system = optional_text(record, layout.system, fault);
  const std::string* prompt = system ? required_text(record, layout.prompt, fault) : nullptr;
  const std::string* query = prompt ? optional_text(record, layout.query, fault) : nullptr;
  const std::string* response = query ? required_text(record, layout.response, fault) : nullptr;
  if (response == nullptr) return rejected(fault);

  std::vector<Message> messages;
  if (!blank(*system)) messages.push_back({.role = Role::system, .content = *system});
  const auto history = layout.history.empty() ? record.end() : record.find(layout.history);
  if (history != record.end() && !history->is_null()) {
    const auto is_turn = [](const json& turn) {
      return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    };
    if (!history->is_array() || !std::all_of(history->begin(), history->end(), is_turn)) {
      return rejected(fmt::format("{} is not a list of [user, assistant] pairs", in_quotes(layout.history)));
    }
    for (const json& turn : *history) {
      messages.push_back({.role = Role::user, .content = turn[0].get<std::string>()});
      messages.push_back({.role = Role::assistant, .content = turn[1].get<std::string>()});
    }
  }
  if (blank(*prompt) && blank(*query)) return empty(fmt::format("{} is empty", in_quotes(layout.prompt)));
  if (blank(*response)) return empty(fmt::format("{} is empty", in_quotes(layout.response)));
  const bool both = !prompt->empty() && !query->empty();
  messages.push_back({.role = Role::user, .content = *prompt + (both ? "\n" : "") + *query});
  messages.push_back({.role = Role::assistant, .content = *response});
  return finished(record, std::move(messages));
}

Conversion from_messages(const json& record, const RecordLayout& layout) {
  std::string fault;
  const std::string* system = optional_text(record, layout.system, fault);
  if (system == nullptr) return rejected(fault);
  const auto list = record.find(layout.messages);
  if (list == record.end()) return rejected(fmt::format("there is no key {}", in_quotes(layout.messages)));
  if (!list->is_array())
    return rejected(fmt::format("{} is {}, not a list", in_quotes(layout.messages), kind_of(*list)));
  if (list->empty()) return empty(fmt::format("{} is empty", in_quotes(layout.messages)));

  std::vector<Message> messages;
  if (!blank(*system)) messages.push_back({.role = Role::system, .content = *system});
  std::int64_t number = 0;
  bool users_turn = true;
  for (const json& item : *list) {
    ++number;
    if (!item.is_object())
      return rejected(fmt::format("message {} is {}, not an object", number, kind_of(item)));
    const std::string* role = required_text(item, layout.role_tag, fault);
    const std::string* content = role ? required_text(item, layout.content_tag, fault) : nullptr;
    if (content == nullptr) return rejected(fmt::format("message {}: {}", number, fault));
    if (*role == layout.system_tag) {
      if (number != 1)
        return rejected(fmt::format("message {}: a system message may only be the first", number));
      messages.clear();  // it is nearer to the conversation than the record's own system text
      if (!blank(*content)) messages.push_back({.role = Role::system, .content = *content});
      continue;
    }
    const std::string& expected = users_turn ? layout.user_tag : layout.assistant_tag;
    if (*role != expected) {
      return rejected(fmt::format("message {}: the role is {} where {} must follow", number, in_quotes(*role),
                                  in_quotes(expected)));
    }
    if (blank(*content)) return empty(fmt::format("message {} is empty", number));
    messages.push_back({.role = users_turn ? Role::user : Role::assistant, .content = *content});
    users_turn = !users_turn;
  }
  if (messages.empty() || messages.back().role == Role::system) return empty("only a system message");
  if (!users_turn)
    return rejected(fmt::format("the last message is not from {}", in_quotes(layout.assistant_tag)));
  return finished(record, std::move(messages));
}

RecordLayout columns(std::string name, std::string prompt, std::string query, std::string response) {
  RecordLayout layout;
  layout.name = std::move(name);
  layout.prompt = std::move(prompt);
  layout.query = std::move(query);
  layout.response = std::move(response);
  return layout;
}

RecordLayout conversation(std::string name, std::string messages, std::string role, std::string content,
                          std::string user, std::string assistant) {
  RecordLayout layout;
  layout.name = std::move(name);
  layout.formatting = Formatting::sharegpt;
  layout.messages = std::move(messages);
  layout.role_tag = std::move(role);
  layout.content_tag = std::move(content);
  layout.user_tag = std::move(user);
  layout.assistant_tag = std::move(assistant);
  layout.system_tag = "system";
  layout.system = "system";
  return layout;
}

std::vector<RecordLayout> make_known_layouts() {
  std::vector<RecordLayout> layouts{
      columns("metamath", "query", "", "response"),
      columns("alpaca", "instruction", "input", "output"),
      conversation("messages", "messages", "role", "content", "user", "assistant"),
      conversation("sharegpt", "conversations", "from", "value", "human", "gpt"),
  };
  layouts[1].system = "system";
  layouts[1].history = "history";
  return layouts;
}

}  // namespace

const std::vector<RecordLayout>& known_layouts() {
  static const std::vector<RecordLayout> layouts = make_known_layouts();
  return layouts;
}

std::optional<RecordLayout> find_layout(const json& record) {
  if (!record.is_object()) return std::nullopt;
  for (const RecordLayout& layout : known_layouts()) {
    const bool fits = layout.formatting == Formatting::alpaca
                          ? record.contains(layout.prompt) && record.contains(layout.response)
                          : record.contains(layout.messages);
    if (fits) return layout;
  }
  return std::nullopt;
}

std::string expected_keys() {
  return "query and response, or instruction and output, or messages (of role and content), or conversations "
         "(of "
         "from and value); other keys can be named under \"columns\" in dataset_info.json";
}

Conversion to_sample(const json& record, const RecordLayout& layout) {
  if (!record.is_object()) return rejected(fmt::format("the record is {}, not an object", kind_of(record)));
  return layout.formatting == Formatting::alpaca ? from_columns(record, layout)
                                                 : from_messages(record, layout);
}

}  // namespace lazytrain
