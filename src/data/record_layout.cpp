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

// The record with its keys in the order of the file, where the text of the file is at hand.
class Ordered {
 public:
  explicit Ordered(std::string_view text) : text_(text) {}

  // The value at `place`, as JSON; `value`, the same value without the order, where there is no text.
  std::string text_of(const json& value, const json::json_pointer& place) {
    if (!parsed_) parsed_ = nlohmann::ordered_json::parse(text_, nullptr, false);
    return !parsed_->is_discarded() && parsed_->contains(place) ? (*parsed_)[place].dump() : value.dump();
  }

 private:
  std::string_view text_;
  std::optional<nlohmann::ordered_json> parsed_;
};

// Objects with their keys in order are searched key by key, so that their size is bounded.
bool is_huge(const json& value) {
  constexpr std::size_t kMostKeys = 1000;
  if (!value.is_structured()) return false;
  return (value.is_object() && value.size() > kMostKeys) || std::any_of(value.begin(), value.end(), is_huge);
}

// Reads the record's tools; false where they are none, and `fault` says why.
bool read_tools(const json& record, const RecordLayout& layout, Ordered& ordered, std::string& tools,
                std::string& fault) {
  const auto found = layout.tools.empty() ? record.end() : record.find(layout.tools);
  if (found == record.end() || found->is_null()) return true;
  json list = *found;
  if (found->is_string()) {
    tools = found->get<std::string>();
    if (blank(tools)) return tools.clear(), true;
    list = json::parse(tools, nullptr, false);
  }
  if (!list.is_array() || is_huge(list)) {
    fault = fmt::format("{} is not a list in JSON, or has more than 1,000 keys", in_quotes(layout.tools));
    return false;
  }
  if (!found->is_string()) tools = ordered.text_of(*found, json::json_pointer() / layout.tools);
  if (list.empty()) tools.clear();
  return true;
}

Conversion finished(const json& record, std::vector<Message> messages, std::string tools) {
  Sample sample{
      .messages = std::move(messages), .tools = std::move(tools), .original_question = {}, .line = 0};
  const auto question = record.find("original_question");
  if (question != record.end() && question->is_string())
    sample.original_question = question->get<std::string>();
  return {.sample = std::move(sample), .empty = false, .reason = {}};
}

Conversion from_columns(const json& record, const RecordLayout& layout, Ordered ordered) {
  std::string fault, tools;
  const std::string* system = optional_text(record, layout.system, fault);
  const std::string* prompt = system ? required_text(record, layout.prompt, fault) : nullptr;
  const std::string* query = prompt ? optional_text(record, layout.query, fault) : nullptr;
  const std::string* response = query ? required_text(record, layout.response, fault) : nullptr;
  if (response == nullptr || !read_tools(record, layout, ordered, tools, fault)) return rejected(fault);

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
  return finished(record, std::move(messages), std::move(tools));
}

// The calls in an assistant's turn, as JSON: its tool_calls, or its content where the role says that it is a
// call. Empty: none.
std::string calls_of(const json& item, bool content_is_call, const std::string& content, Ordered& ordered,
                     const json::json_pointer& place, std::string& fault) {
  if (content_is_call) {
    fault = "the call is not JSON with name and arguments";
    if (is_huge(json::parse(content, nullptr, false))) return {};
    nlohmann::ordered_json calls = nlohmann::ordered_json::parse(content, nullptr, false), list;
    if (calls.is_object()) calls = nlohmann::ordered_json::array({calls});
    for (const nlohmann::ordered_json& call : calls) {
      if (!calls.is_array() || !call.is_object() || !call.contains("name")) return {};
      list.push_back({{"type", "function"}, {"function", call}});
    }
    if (list.empty()) return {};
    fault.clear();
    return list.dump();
  }
  const auto calls = item.find("tool_calls");
  if (calls == item.end() || calls->is_null() || (calls->is_array() && calls->empty())) return {};
  const auto is_object = [](const json& call) { return call.is_object(); };
  if (!calls->is_array() || !std::all_of(calls->begin(), calls->end(), is_object) || is_huge(*calls)) {
    fault = "'tool_calls' is not a list of objects, or one has more than 1,000 keys";
    return {};
  }
  return ordered.text_of(*calls, place / "tool_calls");
}

Conversion from_text(const json& record, const RecordLayout& layout) {
  std::string fault;
  const std::string* text = required_text(record, layout.text, fault);
  if (text == nullptr) return rejected(fault);
  if (blank(*text)) return empty(fmt::format("{} is empty", in_quotes(layout.text)));
  Conversion result = finished(record, {{.role = Role::assistant, .content = *text}}, "");
  result.sample->whole_text = true;
  return result;
}

// The role as the layout spells it, where the record has another usual word for it.
const std::string& role_of(const std::string& word, const RecordLayout& layout) {
  if (!layout.usual_roles) return word;
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (is_one_of({"user", "human", "prompter"})) return layout.user_tag;
  if (is_one_of({"assistant", "gpt", "model", "bot", "chatgpt"})) return layout.assistant_tag;
  if (is_one_of({"tool", "observation", "function", "ipython"})) return layout.tool_tag;
  return word;
}

Conversion from_messages(const json& record, const RecordLayout& layout, Ordered ordered) {
  std::string fault, tools;
  const std::string* system = optional_text(record, layout.system, fault);
  if (system == nullptr || !read_tools(record, layout, ordered, tools, fault)) return rejected(fault);
  const auto list = record.find(layout.messages);
  if (list == record.end()) return rejected(fmt::format("there is no key {}", in_quotes(layout.messages)));
  if (!list->is_array())
    return rejected(fmt::format("{} is {}, not a list", in_quotes(layout.messages), kind_of(*list)));
  if (list->empty()) return empty(fmt::format("{} is empty", in_quotes(layout.messages)));

  std::vector<Message> messages;
  if (!blank(*system)) messages.push_back({.role = Role::system, .content = *system});
  std::int64_t number = 0;
  Role expected = Role::user;
  for (const json& item : *list) {
    ++number;
    if (!item.is_object())
      return rejected(fmt::format("message {} is {}, not an object", number, kind_of(item)));
    const std::string* word = required_text(item, layout.role_tag, fault);
    if (word == nullptr) return rejected(fmt::format("message {}: {}", number, fault));
    const std::string* role = &role_of(*word, layout);
    const bool is_call = !layout.function_tag.empty() && *role == layout.function_tag;
    const bool answers = *role == layout.assistant_tag || is_call;
    const bool has_calls = answers && item.contains("tool_calls");
    const std::string* content = has_calls ? optional_text(item, layout.content_tag, fault)
                                           : required_text(item, layout.content_tag, fault);
    if (content == nullptr) return rejected(fmt::format("message {}: {}", number, fault));
    if (*role == layout.system_tag) {
      if (number != 1)
        return rejected(fmt::format("message {}: a system message may only be the first", number));
      messages.clear();  // it is nearer to the conversation than the record's own system text
      if (!blank(*content)) messages.push_back({.role = Role::system, .content = *content});
      continue;
    }
    const bool is_tool = !layout.tool_tag.empty() && *role == layout.tool_tag;
    const bool may_be_tool =
        expected == Role::tool || (!messages.empty() && messages.back().role == Role::tool);
    const bool in_turn = is_tool   ? may_be_tool
                         : answers ? expected == Role::assistant
                                   : *role == layout.user_tag && expected == Role::user;
    if (!in_turn) {
      const std::string& tag = expected == Role::user   ? layout.user_tag
                               : expected == Role::tool ? layout.tool_tag
                                                        : layout.assistant_tag;
      return rejected(fmt::format("message {}: the role is {} where {} must follow", number, in_quotes(*word),
                                  in_quotes(tag)));
    }
    Message message{.role = is_tool   ? Role::tool
                            : answers ? Role::assistant
                                      : Role::user,
                    .content = is_call ? std::string() : *content};
    if (answers) {
      const json::json_pointer place =
          json::json_pointer() / layout.messages / (static_cast<std::size_t>(number) - 1);
      message.tool_calls = calls_of(item, is_call, *content, ordered, place, fault);
      const std::string* reasoning =
          fault.empty() ? optional_text(item, "reasoning_content", fault) : nullptr;
      if (reasoning == nullptr) return rejected(fmt::format("message {}: {}", number, fault));
      if (!blank(*reasoning)) message.reasoning_content = *reasoning;
    }
    if (is_tool) {
      const std::string* name = optional_text(item, "name", fault);
      const std::string* id = name ? optional_text(item, "tool_call_id", fault) : nullptr;
      if (id == nullptr) return rejected(fmt::format("message {}: {}", number, fault));
      message.name = *name;
      message.tool_call_id = *id;
    }
    if (blank(*content) && !is_tool && message.tool_calls.empty())
      return empty(fmt::format("message {} is empty", number));
    expected = !answers ? Role::assistant : message.tool_calls.empty() ? Role::user : Role::tool;
    messages.push_back(std::move(message));
  }
  if (messages.empty() || messages.back().role == Role::system) return empty("only a system message");
  if (messages.back().role != Role::assistant)
    return rejected(fmt::format("the last message is not from {}", in_quotes(layout.assistant_tag)));
  return finished(record, std::move(messages), std::move(tools));
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
  layout.tool_tag = "observation";
  layout.function_tag = "function_call";
  layout.usual_roles = true;
  return layout;
}

RecordLayout whole_text(std::string name, std::string key) {
  RecordLayout layout;
  layout.name = std::move(name);
  layout.formatting = Formatting::text;
  layout.text = std::move(key);
  return layout;
}

std::vector<RecordLayout> make_known_layouts() {
  std::vector<RecordLayout> layouts{
      columns("metamath", "query", "", "response"),
      columns("alpaca", "instruction", "input", "output"),
      conversation("messages", "messages", "role", "content", "user", "assistant"),
      conversation("sharegpt", "conversations", "from", "value", "human", "gpt"),
      columns("prompt-completion", "prompt", "", "completion"),
      whole_text("text", "text"),
  };
  layouts[1].system = "system";
  layouts[1].history = "history";
  layouts[2].tool_tag = "tool";
  layouts[3].tool_tag = "observation";
  layouts[3].function_tag = "function_call";
  for (std::size_t i = 1; i < layouts.size(); ++i) layouts[i].tools = "tools";
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
                      : layout.formatting == Formatting::sharegpt ? record.contains(layout.messages)
                                                                  : record.contains(layout.text);
    if (fits) return layout;
  }
  return std::nullopt;
}

std::vector<RecordColumn> used_columns(const RecordLayout& layout) {
  std::vector<RecordColumn> used;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) used.push_back({.name = name});
  };
  if (layout.formatting == Formatting::text) {
    add(layout.text);
  } else {
    add(layout.system);
    add(layout.tools);
  }
  if (layout.formatting == Formatting::alpaca) {
    for (const std::string& name : {layout.prompt, layout.query, layout.response, layout.history}) add(name);
  }
  if (layout.formatting == Formatting::sharegpt) {
    used.push_back({.name = layout.messages,
                    .fields = {layout.role_tag, layout.content_tag, "tool_calls", "reasoning_content", "name",
                               "tool_call_id"}});
  }
  add("original_question");
  return used;
}

std::string expected_keys() {
  return "query and response, or instruction and output, or prompt and completion, or text, or messages (of "
         "role and content), or conversations (of from and value); other keys can be named under \"columns\" "
         "in dataset_info.json";
}

Conversion to_sample(const json& record, const RecordLayout& layout, std::string_view text) {
  if (!record.is_object()) return rejected(fmt::format("the record is {}, not an object", kind_of(record)));
  if (layout.formatting == Formatting::text) return from_text(record, layout);
  return layout.formatting == Formatting::alpaca ? from_columns(record, layout, Ordered(text))
                                                 : from_messages(record, layout, Ordered(text));
}

}  // namespace lazytrain
