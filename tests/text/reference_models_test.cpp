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
#include "text/regex.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::testing {
namespace {

using Ids = std::vector<std::int32_t>;

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
  EXPECT_EQ(detect_template(*data / "tokenizers" / "qwen3").name, "chatml");
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

  const ChatTemplate chat = ChatTemplate::named(detect_template(*folder).name, tokenizer);
  EXPECT_EQ(chat.name(), "smollm2");
  const std::vector<Message> question{{Role::user, "What is 12 + 7?"}};
  const Rendered prompt = chat.render(question, {.add_generation_prompt = true});
  EXPECT_EQ(prompt.ids, golden.at("chat_ids").get<Ids>());
  EXPECT_EQ(tokenizer.decode(prompt.ids), golden.at("chat_prompt").get<std::string>());
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
