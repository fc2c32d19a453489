// One turn of a conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lazytrain {

enum class Role : std::uint8_t { system, user, assistant, tool };

// "system", "user", "assistant" or "tool"; nothing for any other name.
std::optional<Role> parse_role(std::string_view name);
std::string_view name_of(Role role);

struct Message {
  Role role = Role::user;
  std::string content = {};
  // Of an assistant, where there is one: what it thought before it answered, apart from the content.
  std::optional<std::string> reasoning_content = {};
  // Of an assistant: a JSON list of its calls, as the dataset has them. Empty: none.
  std::string tool_calls = {};
  // Of a tool: which one, where the dataset says so.
  std::string name = {}, tool_call_id = {};
};

}  // namespace lazytrain
