#include "text/unicode.h"
#include "text/normal_form.h"

#include <gtest/gtest.h>

#include <string>

#include "text/byte_level.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

TEST(Utf8, ReplacesMaximalIllFormedParts) {
  // Unicode 16, table 3-11: what is left of a cut sequence is one replacement, a stray byte another.
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), "\uFFFD\uFFFD\uFFFD\uFFFD\x41");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xF5"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\u00e9\u4e2d\U0001F600"), "\u00e9\u4e2d\U0001F600");
}

TEST(Nfc, ComposesAndOrders) {
  EXPECT_EQ(to_nfc("cafe\u0301", nullptr), "caf\u00e9");
  EXPECT_EQ(to_nfc("\u1112\u1161\u11ab", nullptr), "\ud55c");               // Hangul
  EXPECT_EQ(to_nfc("\u212b \u2126", nullptr), "\u00c5 \u03a9");             // singletons
  EXPECT_EQ(to_nfc("o\u0302\u0323", nullptr), "\u1ed9");                    // marks out of order
  EXPECT_EQ(to_nfc("\u0958", nullptr), "\u0915\u093c");                     // never composed
  EXPECT_EQ(to_nfc("\u09c7\u09be", nullptr), "\u09cb");                     // a mark of class 0
  EXPECT_EQ(to_nfc("caf\u00e9 \ufb01 \u4e2d\x00", nullptr), std::nullopt);  // already NFC
}

TEST(Nfc, IsThatOfUnicode9) {
  // U+10F4B (class 220, Unicode 11) would be ordered before U+0301 (class 230) if it were known.
  EXPECT_EQ(to_nfc("a\u0315\U00010F4B", nullptr), std::nullopt);
  EXPECT_EQ(to_nfc("\U00011935\U00011930", nullptr), std::nullopt);  // composes since Unicode 13
  EXPECT_EQ(to_nfc("e\u0301\U00010F4Be\u0301", nullptr), "\u00e9\U00010F4B\u00e9");
}

TEST(Nfc, MapsBackToTheSource) {
  OriginMap origin;
  ASSERT_EQ(to_nfc("ae\u0301b", &origin), "a\u00e9b");
  EXPECT_EQ(origin.source({0, 1}), (ByteRange{0, 1}));
  EXPECT_EQ(origin.source({1, 3}), (ByteRange{1, 4}));
  EXPECT_EQ(origin.source({3, 4}), (ByteRange{4, 5}));
}

TEST(Nfc, LongRunsOfMarksAreSortedInLinearTime) {
  std::string text = "e", sorted = "e";
  for (int i = 0; i < 200'000; ++i) text += "\u0301\u0323";  // class 230, class 220
  const auto result = to_nfc(text, nullptr);
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->starts_with("\u1eb9\u0323\u0323"));
  EXPECT_TRUE(result->ends_with("\u0301\u0301"));
}

TEST(Classes, FollowUnicode16) {
  EXPECT_TRUE(is_numeric('7'));
  EXPECT_TRUE(is_numeric(0xBD));     // one half
  EXPECT_TRUE(is_numeric(0x2163));   // Roman four
  EXPECT_TRUE(is_numeric(0x10D40));  // a digit of Unicode 16
  EXPECT_FALSE(is_numeric('a'));
  EXPECT_TRUE(is_white_space(0x3000));
  EXPECT_FALSE(is_white_space(0x180E));
  EXPECT_TRUE(is_word(0x0301));
  EXPECT_TRUE(is_word('_'));
  EXPECT_FALSE(is_word('-'));
}

TEST(StandIns, KeepOffsets) {
  std::string storage;
  const std::string old = "a\u4e2d\U0001F600";
  EXPECT_EQ(with_stand_ins(old, storage).data(), old.data());
  const std::string young = "a\u1C89b\U00010D40";
  const std::string_view seen = with_stand_ins(young, storage);
  EXPECT_EQ(seen, "a\u1E00b\U000104A0");
}

TEST(ByteLevel, SpellsEveryByteOnce) {
  EXPECT_EQ(spelling_of_bytes(" \n!\xAD\x00"), "\u0120\u010a!\u0143");
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_EQ(bytes_of_spelling(spelling_of_bytes(bytes)), bytes);
  }
  EXPECT_EQ(bytes_of_spelling("a b"), std::nullopt);
  EXPECT_EQ(bytes_of_spelling("\u4e2d"), std::nullopt);
}

}  // namespace
}  // namespace lazytrain
