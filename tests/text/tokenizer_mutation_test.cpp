// Damaged tokenizer files either load or end in an Error: no crash, no hang, no absurd allocation.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "core/random.h"
#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

// A file with every kind of component, and short, so that damage hits its structure.
std::string whole_file() {
  nlohmann::json document = small_document();
  auto& vocab = document["model"]["vocab"];
  for (int byte = 128; byte < 256; ++byte) {  // keep the file small: ASCII only
    const char c = static_cast<char>(byte);
    vocab.erase(spelling_of_bytes({&c, 1}));
  }
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  document["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern",
          {{"Regex", R"((?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|\s+(?!\S)|[[:punct:]]+|\s*[\r\n]+)"}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "Digits"}, {"individual_digits", true}},
        {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}}}}};
  nlohmann::json word = special_token("w\u00e9", 301);
  word.update({{"normalized", true}, {"lstrip", true}, {"rstrip", true}, {"single_word", true}});
  document["added_tokens"] = {special_token("<s>", 300), word};
  document["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
      {"special_tokens", {{"<s>", {{"ids", {300}}}}}}};
  document["model"].update(
      {{"unk_token", "?"}, {"fuse_unk", true}, {"ignore_merges", false}, {"dropout", nullptr}});
  return document.dump();
}

std::string damaged(const std::string& file, Random& random) {
  static constexpr std::array<std::string_view, 24> kTokens{
      "null",       "true",       "-1",        "1e999", "99999999999999999999",
      "2147483647", "4294967295", "\"\"",      "[]",    "{}",
      "[[",         "(",          ")",         "(?<=",  "\\\\p{",
      "{1,65535}",  "*",          "+",         "(a*)*", "\\u0000",
      "\\ud800",    "Sequence",   "ByteLevel", "\xFF"};
  std::string result = file;
  const std::uint64_t edits = 1 + random.below(4);
  for (std::uint64_t i = 0; i < edits && !result.empty(); ++i) {
    const std::size_t at = random.below(result.size());
    switch (random.below(6)) {
      case 0:
        result[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        result.erase(at, 1 + random.below(20));
        break;
      case 2:
        result.insert(at, kTokens[random.below(kTokens.size())]);
        break;
      case 3:
        result.insert(at, result.substr(random.below(result.size()), random.below(60)));
        break;
      case 4: {  // put something else in the place of a value
        const std::size_t colon = result.find(':', at);
        const std::size_t end = colon == std::string::npos ? colon : result.find_first_of(",}]", colon);
        if (end != std::string::npos)
          result.replace(colon + 1, end - colon - 1, kTokens[random.below(kTokens.size())]);
        break;
      }
      default: {  // swap two letters or digits, so that the file stays JSON
        const std::size_t other = random.below(result.size());
        const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
        if (plain(result[at]) && plain(result[other])) std::swap(result[at], result[other]);
        break;
      }
    }
  }
  return result;
}

TEST(TokenizerMutation, FiveThousandDamagedFilesLoadOrAreRefused) {
  const std::string file = whole_file();
  const std::string text =
      "It's 1234 ab  abc\n\n <s> w\u00e9 e\u0301 \u4e2d (ab) \xFF" + std::string(40, 'a');
  Random random(20, 3);
  int loaded = 0, refused = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5000; ++i) {
    try {
      const Tokenizer tokenizer = Tokenizer::parse(damaged(file, random), "tokenizer.json");
      ++loaded;
      std::vector<std::int32_t> ids;
      std::vector<ByteRange> ranges;
      tokenizer.encode(text, {.add_special_tokens = true}, ids, &ranges);
      ASSERT_EQ(ids.size(), ranges.size());
      for (const ByteRange& range : ranges) {
        ASSERT_LE(range.begin, range.end);
        ASSERT_LE(range.end, text.size());
      }
      (void)tokenizer.decode(ids);
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()), "");
    }
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(elapsed.count(), 300.0);
  EXPECT_GT(loaded, 200);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace lazytrain::testing
