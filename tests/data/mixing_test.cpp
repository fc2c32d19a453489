#include "data/mixing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/support.h"

namespace lazytrain {
namespace {

using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;
using Numbers = std::vector<std::int64_t>;

Numbers range(std::int64_t begin, std::int64_t end) {
  Numbers numbers;
  for (std::int64_t i = begin; i < end; ++i) numbers.push_back(i);
  return numbers;
}

std::int64_t below(const Numbers& numbers, std::int64_t limit) {
  return std::count_if(numbers.begin(), numbers.end(), [&](std::int64_t i) { return i < limit; });
}

TEST(Mixing, ConcatHasEverySampleOnceInOrder) {
  EXPECT_THAT(mix({{0, 1}, {2}, {3, 4}}, MixStrategy::concat, {}, 1), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Mixing, WithoutSharesDatasetsTakeTurns) {
  EXPECT_THAT(mix({{0, 1, 2}, {10, 11}}, MixStrategy::interleave_under, {}, 1), ElementsAre(0, 10, 1, 11));
  EXPECT_THAT(mix({{0, 1, 2}, {10, 11}}, MixStrategy::interleave_over, {}, 1),
              ElementsAre(0, 10, 1, 11, 2, 10));
  EXPECT_THAT(mix({{0}, {10, 11}}, MixStrategy::interleave_under, {}, 1), ElementsAre(0, 10));
}

TEST(Mixing, UnderEndsWithTheFirstDatasetThatIsUsedUp) {
  const Numbers mixed =
      mix({range(0, 10'000), range(10'000, 20'000)}, MixStrategy::interleave_under, {0.7, 0.3}, 5);
  EXPECT_EQ(below(mixed, 10'000), 10'000);
  EXPECT_EQ(mixed.back(), 9'999);
  // 10,000 of 70 %: 14,286 of all, give or take a few standard deviations of 78.
  EXPECT_NEAR(static_cast<double>(mixed.size()), 14'286, 350);
  Numbers sorted = mixed;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());  // none twice
}

TEST(Mixing, OverEndsWithTheLastAndRepeatsTheOthersFromTheirBeginning) {
  const Numbers mixed =
      mix({range(0, 1'000), range(10'000, 10'100)}, MixStrategy::interleave_over, {1, 1}, 5);
  EXPECT_EQ(mixed.back(), 999);
  Numbers small;
  for (const std::int64_t i : mixed) {
    if (i >= 10'000) small.push_back(i);
  }
  EXPECT_GT(small.size(), 800u);
  for (std::size_t i = 0; i < small.size(); ++i)
    ASSERT_EQ(small[i], 10'000 + static_cast<std::int64_t>(i % 100));
}

TEST(Mixing, SharesNeedNotSumToOne) {
  const std::vector<Numbers> parts{range(0, 500), range(1000, 1500)};
  EXPECT_EQ(mix(parts, MixStrategy::interleave_under, {3, 1}, 9),
            mix(parts, MixStrategy::interleave_under, {0.75, 0.25}, 9));
}

TEST(Mixing, TheSeedAloneDecides) {
  const std::vector<Numbers> parts{range(0, 500), range(1000, 1500)};
  const auto with = [&](std::uint64_t seed) {
    return mix(parts, MixStrategy::interleave_over, {0.5, 0.5}, seed);
  };
  EXPECT_EQ(with(1), with(1));
  EXPECT_NE(with(1), with(2));
}

TEST(Mixing, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(error_of(ExitCode::usage, [] { (void)parse_mix_strategy("mix"); }), HasSubstr("'mix'"));
  const auto probs = [](std::vector<std::string> texts, MixStrategy strategy) {
    return error_of(ExitCode::usage, [&] { (void)parse_interleave_probs(texts, strategy, 2); });
  };
  EXPECT_THAT(probs({"0.5"}, MixStrategy::interleave_under), HasSubstr("1 numbers for 2 datasets"));
  EXPECT_THAT(probs({"0.5", "0"}, MixStrategy::interleave_under), HasSubstr("'0' is no number above 0"));
  EXPECT_THAT(probs({"0.5", "half"}, MixStrategy::interleave_over), HasSubstr("'half'"));
  EXPECT_THAT(probs({"0.5", "nan"}, MixStrategy::interleave_over), HasSubstr("'nan'"));
  EXPECT_THAT(probs({"0.5", "0.5"}, MixStrategy::concat), HasSubstr("interleave_under or"));
  EXPECT_THAT(error_of(ExitCode::data,
                       [] {
                         (void)mix({{1}, {}}, MixStrategy::interleave_over, {}, 1);
                       }),
              HasSubstr("dataset 2 of 2 has no samples"));
  EXPECT_THAT(error_of(ExitCode::usage,
                       [] {
                         (void)mix({{1}, range(2, 1000)}, MixStrategy::interleave_over, {1e6, 1}, 1);
                       }),
              HasSubstr("more than 100000000 samples"));
}

}  // namespace
}  // namespace lazytrain
