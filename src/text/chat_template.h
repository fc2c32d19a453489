// Conversations -> token ids with a mark on every token that is to be learned. A conversation is written
// once, turn by turn, and the marks are set while writing: nothing is searched for afterwards and no prefix
// is measured. What users write never becomes a special token: text that spells one is encoded as plain text.
//
//   smollm2  ChatML, with SmolLM2's default system turn where the conversation begins without one
//   chatml   <|im_start|>role\ncontent<|im_end|>\n ...
//   plain    prompt\nresponse<end of text>
//   alpaca   the prompt form of Stanford Alpaca: ### Instruction, ### Response
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace lazytrain {

enum class Role : std::uint8_t { system, user, assistant };

// "system", "user" or "assistant"; nothing for any other name.
std::optional<Role> parse_role(std::string_view name);

struct Message {
  Role role = Role::user;
  std::string content;
};

struct Rendered {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;  // one per id; 1: the model learns to predict this token
};

struct RenderOptions {
  bool train_on_prompt = false;        // supervise every token
  bool add_generation_prompt = false;  // end with the opening of an assistant turn
};

class ChatTemplate {
 public:
  // Throws Error(usage) for a name that is not known or a template whose tokens the tokenizer lacks.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);

  // Supervised are the content of assistant turns and the token that ends them. The text that opens an
  // assistant turn is encoded apart from its content, so that training sees the tokens that generation goes
  // on from. What follows the last turn's end token (a newline in ChatML) is left out: nothing comes after
  // it. Throws Error(data) where the conversation is empty or the template has no place for one of its turns.
  [[nodiscard]] Rendered render(std::span<const Message> conversation, RenderOptions options = {}) const;

  [[nodiscard]] std::string_view name() const;
  // Ids at which generation stops: the template's end of turn and the tokenizer's own stop ids. Sorted.
  [[nodiscard]] const std::vector<std::int32_t>& stop_ids() const { return stop_ids_; }

 private:
  enum class Kind : std::uint8_t { smollm2, chatml, plain, alpaca };
  class Writer;
  ChatTemplate(Kind kind, Tokenizer tokenizer);
  void render_chatml(std::span<const Message> conversation, bool generation, Writer& writer) const;
  void render_plain(std::span<const Message> conversation, Writer& writer) const;
  void render_alpaca(std::span<const Message> conversation, Writer& writer) const;

  Kind kind_;
  Tokenizer tokenizer_;
  std::int32_t start_id_ = -1, end_id_ = -1;  // end of a turn
  std::vector<std::int32_t> stop_ids_;
};

// The names that named() knows, for messages.
std::span<const std::string_view> template_names();

struct DetectedTemplate {
  std::string name;
  std::string reason;  // a clause to print: "its chat_template has ChatML turns"
};

// The template that suits a model folder, from its chat_template.jinja or the chat_template in its
// tokenizer_config.json. Throws Error(model_file) only where a file that exists is not readable.
DetectedTemplate detect_template(const std::filesystem::path& folder);

}  // namespace lazytrain
