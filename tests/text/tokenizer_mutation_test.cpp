// Damaged tokenizer files either load or end in an Error: no crash, no hang, no absurd allocation.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <iostream>
#include <string>

#include "core/random.h"
#include "formats/json.h"
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
  static constexpr std::array<std::string_view, 30> kTokens{
      "null",       "true",       "-1",        "1e999",  "99999999999999999999",
      "2147483647", "4294967295", "\"\"",      "[]",     "{}",
      "[[",         "(",          ")",         "(?<=",   "\\\\p{",
      "{1,65535}",  "*",          "+",         "(a*)*",  "\\u0000",
      "\\ud800",    "Sequence",   "ByteLevel", "\xFF",   "Metaspace",
      "Unigram",    "first",      "Replace",   "\u2581", "<0xE2>"};
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

// BPE with byte_fallback, or Unigram, and the normalizers and decoders that go with them.
std::string file_of_letters(bool unigram) {
  using nlohmann::json;
  json document = json::parse(R"({
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Nmt"}, {"type": "NFKC"}, {"type": "StripAccents"},
      {"type": "Lowercase"}, {"type": "Strip", "strip_left": true, "strip_right": false},
      {"type": "Replace", "pattern": {"Regex": " {2,}|x*?"}, "content": " "}, {"type": "Prepend", "prepend": "_"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "_"}]},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true}]},
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1},
      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"}]}})");
  json word = special_token("<w>", 12);
  word.update({{"normalized", true}, {"lstrip", true}});
  document["added_tokens"] = {special_token("<s>", 1), word};
  const std::array<const char*, 12> tokens{"<unk>", "<s>", "_", "a",  "b",      "c",
                                           "ab",    "_ab", "1", "_1", "<0xE2>", "<0x94>"};
  json vocab = unigram ? json::array() : json::object();
  for (int id = 0; id < std::ssize(tokens); ++id) {
    const char* token = tokens[static_cast<std::size_t>(id)];
    if (unigram) {
      vocab.push_back({token, -0.5 * id});
    } else {
      vocab[token] = id;
    }
  }
  document["model"] = {{"type", unigram ? "Unigram" : "BPE"}, {"byte_fallback", true}, {"vocab", vocab}};
  if (unigram) {
    document["model"]["unk_id"] = 0;
  } else {
    document["model"].update({{"unk_token", "<unk>"}, {"fuse_unk", true}, {"ignore_merges", true}});
    document["model"]["merges"] = {"a b", "_ ab", "_ 1"};
  }
  return document.dump();
}

void expect_robust(const std::string& file, std::uint64_t seed, int files) {
  const std::string text =
      "It's 1234 ab  abc\n\n <s> w\u00e9 e\u0301 \u4e2d (ab) <w> \u2500\xFF" + std::string(40, 'a');
  Random random(seed, 3);
  int loaded = 0, refused = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < files; ++i) {
    try {
      const Tokenizer tokenizer = Tokenizer::parse(damaged(file, random), "tokenizer.json");
      ++loaded;
      std::vector<std::int32_t> ids;
      std::vector<ByteRange> ranges;
      const std::vector<ByteRange> plain{{3, 9}, {20, 24}};
      tokenizer.encode(text, {.add_special_tokens = true, .plain = plain}, ids, &ranges);
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
  std::cout << "  " << loaded << " loaded, " << refused << " refused\n";
  EXPECT_GT(loaded, files / 25);
  EXPECT_GT(refused, files / 4);
}

TEST(TokenizerMutation, FiveThousandDamagedFilesLoadOrAreRefused) {
  expect_robust(whole_file(), 20, 5000);
}

TEST(TokenizerMutation, DamagedFilesWithByteFallbackLoadOrAreRefused) {
  (void)Tokenizer::parse(file_of_letters(false), "tokenizer.json");  // whole, it loads
  expect_robust(file_of_letters(false), 21, 5000);
}

TEST(TokenizerMutation, DamagedTablesOfReplacementsLoadOrAreRefused) {
  const auto vectors = read_json(kTextData / "tokenizer_vectors.json", ExitCode::data);
  nlohmann::json document = nlohmann::json::parse(file_of_letters(true));
  for (const auto& item : vectors.at("cases"))
    if (item.at("name") == "Unigram, Precompiled") document["normalizer"] = item.at("patch").at("normalizer");
  auto& table = document.at("normalizer").at("precompiled_charsmap").get_ref<std::string&>();
  const std::string whole = table;
  const std::string text =
      "\ufb01ne cafe\u0301 \u0001\uff76\uff9e \u00bdA\u030a\t\u3000" + std::string("\0x\n", 3);
  Random random(23, 3);
  int loaded = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    table = whole;
    for (std::uint64_t edits = 1 + random.below(30); edits > 0; --edits)
      table[random.below(table.size())] = static_cast<char>('A' + random.below(26));
    try {
      const Tokenizer tokenizer = tokenizer_of(document);
      ++loaded;
      std::vector<std::int32_t> ids;
      std::vector<ByteRange> ranges;
      tokenizer.encode(text, {}, ids, &ranges);
      ASSERT_EQ(ids.size(), ranges.size());
      for (const ByteRange& range : ranges) ASSERT_LE(range.end, text.size());
    } catch (const Error&) {
      ++refused;
    }
  }
  std::cout << "  " << loaded << " loaded, " << refused << " refused\n";
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 10);
}

TEST(TokenizerMutation, DamagedUnigramFilesLoadOrAreRefused) {
  (void)Tokenizer::parse(file_of_letters(true), "tokenizer.json");
  expect_robust(file_of_letters(true), 22, 5000);
}

}  // namespace
}  // namespace lazytrain::testing
