// Tokenizers of every kind against vectors of the reference library: tests/data/text/tokenizer_vectors.json,
// which tools/make_tokenizer_vectors.py writes.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "formats/json.h"
#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

const json& vectors() {
  static const json document = read_json(kTextData / "tokenizer_vectors.json", ExitCode::data);
  return document;
}

json document_of(const json& item) {
  json document = vectors().at("tokenizers").at(item.at("tokenizer").get<std::string>());
  document.merge_patch(item.at("patch"));
  return document;
}

std::string text_of(const json& row) {
  const json& text = row.at(0);
  return (text.is_string() ? text : vectors().at("texts").at(text.get<std::size_t>())).get<std::string>();
}

TEST(TokenizerVectors, IdsAndTextsOfTheReferenceLibrary) {
  std::size_t cases = 0, texts = 0;
  for (const json& item : vectors().at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    const Tokenizer tokenizer = tokenizer_of(document_of(item));
    const EncodeOptions options{.add_special_tokens = true,
                                .parse_special = item.at("parse_special").get<bool>()};
    for (const json& row : item.at("rows")) {
      const std::string text = text_of(row);
      const Ids ids = tokenizer.encode(text, options);
      EXPECT_EQ(ids, row.at(1).get<Ids>()) << row.at(0);
      EXPECT_EQ(tokenizer.decode(row.at(1).get<Ids>()), row.at(2).get<std::string>()) << row.at(0);
      EXPECT_EQ(tokenizer.decode(row.at(1).get<Ids>(), true),
                row.at(row.at(3).is_null() ? 2 : 3).get<std::string>())
          << row.at(0);
      ++texts;
    }
    ++cases;
  }
  std::cout << "  " << cases << " tokenizers, " << texts << " texts\n";
  EXPECT_EQ(cases, 49);
}

// With ranges asked for, the ids are the same; ranges lie in the text, in order.
TEST(TokenizerVectors, RangesAreInOrderAndInsideOfTheText) {
  for (const json& item : vectors().at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    const Tokenizer tokenizer = tokenizer_of(document_of(item));
    const EncodeOptions options{.add_special_tokens = true,
                                .parse_special = item.at("parse_special").get<bool>()};
    for (const json& row : item.at("rows")) {
      const std::string text = text_of(row);
      Ids ids;
      std::vector<ByteRange> ranges;
      tokenizer.encode(text, options, ids, &ranges);
      ASSERT_EQ(ids, row.at(1).get<Ids>()) << row.at(0);
      ASSERT_EQ(ids.size(), ranges.size());
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        ASSERT_LE(ranges[i].begin, ranges[i].end) << row.at(0) << " token " << i;
        ASSERT_LE(ranges[i].end, text.size()) << row.at(0) << " token " << i;
        ASSERT_LE(i > 0 ? ranges[i - 1].begin : 0, ranges[i].begin) << row.at(0) << " token " << i;
      }
    }
  }
}

struct Encoded {
  Ids ids;
  std::vector<ByteRange> ranges;
};
Encoded encoded(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  Encoded result;
  tokenizer.encode(text, options, result.ids, &result.ranges);
  return result;
}

// A few letters with byte_fallback: _ stands for a space, which is prepended.
Tokenizer letters(const std::string& patch = "{}") {
  json document = json::parse(R"({
    "added_tokens": [{"content": "<s>", "id": 1, "special": true, "normalized": false},
                     {"content": "<n>", "id": 20, "special": true, "normalized": true}],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "merges": ["_ a", "_a b"],
      "vocab": {"<unk>": 0, "<s>": 1, "_": 2, "a": 3, "b": 4, "_a": 5, "_ab": 6, "<0xC3>": 7, "<0xA9>": 8,
                "<": 9, "n": 10, ">": 11, "s": 12}}})");
  document.merge_patch(json::parse(patch));
  return tokenizer_of(document);
}

TEST(ByteFallback, RangesSkipThePrependedSpaceAndNameTheBytes) {
  const Encoded result = encoded(letters(), "ab \u00e9 xx<s>a");
  EXPECT_EQ(result.ids, (Ids{6, 2, 7, 8, 2, 0, 1, 5}));
  EXPECT_EQ(result.ranges,
            (std::vector<ByteRange>{{0, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 8}, {8, 11}, {11, 12}}));
}

TEST(ByteFallback, ATextThatGoesOnHasNothingPrepended) {
  EXPECT_EQ(letters().encode("ab", {.continues = true}), (Ids{3, 4}));
  EXPECT_EQ(letters().encode(" ab", {.continues = true}), (Ids{6}));
  EXPECT_EQ(letters().encode("b<s>b", {.continues = true}), (Ids{4, 1, 2, 4}));
}

TEST(ByteFallback, BytesOfATokenAreThoseInsideOfAText) {
  EXPECT_EQ(letters().bytes(6), " ab");
  EXPECT_EQ(letters().bytes(7), "\xC3");
  EXPECT_EQ(letters().bytes(1), "<s>");
  EXPECT_EQ(letters().decode(Ids{5, 7, 3}), "a\uFFFDa");
}

TEST(ByteFallback, PlainRangesAreFoundBehindTheNormalizer) {
  // <n> is looked for in the normalised text, where it has a space before it.
  const std::vector<ByteRange> second{{8, 9}};
  EXPECT_EQ(letters().encode("a <n>a <n>"), (Ids{5, 20, 3, 20}));
  EXPECT_EQ(letters().encode("a <n>a <n>", {.plain = second}), (Ids{5, 20, 3, 2, 9, 10, 11}));
}

TEST(Metaspace, OnlyTheFirstTextHasASpaceWithTheSchemeFirst) {
  const char* scheme = R"({"normalizer": null,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": false}})";
  EXPECT_EQ(letters(scheme).encode("a<s>a"), (Ids{5, 1, 3}));
  EXPECT_EQ(letters(scheme).encode("a<s>a", {.first = false}), (Ids{3, 1, 3}));
  EXPECT_EQ(letters(scheme).encode("a", {.continues = true}), (Ids{3}));
  EXPECT_EQ(letters(scheme).encode("<s>a a"), (Ids{1, 3, 5}));
}

TEST(Unigram, RangesOfUnknownTextAreItsBytes) {
  json document = json::parse(R"({"pre_tokenizer": {"type": "Metaspace", "replacement": "_"},
    "decoder": {"type": "Metaspace", "replacement": "_"},
    "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["_", -2], ["a", -2], ["_a", -3], ["aa", -5]]}})");
  const Encoded unknown = encoded(tokenizer_of(document), "a xya aa");
  EXPECT_EQ(unknown.ids, (Ids{3, 1, 0, 2, 3, 2}));
  EXPECT_EQ(unknown.ranges, (std::vector<ByteRange>{{0, 1}, {1, 2}, {2, 4}, {4, 5}, {5, 7}, {7, 8}}));
}

// LAZYTRAIN_RANDOM_STRINGS names a file of lines [text, its NFC]; see tools/show/tokenizer.
TEST(RandomStrings, DecodeToThemselves) {
  const char* path = std::getenv("LAZYTRAIN_RANDOM_STRINGS");
  if (path == nullptr || *path == '\0') GTEST_SKIP() << "LAZYTRAIN_RANDOM_STRINGS is not set";
  json nfc = vectors().at("tokenizers").at("llama3");
  nfc["normalizer"] = {{"type", "NFC"}};
  json unigram = vectors().at("tokenizers").at("unigram");
  unigram["normalizer"] = {{"type", "NFC"}};
  unigram["model"]["byte_fallback"] = true;
  for (int byte = 0; byte < 256; ++byte)
    unigram["model"]["vocab"].push_back({fmt::format("<0x{:02X}>", byte), -20.0});
  unigram["decoder"] = {
      {"type", "Sequence"},
      {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Metaspace"}, {"replacement", "\u2581"}}}}};
  const Tokenizer of_bytes = tokenizer_of(nfc),
                  with_fallback = tokenizer_of(vectors().at("tokenizers").at("llama2")),
                  of_scores = tokenizer_of(unigram);
  std::ifstream lines(path);
  std::size_t strings = 0;
  std::array<std::size_t, 3> different{};
  for (std::string line; std::getline(lines, line); ++strings) {
    const json row = parse_json(line, path, ExitCode::data);
    const auto text = row.at(0).get<std::string>(), normal = row.at(1).get<std::string>();
    const auto without_frame = [&](const Tokenizer& tokenizer) {
      return tokenizer.decode(tokenizer.encode(text));
    };
    // Metaspace puts a space in front of what has none, and its decoder takes one away.
    const std::string without_space = normal.starts_with(' ') ? normal.substr(1) : normal;
    const std::array<bool, 3> same{without_frame(of_bytes) == normal, without_frame(with_fallback) == text,
                                   without_frame(of_scores) == without_space};
    for (std::size_t i = 0; i < same.size(); ++i) different[i] += same[i] ? 0 : 1;
    if (different[0] + different[1] + different[2] <= 3) {
      EXPECT_TRUE(same[0] && same[1] && same[2]) << row.at(0) << " " << same[0] << same[1] << same[2];
    }
  }
  std::cout << "  " << strings << " strings; decoded to something else: " << different[0]
            << " by bytes (NFC), " << different[1] << " by BPE with byte_fallback (as given), "
            << different[2] << " by Unigram with byte_fallback (NFC, less a space in front)\n";
  EXPECT_GT(strings, 0);
  EXPECT_EQ(different, (std::array<std::size_t, 3>{}));
}

}  // namespace
}  // namespace lazytrain::testing
