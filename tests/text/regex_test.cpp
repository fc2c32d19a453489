// Oniguruma's meaning on PCRE2.
#include "text/regex.h"

#include <gmock/gmock.h>

#include <string>

#include "small_tokenizer.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace lazytrain::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  std::string storage;
  std::vector<Regex::Part> parts;
  Regex(pattern, "tokenizer.json").split(with_stand_ins(text, storage), parts);
  std::vector<std::string> found;
  for (const auto& part : parts)
    if (part.match) found.push_back(text.substr(part.begin, part.end - part.begin));
  return found;
}

TEST(Regex, PartsCoverTheText) {
  std::vector<Regex::Part> parts;
  Regex("b+", "x").split("abbac", parts);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].end, 1u);
  EXPECT_TRUE(parts[1].match);
  EXPECT_EQ(parts[1].end, 3u);
  EXPECT_EQ(parts[2].end, 5u);
}

TEST(Regex, KnowsLettersYoungerThanItsEngine) {
  // U+1C89 (Lu), U+A7CD (Ll), U+105C0 (Lo) and U+10D40 (Nd) came with Unicode 16, U+323AF (Lo, Han) with 15.
  EXPECT_THAT(matches(R"(\p{L}+)", "a\u1C89\uA7CD\U000105C0\U000323AF1"),
              ElementsAre("a\u1C89\uA7CD\U000105C0\U000323AF"));
  EXPECT_THAT(matches(R"(\p{N}+)", "\U00010D401\U000105C0"), ElementsAre("\U00010D401"));
  EXPECT_THAT(matches(R"(\p{Lu})", "\u1C89\u1C8A"), ElementsAre("\u1C89"));
  EXPECT_THAT(matches(R"(\p{Han}+)", "\u3042\U000323AF\u4E2D\u3002"), ElementsAre("\U000323AF\u4E2D"));
  EXPECT_THAT(matches(R"(\s+)", "a\u180Eb\u3000\u0085c"), ElementsAre("\u3000\u0085"));
}

TEST(Regex, TranslatesRubySyntax) {
  EXPECT_THAT(matches(R"(\w+)", "e\u0301_\u00bd 1"), ElementsAre("e\u0301_", "1"));
  EXPECT_THAT(matches(R"(\h+)", "xbeefz"), ElementsAre("beef"));
  EXPECT_THAT(matches("[[:punct:]]+", "a+$b"), ElementsAre("+$"));
  EXPECT_THAT(matches("^b$", "a\nb\nc"), ElementsAre("b"));
  EXPECT_THAT(matches("(?m:a.)", "a\n"), ElementsAre("a\n"));
  EXPECT_THAT(matches("ab{,2}c", "ac abbc abbbc"), ElementsAre("ac", "abbc"));
  EXPECT_THAT(matches("(?i)AB", "aB"), ElementsAre("aB"));
}

TEST(Regex, RefusesWhatMeansSomethingElse) {
  const auto refusal = [](const char* pattern) {
    return error_of(ExitCode::model_file, [&] { Regex(pattern, "tokenizer.json"); });
  };
  EXPECT_THAT(refusal("[a&&b]"),
              HasSubstr("an intersection of character classes ('&&') at byte 2, which is not supported"));
  EXPECT_THAT(refusal("[a[bc]]"), HasSubstr("a nested character class"));
  EXPECT_THAT(refusal(R"(\Ka)"), HasSubstr(R"('\K')"));
  EXPECT_THAT(refusal("a(?i)b"), HasSubstr("the group '(?i)'"));
  EXPECT_THAT(refusal("a{1,2}+"), HasSubstr("'+' after an interval"));
  EXPECT_THAT(refusal(R"([\W])"), HasSubstr(R"('\W' inside a character class)"));
}

TEST(Regex, GivesUpInsteadOfHanging) {
  const Regex regex("(a*)*b|(a|a)*c", "tokenizer.json");
  std::vector<Regex::Part> parts;
  EXPECT_THAT(error_of(ExitCode::model_file, [&] { regex.split(std::string(5000, 'a'), parts); }),
              HasSubstr("gave up"));
}

TEST(Regex, LongTextsNeedNoStack) {
  const std::string text(1'000'000, 'a');
  std::vector<Regex::Part> parts;
  Regex("(?:a|b)+(?=c)|(?:aa|b)+?$|a", "tokenizer.json").split(text.substr(0, 1000), parts);
  EXPECT_FALSE(parts.empty());
  parts.clear();
  Regex(R"(\s+(?!\S)|\s+|\p{L}+)", "tokenizer.json").split(text, parts);
  EXPECT_EQ(parts.size(), 1u);
}

}  // namespace
}  // namespace lazytrain::testing
