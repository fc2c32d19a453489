// The chat template that a model folder brings, and the text it makes of conversations: what transformers'
// apply_chat_template() gives with tokenize=False, with marks that say who wrote which byte.
#pragma once

#include <ctime>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja.h"
#include "text/marked_text.h"
#include "text/message.h"

namespace lazytrain {

// A conversation as a template takes it. Texts are JSON, as the messages' tool_calls are.
struct TemplateInput {
  std::span<const Message> messages;
  std::string_view tools = {};  // a list; empty: none
  bool add_generation_prompt = false;
  std::optional<bool> enable_thinking = {};  // not set: the template does not find the variable
};

class FolderTemplate {
 public:
  // From chat_template.jinja, or the chat_template of tokenizer_config.json: a text, or the one named
  // "default" of several. nullopt where the folder has none. Error(model_file) where it cannot be used.
  // `now`: what strftime_now() says.
  static std::optional<FolderTemplate> find(const std::filesystem::path& folder, std::time_t now);
  // `special_tokens`: variables such as bos_token with their text. `file` names the template in messages.
  static FolderTemplate parse(std::string_view source, const std::string& file,
                              const std::vector<std::pair<std::string, std::string>>& special_tokens,
                              std::time_t now);

  // Marks: what the template writes is markup; what an assistant's message says, its reasoning and its tool
  // calls included, is answer; other content is data. `turn` is the message's place in the conversation.
  // Error(data) where the template refuses the conversation, or has no place for tools, tool calls or
  // reasoning that the conversation has.
  [[nodiscard]] MarkedText text(const TemplateInput& input) const;

  [[nodiscard]] bool has_generation_blocks() const { return jinja_.has_generation_blocks(); }
  [[nodiscard]] bool says_the_date() const { return jinja_.mentions("strftime_now"); }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  FolderTemplate(jinja::Template parsed, std::string file);
  void require_place(bool wanted, std::string_view variable, std::string_view what) const;

  jinja::Template jinja_;
  std::string file_;
  std::vector<std::pair<std::string, std::string>> special_tokens_;
  std::time_t now_ = 0;
};

}  // namespace lazytrain
