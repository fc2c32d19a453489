#include "data/tokenized_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "data/packing.h"
#include "data/support.h"
#include "formats/json.h"

namespace lazytrain {
namespace {

using test::byte_tokenizer;
using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// With bytes as tokens "chatml" writes [start]user\n + content + [end]\n + [start]assistant\n: 19 tokens of
// form before the response, and [end] after it.
class Tokenize : public testing::Test {
 protected:
  TokenizedDataset run(const std::string& content, const TokenizeOptions& options) {
    const DatasetSource source{
        .name = "t", .file = folder_.write("t.jsonl", content), .layout = {}, .num_samples = {}};
    return tokenize({source}, template_, options, pool_,
                    [this](Sample&& s) { kept_.push_back(std::move(s)); });
  }
  static std::string record(const std::string& query, const std::string& response) {
    return nlohmann::json{{"query", query}, {"response", response}}.dump() + "\n";
  }

  TemporaryFolder folder_;
  Tokenizer tokenizer_ = byte_tokenizer();
  ChatTemplate template_ = ChatTemplate::named("chatml", tokenizer_);
  ThreadPool pool_{2};
  std::vector<Sample> kept_;
};

TEST_F(Tokenize, MarksTheResponseAndItsEndOnly) {
  const TokenizedDataset data = run(record("2+2?", "4."), {});
  ASSERT_EQ(data.samples.size(), 1);
  EXPECT_EQ(show_sample(data.samples[0], tokenizer_, false),
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n[[4.<|im_end|>]]");
  EXPECT_EQ(show_sample(data.samples[0], tokenizer_, true),
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n\x1b[32m4.<|im_end|>\x1b[0m");
  EXPECT_EQ(data.samples.supervised_tokens(), 3);
  EXPECT_EQ(data.samples.tokens(), 6 + 4 + 2 + 11 + 3);
  EXPECT_THAT(kept_, SizeIs(1));
}

// The byte tokenizer knows no end of text, which "plain" needs; another template shows what text gets.
TEST_F(Tokenize, TextHasATemplateOfItsOwn) {
  const DatasetSource source{.name = "t",
                             .file = folder_.write("t.txt", "First.\n\nSecond\nparagraph.\n"),
                             .layout = {},
                             .num_samples = {}};
  const TokenizedDataset data = tokenize({source}, {template_, &template_}, {}, pool_);
  ASSERT_EQ(data.samples.size(), 2);
  EXPECT_EQ(show_sample(data.samples[1], tokenizer_, false),
            "<|im_start|>assistant\n[[Second\nparagraph.<|im_end|>]]");
  EXPECT_NE(data.samples.group(0), data.samples.group(1));
  EXPECT_THAT(error_of(ExitCode::data, [&] { (void)tokenize({source}, template_, {}, pool_); }),
              HasSubstr("2 samples do not suit the template: dropped; "));
}

TEST_F(Tokenize, TrainOnPromptMarksEverything) {
  const TokenizedDataset data = run(record("2+2?", "4."), {.train_on_prompt = true});
  EXPECT_EQ(data.samples.supervised_tokens(), data.samples.tokens());
}

TEST_F(Tokenize, AShownSampleCannotSteerTheTerminal) {
  const TokenizedDataset data = run(record("\x1b[2J", "4"), {});
  EXPECT_THAT(show_sample(data.samples[0], tokenizer_, false), HasSubstr("user\n?[2J<|im_end|>"));
}

TEST_F(Tokenize, LongSamplesAreDroppedAndCounted) {
  // The prompt has 23 tokens, [end] is one more.
  const std::string text = record("2+2?", std::string(12, 'a')) + record("2+2?", std::string(13, 'b')) +
                           record("2+2?", std::string(14, 'c'));
  const TokenizeOptions options{.cutoff_len = 37};
  const TokenizedDataset data = run(text, options);
  EXPECT_EQ(data.samples.size(), 2);
  EXPECT_EQ(data.overlong, 1);
  EXPECT_EQ(data.longest, 38);
  EXPECT_THAT(
      data.summary(options),
      HasSubstr(
          "\n1 samples are longer than cutoff_len 37 (the longest has 38 tokens): dropped\n2 samples, "));
  EXPECT_THAT(kept_, SizeIs(2));
}

TEST_F(Tokenize, OverlongErrorNamesTheSample) {
  const std::string text = record("2+2?", "4") + record("2+2?", std::string(99, 'c'));
  const TokenizeOptions options{.cutoff_len = 40, .overlong = Overlong::error};
  EXPECT_THAT(error_of(ExitCode::data, [&] { run(text, options); }),
              HasSubstr("t.jsonl:2: the sample has 123 tokens, cutoff_len allows 40: raise cutoff_len"));
}

TEST_F(Tokenize, TruncatedSamplesKeepTheLimit) {
  const TokenizedDataset data =
      run(record(std::string(100, 'q'), "12"), {.cutoff_len = 40, .overlong = Overlong::truncate});
  // The target "12[end]" stays whole, the source is cut to 37.
  EXPECT_EQ(show_sample(data.samples[0], tokenizer_, false),
            "<|im_start|>user\n" + std::string(31, 'q') + "[[12<|im_end|>]]");
}

TEST_F(Tokenize, NothingLeftIsAnErrorThatSaysWhy) {
  const std::string message =
      error_of(ExitCode::data, [&] { run(record("2+2?", std::string(50, 'a')), {.cutoff_len = 40}); });
  EXPECT_THAT(message,
              HasSubstr("nothing is left to train on: 1 samples are longer than cutoff_len 40 (the longest "
                        "has 74 tokens): dropped; raise cutoff_len"));
  error_of(ExitCode::usage, [&] { run(record("a", "b"), {.cutoff_len = 0}); });
  error_of(ExitCode::usage, [&] { run(record("a", "b"), {.max_samples = 0}); });
}

TEST_F(Tokenize, OrderAndFingerprintDoNotDependOnThreads) {
  std::string text;
  for (int i = 0; i < 10'000; ++i)
    text += record("question " + std::to_string(i), std::string(1 + i % 50, 'x'));
  const TokenizedDataset two = run(text, {});
  ThreadPool one(1);
  const TokenizedDataset single = tokenize(find_datasets("t.jsonl", folder_.path()), template_, {}, one);
  EXPECT_EQ(two.samples.size(), 10'000);
  EXPECT_EQ(two.samples.fingerprint(), single.samples.fingerprint());
  EXPECT_EQ(two.samples.line(9'999), 10'000);
  EXPECT_THAT(show_sample(two.samples[9'999], tokenizer_, false), HasSubstr("question 9999"));
  EXPECT_EQ(run(text, {.max_samples = 10}).samples.size(), 10);
}

TEST_F(Tokenize, QuestionsStayTogetherByTheirOriginal) {
  const std::string text = R"({"query": "a", "response": "1", "original_question": "o"}
{"query": "b", "response": "1", "original_question": "o"}
{"query": "c", "response": "1"}
{"query": "c", "response": "2"}
)";
  const TokenizedDataset data = run(text, {});
  EXPECT_EQ(data.samples.group(0), data.samples.group(1));
  EXPECT_EQ(data.samples.group(2), data.samples.group(3));
  EXPECT_NE(data.samples.group(0), data.samples.group(2));
}

TEST(Overlong, IsReadByName) {
  EXPECT_EQ(parse_overlong("drop"), Overlong::drop);
  EXPECT_EQ(parse_overlong("truncate"), Overlong::truncate);
  EXPECT_EQ(parse_overlong("error"), Overlong::error);
  EXPECT_THAT(error_of(ExitCode::usage, [] { (void)parse_overlong("cut"); }), HasSubstr("'cut'"));
}

// {source, target} of each turn that is left.
std::vector<std::pair<std::int64_t, std::int64_t>> turns_after(
    const std::vector<std::pair<std::int64_t, std::int64_t>>& turns, std::int64_t cutoff_len) {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;
  for (const auto& [source, target] : turns) {
    ids.insert(ids.end(), source + target, 1);
    supervised.insert(supervised.end(), source, 0);
    supervised.insert(supervised.end(), target, 1);
  }
  truncate(ids, supervised, cutoff_len);
  EXPECT_EQ(ids.size(), supervised.size());
  std::vector<std::pair<std::int64_t, std::int64_t>> left;
  for (std::size_t i = 0; i < supervised.size(); ++i) {
    if (i == 0 || (supervised[i] == 0 && supervised[i - 1] == 1)) left.push_back({0, 0});
    ++(supervised[i] == 0 ? left.back().first : left.back().second);
  }
  return left;
}

TEST(Truncate, SharesTheRoomAsLlamaFactoryDoes) {
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_THAT(turns_after({{100, 100}}, 64), ElementsAre(Pair{32, 32}));
  EXPECT_THAT(turns_after({{100, 10}}, 64), ElementsAre(Pair{54, 10}));
  EXPECT_THAT(turns_after({{10, 100}}, 64), ElementsAre(Pair{10, 54}));
  EXPECT_THAT(turns_after({{10, 20}}, 64), ElementsAre(Pair{10, 20}));
  // The second turn has the 34 tokens that the first one left: 2 * 30 >= 34, 2 * 40 >= 34, so 34 * 30 / 70
  // = 14.
  EXPECT_THAT(turns_after({{10, 20}, {40, 30}}, 64), ElementsAre(Pair{10, 20}, Pair{20, 14}));
  EXPECT_THAT(turns_after({{32, 32}, {40, 30}}, 64), ElementsAre(Pair{32, 32}));
}

// The 120 documents of the reference run, made with the model's own tokenizer and chat template by another
// program.
TEST(WordProblems, TokensAndMarksEqualTheReferenceRun) {
  const char* shared = std::getenv("LAZYTRAIN_TEST_DATA");
  const char* model = std::getenv("LAZYTRAIN_SMOLLM2");
  if (shared == nullptr || model == nullptr) {
    GTEST_SKIP() << "needs LAZYTRAIN_TEST_DATA and the imported model's folder in LAZYTRAIN_SMOLLM2";
  }
  const std::filesystem::path folder(shared);
  const nlohmann::json reference = read_json(folder / "goldens/smollm2-135m/train20.json", ExitCode::data);
  const Tokenizer tokenizer = Tokenizer::load(model);
  const ChatTemplate chat_template = ChatTemplate::named("smollm2", tokenizer);
  ThreadPool pool(2);
  const auto sources = find_datasets((folder / "word_problems/train.json").string(), ".");
  const TokenizedDataset data =
      tokenize(sources, chat_template, {.cutoff_len = 512, .max_samples = 6000}, pool);

  std::vector<std::vector<std::int32_t>> known;
  for (std::int64_t i = 0; i < data.samples.size(); ++i) {
    known.push_back(data.samples[i].ids);
  }
  std::int64_t documents = 0;
  for (const auto& step : reference.at("documents")) {
    for (const auto& document : step) {
      const auto ids = document.at("ids").get<std::vector<std::int32_t>>();
      const auto found = std::find(known.begin(), known.end(), ids);
      ASSERT_NE(found, known.end()) << show_sample({ids, std::vector<std::uint8_t>(ids.size())}, tokenizer,
                                                   false);
      const auto flags = data.samples[found - known.begin()].supervised;
      const auto from = document.at("supervised_from").get<std::int64_t>();
      for (std::int64_t t = 0; t < static_cast<std::int64_t>(ids.size()); ++t) {
        ASSERT_EQ(flags[t], t >= from ? 1 : 0) << t;
      }
      ++documents;
    }
  }
  EXPECT_EQ(documents, 120);
  std::vector<std::int64_t> all(static_cast<std::size_t>(data.samples.size()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  EXPECT_GT(BatchStream(data.samples, all, {.slot_tokens = 512}).fill(0), 0.95);
}

}  // namespace
}  // namespace lazytrain
