// Every branch of the tokenizer against a reference, on tokenizers of our own.
#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/file.h"
#include "formats/json.h"
#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<std::int32_t>;

// reference_cases.json: see make_reference_cases.py.
TEST(Tokenizer, AgreesWithTheReferenceLibrary) {
  const auto cases = read_json(kTextData / "reference_cases.json", ExitCode::data);
  for (const auto& item : cases.at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    nlohmann::json document = cases.at("base");
    document.merge_patch(item.at("patch"));
    const Tokenizer tokenizer = tokenizer_of(document);
    const EncodeOptions options{.add_special_tokens = item.at("add_special_tokens").get<bool>(),
                                .parse_special = item.at("parse_special").get<bool>()};
    for (const auto& row : item.at("rows")) {
      const auto ids = tokenizer.encode(row.at("text").get<std::string>(), options);
      EXPECT_EQ(ids, row.at("ids").get<Ids>()) << row.at("text");
      EXPECT_EQ(tokenizer.decode(ids), row.at("decoded").get<std::string>()) << row.at("text");
      EXPECT_EQ(tokenizer.decode(ids, true), row.at("without_special").get<std::string>()) << row.at("text");
    }
  }
}

TEST(Tokenizer, MergesInTheOrderOfTheList) {
  const Tokenizer tokenizer = tokenizer_of(small_document());
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre(257));
  EXPECT_THAT(tokenizer.encode("xab abab"), ElementsAre('x', 256, 258, 256));
  EXPECT_THAT(tokenizer.encode("ac"), ElementsAre('a', 'c'));
}

TEST(Tokenizer, LongPiecesMergeAsShortOnesDo) {
  // With a a -> aa and aa aa -> aaaa, n times "a" is n/4 times aaaa and the rest, from the left.
  const Tokenizer tokenizer = tokenizer_of(small_document({{"a", "a"}, {"aa", "aa"}}));
  for (const std::size_t n :
       {std::size_t{7}, std::size_t{31}, std::size_t{32}, std::size_t{33}, std::size_t{4099}}) {
    Ids expected(n / 4, 257);
    if (n % 4 >= 2) expected.push_back(256);
    if (n % 2 == 1) expected.push_back('a');
    EXPECT_EQ(tokenizer.encode(std::string(n, 'a')), expected) << n;
  }
}

TEST(Tokenizer, RangesSayWhichBytesATokenCovers) {
  nlohmann::json document = small_document();
  document["added_tokens"].push_back(special_token("<s>", 300));
  const Tokenizer tokenizer = tokenizer_of(document);
  Ids ids;
  std::vector<ByteRange> ranges;
  tokenizer.encode("ab<s> abx", {}, ids, &ranges);
  EXPECT_THAT(ids, ElementsAre(256, 300, 258, 'x'));
  EXPECT_THAT(ranges, ElementsAre(ByteRange{0, 2}, ByteRange{2, 5}, ByteRange{5, 8}, ByteRange{8, 9}));
}

TEST(Tokenizer, RangesPointIntoTheTextBeforeNormalisation) {
  nlohmann::json document = small_document();
  document["normalizer"] = {{"type", "NFC"}};
  const Tokenizer tokenizer = tokenizer_of(document);
  Ids ids;
  std::vector<ByteRange> ranges;
  tokenizer.encode("be\u0301ab", {}, ids, &ranges);  // e and its accent: three bytes that become two
  EXPECT_THAT(ids, ElementsAre('b', 0xC3, 0xA9, 256));
  EXPECT_THAT(ranges, ElementsAre(ByteRange{0, 1}, ByteRange{1, 4}, ByteRange{1, 4}, ByteRange{4, 6}));
}

TEST(Tokenizer, RangesSkipThePrefixSpace) {
  nlohmann::json document = small_document();
  document["pre_tokenizer"]["add_prefix_space"] = true;
  const Tokenizer tokenizer = tokenizer_of(document);
  Ids ids;
  std::vector<ByteRange> ranges;
  tokenizer.encode("abx", {}, ids, &ranges);
  EXPECT_THAT(ids, ElementsAre(258, 'x'));
  EXPECT_THAT(ranges, ElementsAre(ByteRange{0, 2}, ByteRange{2, 3}));
  EXPECT_THAT(tokenizer.encode("abx", {.continues = true}), ElementsAre(256, 'x'));
}

TEST(Tokenizer, TakesWhatIsNotUtf8AsReplacementCharacters) {
  const Tokenizer tokenizer = tokenizer_of(small_document());
  Ids ids;
  std::vector<ByteRange> ranges;
  tokenizer.encode("a\xF0\x9F!", {}, ids, &ranges);
  EXPECT_THAT(ids, ElementsAre('a', 0xEF, 0xBF, 0xBD, '!'));
  EXPECT_EQ(ranges[1], (ByteRange{1, 3}));
  EXPECT_EQ(ranges[4], (ByteRange{3, 4}));
}

TEST(Tokenizer, LeavesOutBytesWithoutATokenUnlessThereIsAnUnknownToken) {
  nlohmann::json document = small_document();
  document["model"]["vocab"].erase("x");
  EXPECT_THAT(tokenizer_of(document).encode("axxb"), ElementsAre(256));  // a and b become neighbours
  EXPECT_THAT(tokenizer_of(document).encode("x"), IsEmpty());
  document["model"]["unk_token"] = "?";
  EXPECT_THAT(tokenizer_of(document).encode("axxb"), ElementsAre('a', '?', '?', 'b'));
  document["model"]["fuse_unk"] = true;
  EXPECT_THAT(tokenizer_of(document).encode("axxb"), ElementsAre('a', '?', 'b'));
}

TEST(Tokenizer, DecodesToValidUtf8AndIgnoresUnknownIds) {
  const Tokenizer tokenizer = tokenizer_of(small_document());
  EXPECT_EQ(tokenizer.decode(Ids{0xC3, 0xA9}), "\u00e9");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 0xC3}), "a\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{'a', 99999, -5, 'b'}), "ab");
  EXPECT_EQ(tokenizer.bytes(0xC3), "\xC3");
}

TEST(Tokenizer, KnowsItsTokens) {
  nlohmann::json document = small_document();
  document["added_tokens"].push_back(special_token("<end>", 400));
  const Tokenizer tokenizer = tokenizer_of(document);
  EXPECT_EQ(tokenizer.vocabulary_size(), 401);
  EXPECT_EQ(tokenizer.token_to_id("\u0120ab"), 258);  // the byte-level spelling of a space is U+0120
  EXPECT_EQ(tokenizer.id_to_token(258), "\u0120ab");
  EXPECT_EQ(tokenizer.token_to_id("nothing"), std::nullopt);
  EXPECT_EQ(tokenizer.id_to_token(300), std::nullopt);
  EXPECT_TRUE(tokenizer.is_special(400));
  EXPECT_FALSE(tokenizer.is_special(256));
  EXPECT_EQ(tokenizer.end_of_text(), std::nullopt);
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  const Tokenizer tokenizer = tokenizer_of(small_document());
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) result = tokenizer.encode("abc ab \u00e9 1234 xx");
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) EXPECT_EQ(result, results[0]);
}

class ModelFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("lazytrain-text-" + std::to_string(::getpid()) + "-" +
               ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    nlohmann::json document = small_document();
    document["added_tokens"] = {special_token("<s>", 300), special_token("</s>", 301),
                                special_token("<pad>", 302)};
    write("tokenizer.json", document);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const nlohmann::json& document) const {
    write_json(folder_ / name, document);
  }

  std::filesystem::path folder_;
};

TEST_F(ModelFolder, EndTokensComeFromAllThreeFiles) {
  write("tokenizer_config.json",
        {{"eos_token", {{"content", "</s>"}}}, {"bos_token", "<s>"}, {"pad_token", nullptr}});
  write("generation_config.json", {{"eos_token_id", {7, 301}}, {"pad_token_id", 302}});
  write("config.json", {{"eos_token_id", 9}, {"bos_token_id", 8}});
  const Tokenizer tokenizer = Tokenizer::load(folder_);
  EXPECT_EQ(tokenizer.end_of_text(), 301);
  EXPECT_THAT(tokenizer.stop_ids(), ElementsAre(7, 9, 301));
  EXPECT_EQ(tokenizer.begin_of_text(), 300);
  EXPECT_EQ(tokenizer.padding(), 302);
}

TEST_F(ModelFolder, ConfigAloneNamesTheEnd) {
  write("config.json", {{"text_config", {{"eos_token_id", 5}}}});
  const Tokenizer tokenizer = Tokenizer::load(folder_ / "tokenizer.json");
  EXPECT_EQ(tokenizer.end_of_text(), 5);
  EXPECT_THAT(tokenizer.stop_ids(), ElementsAre(5));
  EXPECT_EQ(tokenizer.padding(), std::nullopt);
}

TEST_F(ModelFolder, AMissingTokenizerIsNamed) {
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(error_of(ExitCode::model_file, [&] { Tokenizer::load(folder_); }),
              HasSubstr("tokenizer.json: not found"));
}

TEST(Tokenizers, SpecialTokensAreNotFoundInPlainRanges) {
  auto document = small_document();
  document["added_tokens"] = {special_token("<e>", 300)};
  const Tokenizer tokenizer = tokenizer_of(document);
  const auto encoded = [&](std::string_view text, std::vector<ByteRange> plain) {
    return tokenizer.encode(text, {.plain = plain});
  };
  EXPECT_EQ(encoded("a<e>b<e>", {}), (std::vector<std::int32_t>{'a', 300, 'b', 300}));
  EXPECT_EQ(encoded("a<e>b<e>", {{0, 4}}), (std::vector<std::int32_t>{'a', '<', 'e', '>', 'b', 300}));
  EXPECT_EQ(encoded("a<e>b<e>", {{7, 8}}), (std::vector<std::int32_t>{'a', 300, 'b', '<', 'e', '>'}));
  EXPECT_EQ(encoded("<e>", {{0, 0}, {3, 3}}), (std::vector<std::int32_t>{300}));
  EXPECT_EQ(encoded("\xff<e>", {{0, 1}}), tokenizer.encode("\xff<e>", {.parse_special = false}));
}

}  // namespace
}  // namespace lazytrain::testing
