// Templates of model folders: conversations written by hand with the text they render to. What is learned
// stands in guillemets; a backslash precedes text that spells a special token without being one.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>

#include "core/file.h"
#include "formats/json.h"
#include "small_tokenizer.h"
#include "text/chat_template.h"
#include "text/folder_template.h"

namespace lazytrain::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::filesystem::path kTemplates = kTextData / "chat_templates";
const std::vector<std::string> kSpecial{"<|im_start|>",
                                        "<|im_end|>",
                                        "<|begin_of_text|>",
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eot_id|>",
                                        "<s>",
                                        "</s>",
                                        "[INST]",
                                        "[/INST]",
                                        "[TOOL_CALLS]",
                                        "<bos>",
                                        "<eos>",
                                        "<start_of_turn>",
                                        "<end_of_turn>"};
constexpr int kFirstSpecial = 300;

class OwnTemplates : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("lazytrain-own-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A model folder with the template; which tokens begin and end a text depends on it.
  void use(const std::string& name) {
    nlohmann::json document = small_document({{"\n", "\n"}, {"o", "k"}});
    int id = kFirstSpecial;
    for (const std::string& token : kSpecial) document["added_tokens"].push_back(special_token(token, id++));
    for (const std::string token : {"<think>", "</think>", "<tool_call>", "</tool_call>"}) {
      document["added_tokens"].push_back(special_token(token, id++));
      document["added_tokens"].back()["special"] = false;
    }
    nlohmann::json config = {{"eos_token", "<|im_end|>"}};
    if (name == "headers") config = {{"bos_token", "<|begin_of_text|>"}, {"eos_token", "<|eot_id|>"}};
    if (name == "inst") config = {{"bos_token", {{"content", "<s>"}}}, {"eos_token", "</s>"}};
    if (name == "turns") config = {{"bos_token", "<bos>"}, {"eos_token", "<eos>"}};
    write_file(folder_ / "tokenizer.json", document.dump());
    write_file(folder_ / "tokenizer_config.json", config.dump());
    write_file(folder_ / "chat_template.jinja", read_file(kTemplates / (name + ".jinja")));
  }
  ChatTemplate chat(const TemplateSettings& settings = {}) const {
    return choose_template(folder_, std::nullopt, Tokenizer::load(folder_), settings).chat_template;
  }

  std::string shown(const Rendered& rendered) const {
    const Tokenizer tokenizer = Tokenizer::load(folder_);
    std::string result;
    for (std::size_t begin = 0; begin < rendered.ids.size();) {
      std::size_t end = begin;
      while (end < rendered.ids.size() && rendered.supervised[end] == rendered.supervised[begin]) ++end;
      if (rendered.supervised[begin] != 0) result += "«";
      result += spelled(tokenizer, std::span(rendered.ids).subspan(begin, end - begin));
      if (rendered.supervised[begin] != 0) result += "»";
      begin = end;
    }
    return result;
  }

  static std::string spelled(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
    std::string result;
    for (std::size_t begin = 0; begin < ids.size();) {
      std::size_t end = begin;
      while (end < ids.size() && !tokenizer.is_special(ids[end])) ++end;
      std::string text = tokenizer.decode(ids.subspan(begin, end - begin));
      for (const std::string& token : kSpecial)
        for (std::size_t at = text.find(token); at != std::string::npos;
             at = text.find(token, at + token.size()))
          text.insert(at++, "\\");
      result += text;
      if (end < ids.size()) result += tokenizer.decode(ids.subspan(end++, 1));
      begin = end;
    }
    return result;
  }

  std::filesystem::path folder_;
};

std::vector<Message> conversation_of(const Json& messages) {
  std::vector<Message> result;
  for (const Json& message : messages) {
    result.push_back({.role = *parse_role(message.at("role").get<std::string>()),
                      .content = message.at("content").get<std::string>()});
    if (message.contains("reasoning_content"))
      result.back().reasoning_content = message.at("reasoning_content");
    if (message.contains("tool_calls")) result.back().tool_calls = message.at("tool_calls").dump();
  }
  return result;
}

TEST_F(OwnTemplates, ConversationsWrittenByHand) {
  const auto cases =
      parse_ordered_json(read_file(kTemplates / "conversations.json"), "conversations.json", ExitCode::data);
  std::cout << "  " << cases.size() << " conversations\n";
  EXPECT_GE(cases.size(), 45u);
  for (const Json& row : cases) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    use(row.at("template"));
    TemplateSettings settings;
    RenderOptions options;
    if (row.contains("settings")) {
      const Json& given = row.at("settings");
      settings.mask_history = given.value("mask_history", false);
      if (given.contains("enable_thinking"))
        settings.enable_thinking = given.at("enable_thinking").get<bool>();
      options.train_on_prompt = given.value("train_on_prompt", false);
    }
    const std::string tools = row.contains("tools") ? row.at("tools").dump() : std::string();
    options.tools = tools;
    const std::vector<Message> conversation = conversation_of(row.at("messages"));
    EXPECT_EQ(shown(chat(settings).render(conversation, options)), row.at("expected").get<std::string>());
  }
}

// Where generation goes on from is what training has seen before the answer.
TEST_F(OwnTemplates, PromptsAreTheBeginningOfTrainedConversations) {
  for (const std::string name :
       {"thinking", "headers", "inst", "turns", "marked", "bare", "default_system"}) {
    SCOPED_TRACE(name);
    use(name);
    for (const std::optional<bool> thinking :
         {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      const ChatTemplate own = chat({.enable_thinking = thinking});
      const std::vector<Message> conversation{{.role = Role::user, .content = "a"},
                                              {.role = Role::assistant, .content = "\n\nok"}};
      const Rendered trained = own.render(conversation);
      const Rendered prompt = own.render(std::span(conversation).first(1), {.add_generation_prompt = true});
      ASSERT_LT(prompt.ids.size(), trained.ids.size());
      EXPECT_TRUE(std::equal(prompt.ids.begin(), prompt.ids.end(), trained.ids.begin()));
      const auto learned = std::find(trained.supervised.begin(), trained.supervised.end(), 1);
      EXPECT_EQ(static_cast<std::size_t>(learned - trained.supervised.begin()), prompt.ids.size());
      EXPECT_EQ(trained.supervised.back(), 1);
    }
  }
}

TEST_F(OwnTemplates, GenerationStopsAtTheEndOfATurn) {
  const auto special = [](const std::string& token) {
    return kFirstSpecial +
           static_cast<int>(std::find(kSpecial.begin(), kSpecial.end(), token) - kSpecial.begin());
  };
  use("turns");
  EXPECT_THAT(chat().stop_ids(), ElementsAre(special("<eos>"), special("<end_of_turn>")));
  use("inst");
  EXPECT_THAT(chat().stop_ids(), ElementsAre(special("</s>")));
  use("marked");
  EXPECT_THAT(chat().stop_ids(), ElementsAre(special("<|im_end|>")));
}

TEST_F(OwnTemplates, TheFolderDecidesWhereNothingIsNamed) {
  use("headers");
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  EXPECT_EQ(chat().name(), "model");
  EXPECT_EQ(choose_template(folder_, "model", tokenizer).chat_template.name(), "model");
  EXPECT_EQ(choose_template(folder_, "chatml", tokenizer).chat_template.name(), "chatml");
  std::filesystem::remove(folder_ / "chat_template.jinja");
  const ChosenTemplate plain = choose_template(folder_, std::nullopt, tokenizer);
  EXPECT_EQ(plain.chat_template.name(), "plain");
  EXPECT_EQ(plain.reason, "the model folder has no chat template");
  EXPECT_THAT(error_of(ExitCode::usage, [&] { choose_template(folder_, "model", tokenizer); }),
              HasSubstr("has no chat template; choose one of smollm2, chatml, plain, alpaca"));
  nlohmann::json config = {{"eos_token", "<|eot_id|>"}, {"chat_template", "{{ messages[0].content }}"}};
  write_file(folder_ / "tokenizer_config.json", config.dump());
  EXPECT_EQ(chat().name(), "model");
  config["chat_template"] = {{{"name", "tool_use"}, {"template", "{% nope %}"}},
                             {{"name", "default"}, {"template", "{{ messages[0].content }}"}}};
  write_file(folder_ / "tokenizer_config.json", config.dump());
  EXPECT_EQ(chat().name(), "model");
}

TEST_F(OwnTemplates, TheDateIsThatOfTheSettings) {
  use("bare");
  EXPECT_FALSE(chat().says_the_date());
  write_file(folder_ / "chat_template.jinja", "{{ strftime_now('%Y-%m-%d') }}{{ messages[0].content }}");
  const ChatTemplate own = chat({.now = 1'700'000'000});
  EXPECT_TRUE(own.says_the_date());
  const std::vector<Message> conversation{{.role = Role::user, .content = "!"}};
  EXPECT_THAT(shown(own.render(conversation)), ::testing::StartsWith("2023-11-1"));
}

TEST_F(OwnTemplates, ErrorsSayWhereAndWhatToDo) {
  use("turns");
  const auto refused = [&](const std::vector<Message>& conversation, RenderOptions options = {}) {
    return error_of(ExitCode::data, [&] { static_cast<void>(chat().render(conversation, options)); });
  };
  EXPECT_THAT(
      refused({{.role = Role::system, .content = "s"}}),
      HasSubstr("chat_template.jinja:4:19: the template refuses the conversation: there is no system here"));
  EXPECT_THAT(refused({{.role = Role::user, .content = "s"}}, {.tools = "[{}]"}),
              HasSubstr("chat_template.jinja has no place for tools, which the conversation has"));
  EXPECT_THAT(refused({{.role = Role::assistant, .content = "", .tool_calls = "[{}]"}}),
              HasSubstr("has no place for tool calls"));
  EXPECT_THAT(refused({{.role = Role::assistant, .content = "", .reasoning_content = "r"}}),
              HasSubstr("has no place for reasoning_content"));
  write_file(folder_ / "chat_template.jinja", "a\n{% include 'x' %}");
  EXPECT_THAT(
      error_of(ExitCode::model_file, [&] { chat(); }),
      HasSubstr("chat_template.jinja:2:1: the statement 'include' is not supported; `template` can name "
                "another one: smollm2, chatml, plain, alpaca"));
}

// Where letters have a space put in front of them and rare ones are spelled in bytes, as Llama 2 has it.
TEST_F(OwnTemplates, AnswersAreFollowedThroughANormalizerAndByteFallback) {
  const auto document = read_json(kTextData / "tokenizer_vectors.json", ExitCode::data);
  write_file(folder_ / "tokenizer.json", document.at("tokenizers").at("llama2").dump());
  write_file(folder_ / "tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
  write_file(folder_ / "chat_template.jinja",
             "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} [/INST]"
             "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}");
  const std::vector<Message> conversation{{.role = Role::user, .content = "Say \u9f98 </s>"},
                                          {.role = Role::assistant, .content = "\u9f98 and  </s>"},
                                          {.role = Role::user, .content = "And now?"},
                                          {.role = Role::assistant, .content = "Fine."}};
  const Rendered rendered = chat().render(conversation);
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  std::string all, learned;
  std::vector<std::int32_t> specials;
  for (std::size_t i = 0; i < rendered.ids.size(); ++i) {
    all += tokenizer.bytes(rendered.ids[i]);
    if (rendered.supervised[i] != 0) learned += tokenizer.bytes(rendered.ids[i]);
    if (tokenizer.is_special(rendered.ids[i])) specials.push_back(rendered.ids[i]);
  }
  EXPECT_EQ(learned, " \u9f98 and  </s> </s> Fine. </s>");
  // Each text behind a special token has its space; those that messages spell are text.
  EXPECT_EQ(all,
            "<s> [INST] Say \u9f98 </s> [/INST] \u9f98 and  </s> </s><s> [INST] And now? [/INST] Fine. </s>");
  EXPECT_THAT(specials, ElementsAre(1, 2, 1, 2));
}

}  // namespace
}  // namespace lazytrain::testing
