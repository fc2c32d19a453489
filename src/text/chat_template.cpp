#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr std::array<std::string_view, 4> kNames{"smollm2", "chatml", "plain", "alpaca"};
constexpr std::string_view kOwn = "model";
constexpr std::array<std::string_view, 4> kRoles{"system", "user", "assistant", "tool"};

constexpr std::string_view kSmolLm2System =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";
// What models tuned on Alpaca data expect to the letter.
constexpr std::string_view kAlpacaPreamble =
    "Below is an instruction that describes a task. Write a response that appropriately completes the "
    "request.";

// Only the model's own template has a place for these.
void require_plain(std::span<const Message> conversation, const RenderOptions& options,
                   const TemplateSettings& settings, std::string_view name) {
  const char* extra = options.tools.empty() ? nullptr : "tools";
  for (const Message& message : conversation) {
    if (!message.tool_calls.empty()) extra = "tool calls";
    if (message.reasoning_content && settings.enable_thinking != false) extra = "reasoning_content";
  }
  if (extra != nullptr)
    fail(ExitCode::data, "template '{}' has no place for {}, which the conversation has", name, extra);
}

}  // namespace

std::string_view name_of(Role role) {
  return kRoles[static_cast<std::size_t>(role)];
}

std::optional<Role> parse_role(std::string_view name) {
  const auto* found = std::find(kRoles.begin(), kRoles.end(), name);
  if (found == kRoles.end()) return std::nullopt;
  return static_cast<Role>(found - kRoles.begin());
}

std::span<const std::string_view> template_names() {
  return kNames;
}

// Collects the tokens of one conversation. Prompt text in a row is encoded as one text.
class ChatTemplate::Writer {
 public:
  // `learned`: the turn that is supervised, null for all of them.
  Writer(const Tokenizer& tokenizer, bool train_on_prompt, const Message* learned)
      : tokenizer_(tokenizer), train_on_prompt_(train_on_prompt), learned_(learned) {}

  void prompt(std::string_view text) { pending_ += text; }
  void response(const Message& message) {
    flush();
    encode(message.content, learns(message));
  }
  [[nodiscard]] bool learns(const Message& message) const {
    return message.role == Role::assistant && (learned_ == nullptr || learned_ == &message);
  }
  void token(std::int32_t id, bool supervised) {
    flush();
    out_.ids.push_back(id);
    mark(supervised);
    in_text_ = first_ = false;
  }
  // What the tokenizer itself puts before the first text.
  void prefix(std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) token(id, false);
    first_ = true;
  }
  Rendered finish() {
    flush();
    return std::move(out_);
  }

 private:
  void flush() {
    encode(pending_, false);
    pending_.clear();
  }
  void encode(std::string_view text, bool supervised) {
    if (text.empty()) return;
    tokenizer_.encode(text, {.parse_special = false, .continues = in_text_, .first = first_}, out_.ids);
    mark(supervised);
    in_text_ = true;
    first_ = false;
  }
  void mark(bool supervised) {
    out_.supervised.resize(out_.ids.size(), supervised || train_on_prompt_ ? 1 : 0);
  }

  const Tokenizer& tokenizer_;
  bool train_on_prompt_;
  const Message* learned_;
  bool in_text_ = false;  // the last thing written was text
  bool first_ = true;     // nothing was written yet
  std::string pending_;
  Rendered out_;
};

ChatTemplate::ChatTemplate(Kind kind, Tokenizer tokenizer, const TemplateSettings& settings)
    : kind_(kind), tokenizer_(std::move(tokenizer)), settings_(settings) {
  stop_ids_ = tokenizer_.stop_ids();
  if (kind_ == Kind::own) return;
  if (kind_ == Kind::smollm2 || kind_ == Kind::chatml) {
    const auto need = [&](std::string_view token) {
      const auto id = tokenizer_.token_to_id(token);
      if (!id) {
        fail(ExitCode::usage,
             "template '{}' needs the token '{}', which {} lacks; choose 'plain' or 'alpaca'", name(), token,
             tokenizer_.where());
      }
      return *id;
    };
    start_id_ = need("<|im_start|>");
    end_id_ = need("<|im_end|>");
  } else {
    const auto end = tokenizer_.end_of_text();
    if (!end) {
      fail(ExitCode::usage,
           "template '{}' ends a response with the end-of-text token, but no eos_token is named beside {}; "
           "add it "
           "to tokenizer_config.json",
           name(), tokenizer_.where());
    }
    end_id_ = *end;
  }
  stop_ids_.push_back(end_id_);
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
}

ChatTemplate ChatTemplate::named(std::string_view name, const Tokenizer& tokenizer,
                                 const TemplateSettings& settings) {
  const auto* found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end())
    fail(ExitCode::usage, "template '{}' is not known; choose one of {}, {}", name, fmt::join(kNames, ", "),
         kOwn);
  return {static_cast<Kind>(found - kNames.begin()), tokenizer, settings};
}

std::string_view ChatTemplate::name() const {
  return kind_ == Kind::own ? kOwn : kNames[static_cast<std::size_t>(kind_)];
}

Rendered ChatTemplate::render(std::span<const Message> conversation, RenderOptions options) const {
  if (conversation.empty()) fail(ExitCode::data, "the conversation has no messages");
  if (options.add_generation_prompt && conversation.back().role == Role::assistant)
    fail(ExitCode::data, "the conversation ends with an assistant turn, so there is nothing to answer");
  if (kind_ == Kind::own) return render_own(conversation, options);
  require_plain(conversation, options, settings_, name());
  const Message* learned = nullptr;
  for (const Message& message : conversation)
    if (settings_.mask_history && message.role == Role::assistant) learned = &message;
  Writer writer(tokenizer_, options.train_on_prompt, learned);
  switch (kind_) {
    case Kind::smollm2:
    case Kind::chatml:
      render_chatml(conversation, options.add_generation_prompt, writer);
      break;
    case Kind::plain:
      render_plain(conversation, writer);
      break;
    case Kind::alpaca:
      render_alpaca(conversation, writer);
      break;
    case Kind::own:
      break;
  }
  return writer.finish();
}

void ChatTemplate::render_chatml(std::span<const Message> conversation, bool generation,
                                 Writer& writer) const {
  const auto open = [&](Role role) {
    writer.token(start_id_, false);
    writer.prompt(name_of(role));
    writer.prompt("\n");
  };
  if (kind_ == Kind::smollm2 && conversation.front().role != Role::system) {
    open(Role::system);
    writer.prompt(kSmolLm2System);
    writer.token(end_id_, false);
    writer.prompt("\n");
  }
  for (std::size_t i = 0; i < conversation.size(); ++i) {
    const Message& message = conversation[i];
    if (i > 0) writer.prompt("\n");
    open(message.role);
    if (message.role == Role::assistant) {
      writer.response(message);
    } else {
      writer.prompt(message.content);
    }
    writer.token(end_id_, writer.learns(message));
  }
  if (generation) {
    writer.prompt("\n");
    open(Role::assistant);
  }
}

void ChatTemplate::render_plain(std::span<const Message> conversation, Writer& writer) const {
  writer.prefix(tokenizer_.prefix_ids());
  for (const Message& message : conversation) {
    if (message.role == Role::assistant) {
      writer.response(message);
      writer.token(end_id_, writer.learns(message));
    } else {
      writer.prompt(message.content);
      writer.prompt("\n");
    }
  }
}

void ChatTemplate::render_alpaca(std::span<const Message> conversation, Writer& writer) const {
  writer.prefix(tokenizer_.prefix_ids());
  const bool own_system = conversation.front().role == Role::system;
  writer.prompt(own_system ? std::string_view(conversation.front().content) : kAlpacaPreamble);
  writer.prompt("\n\n");
  const auto turns = conversation.subspan(own_system ? 1 : 0);
  Role expected = Role::user;
  for (const Message& message : turns) {
    if (message.role != expected) {
      fail(ExitCode::data,
           "template 'alpaca' takes user and assistant in turns, but a turn of the {} stands where "
           "the {} should speak",
           name_of(message.role), name_of(expected));
    }
    if (message.role == Role::user) {
      if (&message != &turns.front()) writer.prompt("\n\n");
      writer.prompt("### Instruction:\n");
      writer.prompt(message.content);
      writer.prompt("\n\n### Response:\n");
      expected = Role::assistant;
    } else {
      writer.response(message);
      writer.token(end_id_, writer.learns(message));
      expected = Role::user;
    }
  }
}

}  // namespace lazytrain
