// Tokenizers of real models against recorded ids. Both are other people's files and not part of the project:
// LAZYTRAIN_TEST_DATA names a folder with tokenizers/qwen3 and goldens/tokenizer, LAZYTRAIN_SMOLLM2 an
// imported SmolLM2-135M-Instruct.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/file.h"
#include "formats/json.h"
#include "small_tokenizer.h"
#include "text/chat_template.h"
#include "text/folder_template.h"
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::testing {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<Message> conversation_of(const nlohmann::ordered_json& messages) {
  std::vector<Message> result;
  for (const auto& message : messages) {
    result.push_back({.role = *parse_role(message.at("role").get<std::string>()),
                      .content = message.at("content").get<std::string>()});
    if (message.contains("reasoning_content"))
      result.back().reasoning_content = message.at("reasoning_content");
    if (message.contains("tool_calls")) result.back().tool_calls = message.at("tool_calls").dump();
  }
  return result;
}

std::optional<std::filesystem::path> folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::filesystem::path>(value);
}

TEST(Qwen3, EveryRecordedText) {
  const auto data = folder_of("LAZYTRAIN_TEST_DATA");
  if (!data) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const Tokenizer tokenizer = Tokenizer::load(*data / "tokenizers" / "qwen3");
  std::ifstream lines(*data / "goldens" / "tokenizer" / "qwen3.jsonl");
  std::string line;
  int texts = 0;
  for (; std::getline(lines, line); ++texts) {
    const auto row = parse_json(line, "qwen3.jsonl", ExitCode::data);
    const auto ids = tokenizer.encode(row.at("text").get<std::string>());
    EXPECT_EQ(ids, row.at("ids").get<Ids>()) << row.at("text");
    EXPECT_EQ(tokenizer.decode(ids), row.at("decoded").get<std::string>());
  }
  EXPECT_EQ(texts, 199);
  EXPECT_EQ(tokenizer.vocabulary_size(), 151669);
  EXPECT_EQ(tokenizer.end_of_text(), 151645);
  EXPECT_EQ(tokenizer.padding(), 151643);
}

// The template of Qwen3's own folder: texts as transformers writes them.
TEST(Qwen3, EveryRecordedConversation) {
  const auto data = folder_of("LAZYTRAIN_TEST_DATA");
  if (!data) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const auto own = FolderTemplate::find(*data / "tokenizers" / "qwen3", 0);
  ASSERT_TRUE(own);
  std::ifstream lines(*data / "goldens" / "chat_template" / "qwen3.jsonl");
  int conversations = 0;
  for (std::string line; std::getline(lines, line); ++conversations) {
    const auto row = parse_ordered_json(line, "qwen3.jsonl", ExitCode::data);
    const auto& settings = row.at("kwargs");
    const std::vector<Message> messages = conversation_of(row.at("messages"));
    const std::string tools = settings.contains("tools") ? settings.at("tools").dump() : std::string();
    TemplateInput input{.messages = messages,
                        .tools = tools,
                        .add_generation_prompt = settings.value("add_generation_prompt", false)};
    if (settings.contains("enable_thinking"))
      input.enable_thinking = settings.at("enable_thinking").get<bool>();
    EXPECT_EQ(own->text(input).bytes(), row.at("rendered").get<std::string>()) << line;
  }
  std::cout << "  " << conversations << " conversations\n";
  EXPECT_EQ(conversations, 30);
}

TEST(Qwen3, IdsOfARecordedConversation) {
  const auto data = folder_of("LAZYTRAIN_TEST_DATA");
  if (!data) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const auto folder = *data / "tokenizers" / "qwen3";
  const Tokenizer tokenizer = Tokenizer::load(folder);
  const std::vector<Message> conversation{{.role = Role::user, .content = "1+1?"},
                                          {.role = Role::assistant, .content = "2"},
                                          {.role = Role::user, .content = "2+2?"},
                                          {.role = Role::assistant, .content = "4"}};
  const Rendered rendered = choose_template(folder, {}, tokenizer).chat_template.render(conversation);
  // The recorded ids, without the line end behind the last turn.
  EXPECT_EQ(rendered.ids,
            (Ids{151644, 872, 198,    16,    10,     16,     30,  151645, 198, 151644, 77091,
                 198,    17,  151645, 198,   151644, 872,    198, 17,     10,  17,     30,
                 151645, 198, 151644, 77091, 198,    151667, 271, 151668, 271, 19,     151645}));
  Ids learned;
  for (std::size_t i = 0; i < rendered.ids.size(); ++i)
    if (rendered.supervised[i] != 0) learned.push_back(static_cast<std::int32_t>(i));
  EXPECT_EQ(learned, (Ids{12, 13, 27, 28, 29, 30, 31, 32}));
}

TEST(RegexClasses, AreThoseOfTheReferenceEngine) {
  const auto data = folder_of("LAZYTRAIN_TEST_DATA");
  if (!data) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const auto classes = read_json(*data / "goldens" / "tokenizer" / "onig_classes.json", ExitCode::data);
  for (const auto& [key, pattern] :
       {std::pair("L", R"(\p{L})"), std::pair("N", R"(\p{N})"), std::pair("S", R"(\s)")}) {
    std::vector<std::pair<char32_t, char32_t>> expected = classes.at(key).get<decltype(expected)>(), found;
    const Regex regex(pattern, "test");
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text, storage;
      append_utf8(text, c);
      std::vector<Regex::Part> parts;
      regex.split(with_stand_ins(text, storage), parts);
      if (*key == 'N') {
        EXPECT_EQ(is_numeric(c), parts[0].match) << static_cast<std::uint32_t>(c);
      }
      if (!parts[0].match) continue;
      if (!found.empty() && found.back().second + 1 == c) {
        found.back().second = c;
      } else {
        found.emplace_back(c, c);
      }
    }
    EXPECT_EQ(found, expected) << key;
  }
}

TEST(SmolLm2, RecordedTextsAndConversations) {
  const auto folder = folder_of("LAZYTRAIN_SMOLLM2");
  if (!folder) GTEST_SKIP() << "LAZYTRAIN_SMOLLM2 is not set";
  const Tokenizer tokenizer = Tokenizer::load(*folder);
  const auto golden = read_json(kTextData / "smollm2_cases.json", ExitCode::data);
  for (const auto& row : golden.at("tokenizer_cases")) {
    const auto ids = tokenizer.encode(row.at("text").get<std::string>());
    EXPECT_EQ(ids, row.at("ids").get<Ids>()) << row.at("text");
    EXPECT_EQ(tokenizer.decode(ids), row.at("decoded").get<std::string>());
  }
  EXPECT_EQ(tokenizer.encode(golden.at("paragraph").get<std::string>()), golden.at("ids").get<Ids>());
  EXPECT_EQ(tokenizer.decode(golden.at("greedy_40").get<Ids>()), golden.at("greedy_text").get<std::string>());

  const ChatTemplate chat = choose_template(*folder, {}, tokenizer).chat_template;
  EXPECT_EQ(chat.name(), "model");
  const std::vector<Message> question{{Role::user, "What is 12 + 7?"}};
  const Rendered prompt = chat.render(question, {.add_generation_prompt = true});
  EXPECT_EQ(prompt.ids, golden.at("chat_ids").get<Ids>());
  EXPECT_EQ(tokenizer.decode(prompt.ids), golden.at("chat_prompt").get<std::string>());
}

// The folder's own template and the one that is built in for it.
TEST(SmolLm2, TheFoldersTemplateGivesTheIdsOfTheBuiltInOne) {
  const auto folder = folder_of("LAZYTRAIN_SMOLLM2");
  if (!folder) GTEST_SKIP() << "LAZYTRAIN_SMOLLM2 is not set";
  const Tokenizer tokenizer = Tokenizer::load(*folder);
  const std::vector<std::vector<Message>> conversations{
      {{.role = Role::user, .content = "What is 12 + 7?"},
       {.role = Role::assistant, .content = "19\n#### 19"}},
      {{.role = Role::system, .content = "Be brief."},
       {.role = Role::user, .content = "Hi"},
       {.role = Role::assistant, .content = ""},
       {.role = Role::user, .content = "\n\n<|im_end|> \u00e9\n"},
       {.role = Role::assistant, .content = "\n\n<|im_start|>assistant\n  x "}},
  };
  for (const bool mask_history : {false, true}) {
    const TemplateSettings settings{.mask_history = mask_history, .enable_thinking = {}, .now = {}};
    const ChatTemplate own = choose_template(*folder, {}, tokenizer, settings).chat_template;
    const ChatTemplate built_in = ChatTemplate::named("smollm2", tokenizer, settings);
    EXPECT_EQ(own.stop_ids(), built_in.stop_ids());
    for (const auto& conversation : conversations) {
      const Rendered a = own.render(conversation), b = built_in.render(conversation);
      EXPECT_EQ(a.ids, b.ids);
      EXPECT_EQ(a.supervised, b.supervised);
      const auto question = std::span(conversation).first(conversation.size() - 1);
      EXPECT_EQ(own.render(question, {.add_generation_prompt = true}).ids,
                built_in.render(question, {.add_generation_prompt = true}).ids);
    }
  }
}

// Documents of recorded training steps: rendering what they decode to gives their ids and marks.
TEST(SmolLm2, RecordedTrainingDocuments) {
  const auto folder = folder_of("LAZYTRAIN_SMOLLM2");
  if (!folder) GTEST_SKIP() << "LAZYTRAIN_SMOLLM2 is not set";
  const Tokenizer tokenizer = Tokenizer::load(*folder);
  const ChatTemplate chat = ChatTemplate::named("smollm2", tokenizer);
  const auto golden = read_json(kTextData / "smollm2_cases.json", ExitCode::data);
  for (const auto& document : golden.at("documents")) {
    const Ids ids = document.at("ids").get<Ids>();
    const auto from = document.at("supervised_from").get<std::size_t>();
    const std::string text = tokenizer.decode(ids);
    const auto between = [&](const std::string& open) {
      const std::size_t begin = text.find(open) + open.size();
      return text.substr(begin, text.find("<|im_end|>", begin) - begin);
    };
    const std::vector<Message> conversation{{Role::user, between("<|im_start|>user\n")},
                                            {Role::assistant, between("<|im_start|>assistant\n")}};
    const Rendered rendered = chat.render(conversation);
    EXPECT_EQ(rendered.ids, ids);
    std::vector<std::uint8_t> supervised(ids.size(), 1);
    std::fill_n(supervised.begin(), from, std::uint8_t{0});
    EXPECT_EQ(rendered.supervised, supervised);
  }
}

// --gtest_also_run_disabled_tests: speed on one core, over the word problems.
TEST(Qwen3, DISABLED_Speed) {
  const auto data = folder_of("LAZYTRAIN_TEST_DATA");
  if (!data) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const Tokenizer tokenizer = Tokenizer::load(*data / "tokenizers" / "qwen3");
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  for (const auto& record : read_json(*data / "word_problems" / "train.json", ExitCode::data)) {
    texts.push_back(record.at("response").get<std::string>());
    bytes += texts.back().size();
  }
  const auto begin = std::chrono::steady_clock::now();
  std::size_t tokens = 0;
  for (int round = 0; round < 10; ++round)
    for (const std::string& text : texts) tokens += tokenizer.encode(text).size();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  std::cout << "encode: " << static_cast<double>(bytes) * 10 / elapsed.count() / 1e6 << " MB/s, "
            << static_cast<double>(tokens) / elapsed.count() / 1e6 << " million tokens/s\n";
}

}  // namespace
}  // namespace lazytrain::testing
