// Conversations -> token ids with a mark on every token that is to be learned. A conversation is written
// once, and the marks are set while writing: nothing is searched for in what messages say and no prefix is
// measured. What users write never becomes a special token: text that spells one is encoded as plain text.
//
//   model    the Jinja template of the model's folder (text/folder_template.h)
//   smollm2  ChatML, with SmolLM2's default system turn where the conversation begins without one
//   chatml   <|im_start|>role\ncontent<|im_end|>\n ...
//   plain    prompt\nresponse<end of text>
//   alpaca   the prompt form of Stanford Alpaca: ### Instruction, ### Response
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/message.h"
#include "text/tokenizer.h"

namespace lazytrain {

struct Rendered {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;  // one per id; 1: the model learns to predict this token
};

struct RenderOptions {
  bool train_on_prompt = false;        // supervise every token
  bool add_generation_prompt = false;  // end with the opening of an assistant turn
  std::string_view tools = {};         // a JSON list; empty: none
};

// Of all conversations of a run.
struct TemplateSettings {
  bool mask_history = false;  // only the last assistant turn is supervised
  // What the model's own template finds under this name; not set: nothing. With false, blocks of thoughts
  // that the template opens a turn with belong to the prompt, and reasoning_content is left out.
  std::optional<bool> enable_thinking = {};
  // The date that the model's own template says, where it says one; not set: now.
  std::optional<std::time_t> now = {};
};

class FolderTemplate;
struct Opening;

class ChatTemplate {
 public:
  // Throws Error(usage) for a name that is not known or a template whose tokens the tokenizer lacks.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer,
                            const TemplateSettings& settings = {});
  // The template "model".
  static ChatTemplate own(FolderTemplate folder_template, const Tokenizer& tokenizer,
                          const TemplateSettings& settings = {});

  // Supervised is what an assistant says and the token that ends its turn: of the named templates the
  // content; of the model's own all that the template writes from where generation begins (so also <think>
  // and <tool_call>), or what lies in {% generation %} where it has such blocks. The text that opens an
  // assistant turn is encoded apart from what follows, so that training sees the tokens that generation goes
  // on from. White space behind the last end token is left out: nothing comes after it. Throws Error(data)
  // where the conversation is empty or the template has no place for something in it.
  [[nodiscard]] Rendered render(std::span<const Message> conversation, RenderOptions options = {}) const;

  [[nodiscard]] std::string_view name() const;
  [[nodiscard]] const TemplateSettings& settings() const { return settings_; }
  // The same conversation is written otherwise on another day.
  [[nodiscard]] bool says_the_date() const;
  // Ids at which generation stops: the template's end of turn and the tokenizer's own stop ids. Sorted.
  [[nodiscard]] const std::vector<std::int32_t>& stop_ids() const { return stop_ids_; }

 private:
  enum class Kind : std::uint8_t { smollm2, chatml, plain, alpaca, own };
  class Writer;
  ChatTemplate(Kind kind, Tokenizer tokenizer, const TemplateSettings& settings);
  void render_chatml(std::span<const Message> conversation, bool generation, Writer& writer) const;
  void render_plain(std::span<const Message> conversation, Writer& writer) const;
  void render_alpaca(std::span<const Message> conversation, Writer& writer) const;

  // In own_template.cpp.
  void probe();
  [[nodiscard]] Rendered render_own(std::span<const Message> conversation,
                                    const RenderOptions& options) const;
  [[nodiscard]] std::string written_opening(std::span<const Message> conversation,
                                            std::string_view tools) const;

  Kind kind_;
  Tokenizer tokenizer_;
  TemplateSettings settings_;
  std::int32_t start_id_ = -1, end_id_ = -1;  // end of a turn
  std::vector<std::int32_t> stop_ids_;
  std::shared_ptr<const FolderTemplate> own_;
  std::shared_ptr<const Opening> opening_;  // of an assistant turn in a short conversation
  bool writes_opening_ = false;             // where generation is to follow
};

// The names that named() knows, for messages.
std::span<const std::string_view> template_names();

struct ChosenTemplate {
  ChatTemplate chat_template;
  std::string reason;  // a clause to print: "named by the key `template`"
};

// The template that `wish` names, "model" for that of the folder. Without a wish the folder's own, and
// "plain" where it has none. Error(usage) for a name that is not known, Error(model_file) where the folder's
// template cannot be used.
ChosenTemplate choose_template(const std::filesystem::path& folder, const std::optional<std::string>& wish,
                               const Tokenizer& tokenizer, const TemplateSettings& settings = {});

}  // namespace lazytrain
