// Conversations by the template of the model's folder.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "text/chat_template.h"
#include "text/chat_tokens.h"
#include "text/folder_template.h"

namespace lazytrain {
namespace {

// `action` on conversations that the template may refuse; false where it does.
template <typename Action>
bool accepted(const Action& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::data) throw;
    return false;
  }
}

std::vector<std::int32_t> assistant_turns(std::span<const Message> conversation) {
  std::vector<std::int32_t> turns;
  for (std::size_t i = 0; i < conversation.size(); ++i)
    if (conversation[i].role == Role::assistant) turns.push_back(static_cast<std::int32_t>(i));
  return turns;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace

ChatTemplate ChatTemplate::own(FolderTemplate folder_template, const Tokenizer& tokenizer,
                               const TemplateSettings& settings) {
  ChatTemplate result(Kind::own, tokenizer, settings);
  result.own_ = std::make_shared<const FolderTemplate>(std::move(folder_template));
  result.probe();
  return result;
}

bool ChatTemplate::says_the_date() const {
  return own_ && own_->says_the_date();
}

// What the template adds where generation is to follow.
std::string ChatTemplate::written_opening(std::span<const Message> conversation,
                                          std::string_view tools) const {
  TemplateInput input{.messages = conversation,
                      .tools = tools,
                      .add_generation_prompt = true,
                      .enable_thinking = settings_.enable_thinking};
  const MarkedText with = own_->text(input);
  if (opening_ && with.bytes().ends_with(opening_->text)) return opening_->text;
  input.add_generation_prompt = false;
  const MarkedText without = own_->text(input);
  return with.bytes().starts_with(without.bytes()) ? with.bytes().substr(without.size()) : std::string();
}

// Learns from a conversation of two turns how the template opens and ends the assistant's.
void ChatTemplate::probe() {
  const std::vector<Message> conversation{{.role = Role::user, .content = "a"},
                                          {.role = Role::assistant, .content = "b"}};
  std::string opening;
  accepted([&] { opening = written_opening(std::span(conversation).first(1), {}); });
  writes_opening_ = !opening.empty();
  MarkedText text;
  accepted([&] {
    text = own_->text({.messages = conversation, .tools = {}, .enable_thinking = settings_.enable_thinking});
  });
  std::vector<std::int32_t> turns = {1};
  if (!writes_opening_) {
    // All markup before the first word opens the turn, unless that is nothing to speak of.
    const auto answers = find_answers(text, turns, {.text = "a", .cuts = {}});
    std::size_t begin = 0;
    for (const MarkRun& run : text.runs()) {
      if (!answers.empty() && run.mark.turn == 1 && run.end <= answers.front().begin)
        opening += text.bytes().substr(begin, run.end - begin);
      begin = run.end;
    }
    if (is_blank(opening)) opening.clear();
  }
  opening_ = std::make_shared<const Opening>(opening_of(opening, tokenizer_));
  const TokenMarks tokens =
      tokenize_answers(text, find_answers(text, turns, *opening_), tokenizer_, stop_ids_, {});
  for (std::size_t i = tokens.ids.size(); i-- > 0;) {
    if (tokens.supervised[i] == 0) continue;
    if (tokenizer_.is_special(tokens.ids[i])) stop_ids_.push_back(tokens.ids[i]);
    break;
  }
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
}

Rendered ChatTemplate::render_own(std::span<const Message> conversation, const RenderOptions& options) const {
  std::vector<Message> without_reasoning;
  if (settings_.enable_thinking == false) {
    without_reasoning.assign(conversation.begin(), conversation.end());
    for (Message& message : without_reasoning) message.reasoning_content.reset();
    conversation = without_reasoning;
  }
  MarkedText text = own_->text({.messages = conversation,
                                .tools = options.tools,
                                .add_generation_prompt = options.add_generation_prompt,
                                .enable_thinking = settings_.enable_thinking});
  if (options.add_generation_prompt && !writes_opening_) text.append(opening_->text);

  const std::vector<std::int32_t> turns = assistant_turns(conversation);
  Opening other;
  const Opening* opening = opening_.get();
  if (writes_opening_ && !turns.empty() && !own_->has_generation_blocks()) {
    std::size_t questions = conversation.size();
    while (questions > 0 && conversation[questions - 1].role == Role::assistant) --questions;
    std::string written = opening_->text;
    accepted([&] { written = written_opening(conversation.first(questions), options.tools); });
    if (!written.empty() && written != opening_->text) {
      other = opening_of(written, tokenizer_);
      opening = &other;
    }
  }
  TokenMarks tokens =
      tokenize_answers(text, find_answers(text, turns, *opening), tokenizer_, stop_ids_,
                       {.generation_blocks = own_->has_generation_blocks(),
                        .only_turn = settings_.mask_history && !turns.empty() ? turns.back() : -1,
                        .cut_after_end = !options.add_generation_prompt});
  if (options.train_on_prompt) std::fill(tokens.supervised.begin(), tokens.supervised.end(), std::uint8_t{1});
  return {std::move(tokens.ids), std::move(tokens.supervised)};
}

ChosenTemplate choose_template(const std::filesystem::path& folder, const std::optional<std::string>& wish,
                               const Tokenizer& tokenizer, const TemplateSettings& settings) {
  if (wish && *wish != "model")
    return {ChatTemplate::named(*wish, tokenizer, settings), "named by the key `template`"};
  std::optional<FolderTemplate> own;
  try {
    own = FolderTemplate::find(folder, settings.now.value_or(std::time(nullptr)));
  } catch (const Error& error) {
    if (error.code() != ExitCode::model_file) throw;
    throw Error(error.code(), fmt::format("{}; `template` can name another one: {}", error.what(),
                                          fmt::join(template_names(), ", ")));
  }
  if (own) {
    std::string reason = "that of " + own->file();
    return {ChatTemplate::own(std::move(*own), tokenizer, settings), std::move(reason)};
  }
  if (wish)
    fail(ExitCode::usage,
         "template 'model' is the model's own, but {} has no chat template; choose one of {}",
         folder.string(), fmt::join(template_names(), ", "));
  return {ChatTemplate::named("plain", tokenizer, settings), "the model folder has no chat template"};
}

}  // namespace lazytrain
