#include "data/answer.h"

#include <gtest/gtest.h>

namespace lazytrain {
namespace {

std::string answer(std::string_view text) {
  return extract_answer(text).value_or("none");
}

TEST(Answer, IsWhatFollowsTheLastMarker) {
  EXPECT_EQ(answer("10 + 7 = 17.\n#### 17\nThe answer is: 17"), "17");
  EXPECT_EQ(answer("The answer is: 3\nNo, wait.\nThe answer is: 4\nBye 5"), "4");
  EXPECT_EQ(answer("#### 5 ... #### 1,000"), "1000");
  EXPECT_EQ(answer("So \\boxed{7} and then \\boxed{\\frac{3}{6}}."), "1/2");
  EXPECT_EQ(answer("She has 3 and gets 12 more"), "12");
}

TEST(Answer, MarkersWithNothingBehindThemAreIgnored) {
  EXPECT_EQ(answer("5 + 6 = 11\n#### 11\nThe answer is:"), "11");
  EXPECT_EQ(answer("It is \\boxed{8"), "8");
  EXPECT_EQ(answer("The answer is:\n\n42\n43"), "42");
}

TEST(Answer, NumbersLoseTheirDress) {
  EXPECT_EQ(answer("The answer is: $1,234.50."), "1234.5");
  EXPECT_EQ(answer("The answer is: 72 clips, altogether"), "72");
  EXPECT_EQ(answer("72 clips, altogether."), "72");
  EXPECT_EQ(answer("The answer is: 1,234,567"), "1234567");
  EXPECT_EQ(answer("The answer is: 29.00"), "29");
  EXPECT_EQ(answer("#### 8,000"), "8000");
  EXPECT_EQ(answer("The answer is: -7"), "-7");
  EXPECT_EQ(answer("The answer is: \xE2\x88\x92"
                   "7"),
            "-7");
  EXPECT_EQ(answer("The answer is: -$5"), "-5");
  EXPECT_EQ(answer("The answer is: 50%"), "50");
  EXPECT_EQ(answer("The answer is: **18**"), "18");
  EXPECT_EQ(answer("The answer is: about 72 clips"), "72");
  EXPECT_EQ(answer("The answer is: 007"), "7");
  EXPECT_EQ(answer("The answer is: .50"), "0.5");
  EXPECT_EQ(answer("The answer is: -0.0"), "0");
  EXPECT_EQ(answer("x=5"), "5");
  EXPECT_EQ(answer("The answer is: x=5"), "5");
  EXPECT_EQ(answer("The answer is: $x = 5$."), "5");
  EXPECT_EQ(answer("The answer is: 12 - 5 = 7"), "7");
  EXPECT_EQ(answer("take 10-3"), "3");
}

TEST(Answer, FractionsAreInLowestTerms) {
  EXPECT_EQ(answer("The answer is: $\\frac{1}{2}$"), "1/2");
  EXPECT_EQ(answer("The answer is: -\\dfrac{10}{4}"), "-5/2");
  EXPECT_EQ(answer("The answer is: \\frac12"), "1/2");
  EXPECT_EQ(answer("The answer is: 1 1/2"), "3/2");
  EXPECT_EQ(answer("The answer is: 8/4"), "2");
}

TEST(Answer, WhatIsNoNumberStaysText) {
  EXPECT_EQ(answer("The answer is: Monday."), "Monday");
  EXPECT_EQ(answer("The answer is: $2x + 3$"), "2x+3");
  EXPECT_EQ(answer("The answer is: (1, 2)"), "(1,2)");
  EXPECT_EQ(answer("The answer is: 1, 2, 3"), "1,2,3");
  EXPECT_EQ(answer("The answer is: 3\\sqrt{2}"), "3\\sqrt{2}");
  EXPECT_EQ(answer("The answer is: 1/0"), "1/0");
}

TEST(Answer, MayBeAbsent) {
  EXPECT_FALSE(extract_answer(""));
  EXPECT_FALSE(extract_answer("I do not know."));
  EXPECT_FALSE(extract_answer("The answer is: ..."));
  EXPECT_FALSE(extract_answer("The answer is: $"));
}

TEST(Answer, EqualityIsExactOnNumbersAndLiteralOnText) {
  EXPECT_TRUE(equal_answers("3/4", "0.75"));
  EXPECT_TRUE(equal_answers("29.00", "29"));
  EXPECT_TRUE(equal_answers("1/3", "2/6"));
  EXPECT_FALSE(equal_answers("1/3", "0.3333333333"));
  EXPECT_FALSE(equal_answers("-7", "7"));
  EXPECT_TRUE(equal_answers("Monday", "Monday"));
  EXPECT_FALSE(equal_answers("Monday", "Tuesday"));
  EXPECT_FALSE(equal_answers("1/0", "2/0"));
  const std::string huge(60, '9');
  EXPECT_TRUE(equal_answers(huge, huge));
  EXPECT_FALSE(equal_answers(huge, huge.substr(1) + "8"));
}

TEST(Answer, LongTextTakesLinearTime) {
  const std::string digits(2'000'000, '1');
  EXPECT_EQ(answer(digits), digits);
  std::string frames;
  for (int i = 0; i < 100'000; ++i) frames += "\\boxed{-$";
  EXPECT_FALSE(extract_answer(frames));
  EXPECT_EQ(answer(frames + "1"), "-1");
}

}  // namespace
}  // namespace lazytrain
