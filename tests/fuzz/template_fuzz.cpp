// One chat template, read and written out for conversations with a system turn, tools, calls and reasoning.
#include "fuzz.h"
#include "text/folder_template.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  static const std::vector<Message> plain{{.role = Role::system, .content = "Be short."},
                                          {.role = Role::user, .content = " What is 2 + 2?\n"},
                                          {.role = Role::assistant, .content = "4"}};
  static const std::vector<Message> rich{
      {.role = Role::user, .content = "The weather in Bern?"},
      {.role = Role::assistant,
       .reasoning_content = "I have to look.",
       .tool_calls =
           R"([{"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern", "days": 1}}}])"},
      {.role = Role::tool, .content = "rain", .name = "weather"},
      {.role = Role::assistant, .content = "It rains."}};
  constexpr std::string_view kTools =
      R"([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])";
  constexpr std::time_t kNow = 1'750'000'000;
  read_or_refuse([&] {
    const FolderTemplate chat = FolderTemplate::parse(text_of(input), "chat_template.jinja",
                                                      {{"bos_token", "<s>"}, {"eos_token", "</s>"}}, kNow);
    read_or_refuse([&] { static_cast<void>(chat.text({.messages = plain, .add_generation_prompt = true})); });
    read_or_refuse(
        [&] { static_cast<void>(chat.text({.messages = rich, .tools = kTools, .enable_thinking = true})); });
  });
}

}  // namespace lazytrain::fuzz
