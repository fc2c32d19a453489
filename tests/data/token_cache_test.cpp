// The cache of tokens: taken only where everything that decides them is the same and every byte is as it was
// written.
#include "data/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "core/file.h"
#include "data/support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using test::byte_tokenizer;
using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kRecords = R"({"query": "1+1?", "response": "2"}
{"query": "2+2?", "response": "4"}
{"query": "no answer"}
{"query": "3+3?", "response": "6, and some more that is too long for the slot"}
{"query": "4+4?", "response": "8"}
)";

class Cached : public testing::Test {
 protected:
  Cached() { file_ = folder_.write("t.jsonl", kRecords); }

  TokenizedDataset run() {
    notices_.clear();
    return tokenize_cached(cache_, {source()}, template_, options_, pool_,
                           [this](const std::string& line) { notices_.push_back(line); });
  }
  [[nodiscard]] DatasetSource source() const {
    return {.name = "t", .file = file_, .layout = {}, .num_samples = num_samples_, .entry = entry_};
  }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(cache_.folder, none)) found.push_back(entry.path());
    return found;
  }
  [[nodiscard]] bool hit() const {
    return notices_.size() == 1 && notices_[0].find("tokenised already") != std::string::npos;
  }
  // The next run must not take the file of the ones before.
  void expect_made_anew(const std::string& what) {
    run();
    EXPECT_THAT(notices_, IsEmpty()) << what;
    run();
    EXPECT_TRUE(hit()) << what;
  }

  TemporaryFolder folder_;
  fs::path file_;
  std::optional<std::int64_t> num_samples_;
  std::string entry_;
  TokenCache cache_{.folder = folder_.path() / "cache" / "tokens", .overwrite = false, .tokenizer = 7};
  TokenizeOptions options_{.cutoff_len = 40};
  Tokenizer tokenizer_ = byte_tokenizer();
  ChatTemplate template_ = ChatTemplate::named("chatml", tokenizer_);
  ThreadPool pool_{2};
  std::vector<std::string> notices_;
};

TEST_F(Cached, TheSecondRunFindsTheSameDataset) {
  const TokenizedDataset first = run();
  EXPECT_THAT(notices_, IsEmpty());
  EXPECT_THAT(files(), SizeIs(1));
  const TokenizedDataset second = run();
  EXPECT_TRUE(hit());
  const TokenizedDataset memory = tokenize({source()}, template_, options_, pool_);
  for (const TokenizedDataset* data : {&first, &second}) {
    ASSERT_EQ(data->samples.size(), 3);
    EXPECT_EQ(data->summary(options_), memory.summary(options_));
    EXPECT_EQ(data->begins, memory.begins);
    EXPECT_EQ(data->samples.largest_id(), 258);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(data->samples[i].ids, memory.samples[i].ids);
      EXPECT_EQ(data->samples[i].supervised, memory.samples[i].supervised);
      EXPECT_EQ(data->samples.group(i), memory.samples.group(i));
      EXPECT_EQ(data->samples.line(i), memory.samples.line(i));
      EXPECT_EQ(data->samples.length(i), memory.samples.length(i));
    }
  }
}

TEST_F(Cached, WhateverDecidesTheTokensIsPartOfTheKey) {
  run();
  options_.cutoff_len = 41;
  expect_made_anew("cutoff_len");
  options_.overlong = Overlong::truncate;
  expect_made_anew("overlong");
  options_.train_on_prompt = true;
  expect_made_anew("train_on_prompt");
  options_.max_samples = 2;
  expect_made_anew("max_samples");
  options_.on_bad_sample = OnBadSample::skip;
  expect_made_anew("on_bad_sample");
  num_samples_ = 1;
  expect_made_anew("num_samples");
  entry_ = "{}";
  expect_made_anew("columns and tags");
  template_ = ChatTemplate::named("smollm2", tokenizer_);
  expect_made_anew("template");
  cache_.tokenizer = 8;
  expect_made_anew("tokenizer");
}

TEST_F(Cached, AnotherContentOfTheSameSizeAndTimeIsSeen) {
  run();
  const auto time = fs::last_write_time(file_);
  std::string other = kRecords;
  other[other.find('1')] = '5';
  folder_.write("t.jsonl", other);
  fs::last_write_time(file_, time);
  const TokenizedDataset data = run();
  EXPECT_THAT(notices_, IsEmpty());
  EXPECT_THAT(show_sample(data.samples[0], tokenizer_, false), HasSubstr("5+1?"));
}

TEST_F(Cached, OverwriteCacheTokenisesAgain) {
  run();
  const auto before = fs::last_write_time(files().at(0));
  cache_.overwrite = true;
  run();
  EXPECT_THAT(notices_, IsEmpty());
  EXPECT_GT(fs::last_write_time(files().at(0)), before);
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(Cached, EveryDamagedByteAndEveryCutIsFoundAndMadeGood) {
  const std::uint64_t fingerprint = run().samples.fingerprint();
  const fs::path path = files().at(0);
  const std::string whole = read_file(path);
  const auto expect_found = [&](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(run().samples.fingerprint(), fingerprint);
    EXPECT_THAT(notices_, ElementsAre(HasSubstr("is damaged")));
  };
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    expect_found(flipped);
    if (HasFailure()) FAIL() << at;
  }
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    expect_found(whole.substr(0, length));
    if (HasFailure()) FAIL() << length;
  }
  expect_found(whole + whole);
}

TEST_F(Cached, WithoutAFolderToWriteToTheTokensStayInMemory) {
  cache_.folder = file_ / "tokens";  // below a file
  const TokenizedDataset data = run();
  EXPECT_EQ(data.samples.size(), 3);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("the tokens are not cached, and stay in memory: ")));
}

TEST_F(Cached, ADiskThatFillsUpWhileItIsWrittenLeavesTheTokensInMemoryAndNoFile) {
  std::string text;
  for (int i = 0; i < 20'000; ++i)
    text += R"({"query": ")" + std::to_string(i) +
            R"(", "response": "a response of some length, in letters"})" + "\n";
  file_ = folder_.write("large.jsonl", text);
  options_.cutoff_len = 200;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit low{.rlim_cur = 1 << 20, .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &low);
  const TokenizedDataset data = run();
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(data.samples.size(), 20'000);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("stay in memory: ")));
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_EQ(run().samples.fingerprint(), data.samples.fingerprint());
  EXPECT_THAT(files(), SizeIs(1));
}

TEST_F(Cached, BadDataLeavesNoFile) {
  file_ = folder_.write("bad.jsonl", "{\"query\": \"1\", \"response\": \"2\"}\n{\n");
  EXPECT_THAT(error_of(ExitCode::data, [&] { run(); }), HasSubstr("bad.jsonl:2:"));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(Cached, WhatAKilledRunLeftIsRemoved) {
  fs::create_directories(cache_.folder);
  const fs::path left = cache_.folder / "0123456789abcdef.tokens.tmp-999999999";
  const fs::path living = cache_.folder / ("0123456789abcdef.tokens.tmp-" + std::to_string(getppid()));
  for (const fs::path& path : {left, living}) {
    std::ofstream(path) << "half";
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::minutes(5));
  }
  run();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(living));
}

TEST(EncodedSample, KeepsIdsThatNeedTwoBytesAndFour) {
  for (const std::int32_t id : {0, 65'535, 65'536, 151'935}) {
    TokenizedSamples samples;
    samples.add(std::vector<std::int32_t>{1, id, 2, 3}, std::vector<std::uint8_t>{1, 0, 0, 1}, 9, 4);
    samples.add(std::vector<std::int32_t>{}, std::vector<std::uint8_t>{}, 10, 5);
    EXPECT_THAT(samples[0].ids, ElementsAre(1, id, 2, 3));
    EXPECT_THAT(samples[0].supervised, ElementsAre(1, 0, 0, 1));
    EXPECT_THAT(samples[1].ids, IsEmpty());
    EXPECT_EQ(samples.group(0), 9u);
    EXPECT_EQ(samples.line(1), 5);
    EXPECT_EQ(samples.largest_id(), std::max(id, 3));
    EXPECT_EQ(samples.supervised_tokens(), 2);
  }
}

}  // namespace
}  // namespace lazytrain
