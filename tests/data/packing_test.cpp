#include "data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {
namespace {

using testing::ElementsAre;
using Numbers = std::vector<std::int64_t>;

// Sample i holds the ids 100 i, 100 i + 1, ...; all but the first id are supervised.
TokenizedSamples samples_of(const Numbers& lengths) {
  TokenizedSamples samples;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(lengths[i]));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(100 * i));
    std::vector<std::uint8_t> supervised(ids.size(), 1);
    if (!supervised.empty()) supervised[0] = 0;
    samples.add(ids, supervised, i, static_cast<std::int64_t>(i) + 1);
  }
  return samples;
}

Numbers all(const TokenizedSamples& samples) {
  Numbers used(static_cast<std::size_t>(samples.size()));
  std::iota(used.begin(), used.end(), 0);
  return used;
}

// Lengths like those of word problems: 80 tokens on average, 40 to 160.
TokenizedSamples word_problems(std::int64_t count) {
  Random random(7);
  Numbers lengths;
  for (std::int64_t i = 0; i < count; ++i) {
    lengths.push_back(40 + static_cast<std::int64_t>(random.below(41) + random.below(41) + random.below(41)));
  }
  return samples_of(lengths);
}

TEST(Packing, FillsASlotWithTheLongestAndThePairThatLeavesLeast) {
  // 7 leaves no room for two more, and of all pairs 5 + 3 fills the slot; then 7, then 2.
  const auto samples = samples_of({3, 5, 2, 7});
  const EpochSlots epoch = pack_epoch(samples, all(samples), {.slot_tokens = 8, .shuffle = false}, 0);
  EXPECT_THAT(epoch.order, ElementsAre(0, 1, 3, 2));
  EXPECT_THAT(epoch.begin, ElementsAre(0, 2, 3, 4));
}

TEST(Packing, TakesLongSamplesWhileTwoMoreFit) {
  // Of 20: 9 leaves 11 >= 2 * 3, so it goes first; then 8 would leave 3 < 6, so the pair: 8 + 3 = 11 fills
  // the slot. Then 6 (leaves 14), 5 + 4 = 9.
  const auto samples = samples_of({9, 8, 6, 5, 4, 3});
  const EpochSlots epoch = pack_epoch(samples, all(samples), {.slot_tokens = 20, .shuffle = false}, 0);
  EXPECT_THAT(epoch.order, ElementsAre(0, 1, 5, 2, 3, 4));
  EXPECT_THAT(epoch.begin, ElementsAre(0, 3, 6));
}

TEST(Packing, EqualLengthsPairUp) {
  const auto samples = samples_of({4, 4, 4});
  const EpochSlots epoch = pack_epoch(samples, all(samples), {.slot_tokens = 8, .shuffle = false}, 0);
  EXPECT_THAT(epoch.order, ElementsAre(0, 1, 2));
  EXPECT_THAT(epoch.begin, ElementsAre(0, 2, 3));
}

TEST(Packing, WithoutItASlotHoldsOneSample) {
  const auto samples = samples_of({3, 5, 2, 7});
  const EpochSlots epoch =
      pack_epoch(samples, {1, 3}, {.slot_tokens = 8, .packing = false, .shuffle = false}, 0);
  EXPECT_THAT(epoch.order, ElementsAre(1, 3));
  EXPECT_THAT(epoch.begin, ElementsAre(0, 1, 2));
}

TEST(Packing, ArraysRestartInEachDocumentAndPaddingTouchesNothing) {
  const auto samples = samples_of({3, 2});
  BatchStream stream(samples, {0, 1}, {.slot_tokens = 6, .slots_per_step = 2, .shuffle = false});
  const PackedBatch batch = stream.next();
  EXPECT_EQ(batch.slots, 2);
  EXPECT_THAT(batch.tokens, ElementsAre(0, 1, 2, 100, 101, 0, /* slot 1 */ 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.targets, ElementsAre(1, 2, -1, 101, -1, -1, /* slot 1 */ -1, -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.positions, ElementsAre(0, 1, 2, 0, 1, 0, /* slot 1 */ 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.document_start, ElementsAre(0, 0, 0, 3, 3, 5, /* slot 1 */ 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(batch.supervised, 3);
  EXPECT_EQ(batch.real_tokens, 5);
  EXPECT_EQ(batch.documents, 2);
}

TEST(Packing, TheFirstSupervisedIdOfADocumentHasNothingBeforeIt) {
  TokenizedSamples samples;
  samples.add(std::vector<std::int32_t>{5, 6, 7}, std::vector<std::uint8_t>{1, 0, 1});
  BatchStream stream(samples, {0}, {.slot_tokens = 3});
  EXPECT_THAT(stream.next().targets, ElementsAre(-1, 7, -1));
}

TEST(Packing, TenSamplesInStepsOfEightAreTwoStepsAnEpochAndNothingIsDropped) {
  const auto samples = samples_of(Numbers(10, 4));
  BatchStream stream(samples, all(samples), {.slot_tokens = 4, .slots_per_step = 8});
  EXPECT_EQ(stream.steps(0), 2);
  EXPECT_EQ(stream.next().documents, 8);
  EXPECT_EQ(stream.cursor(), (BatchCursor{0, 8}));
  const PackedBatch last = stream.next();
  EXPECT_EQ(last.documents, 2);
  EXPECT_EQ(last.slots, 8);
  EXPECT_EQ(stream.cursor(), (BatchCursor{1, 0}));
  EXPECT_EQ(stream.total_steps(3.0), 6);
  EXPECT_EQ(stream.total_steps(0.25), 1);
  EXPECT_EQ(stream.total_steps(1.5), 3);
}

TEST(Packing, EveryEpochVisitsEachSampleOnceInAnOrderOfItsOwn) {
  const auto samples = word_problems(2000);
  const PackingOptions options{.slot_tokens = 512};
  std::vector<Numbers> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const EpochSlots packed = pack_epoch(samples, all(samples), options, epoch);
    EXPECT_EQ(std::set(packed.order.begin(), packed.order.end()).size(), 2000u);
    EXPECT_EQ(packed.order.size(), 2000u);
    for (std::int64_t s = 0; s < packed.slots(); ++s) {
      std::int64_t tokens = 0;
      for (auto i = packed.begin[s]; i < packed.begin[s + 1]; ++i) tokens += samples.length(packed.order[i]);
      EXPECT_LE(tokens, 512);
      EXPECT_GT(tokens, 0);
    }
    orders.push_back(packed.order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
  EXPECT_EQ(orders[0], pack_epoch(samples, all(samples), options, 0).order);
  PackingOptions other = options;
  other.seed = 43;
  EXPECT_NE(orders[0], pack_epoch(samples, all(samples), other, 0).order);
}

TEST(Packing, FillsSlotsOf512WithWordProblemsToNinetyFivePercent) {
  const auto samples = word_problems(1200);
  EXPECT_GT(BatchStream(samples, all(samples), {.slot_tokens = 512}).fill(0), 0.95);
}

TEST(Packing, ResumesAtTheSameSampleFromTwoNumbers) {
  const auto samples = word_problems(300);
  const PackingOptions options{.slot_tokens = 512, .slots_per_step = 7};
  BatchStream whole(samples, all(samples), options);
  for (int step = 0; step < 30; ++step) {
    const BatchCursor cursor = whole.cursor();
    BatchStream resumed(samples, all(samples), options);
    resumed.seek(cursor);
    EXPECT_EQ(resumed.next().tokens, whole.next().tokens) << step;
    EXPECT_EQ(resumed.cursor(), whole.cursor());
  }
  EXPECT_GT(whole.cursor().epoch, 1);
}

TEST(Packing, LongerThanASlotOrNoSamplesIsRefused) {
  const auto samples = samples_of({3, 9});
  EXPECT_THROW(BatchStream(samples, {0, 1}, {.slot_tokens = 8}), Error);
  EXPECT_THROW(BatchStream(samples, {}, {.slot_tokens = 8}), Error);
  EXPECT_THROW(BatchStream(samples, {0}, {.slot_tokens = 8, .slots_per_step = std::int64_t{1} << 60}), Error);
  EXPECT_THROW(BatchStream(samples, {0}, {.slot_tokens = 0}), Error);
  BatchStream stream(samples, {0}, {.slot_tokens = 8});
  EXPECT_THROW(stream.seek({.epoch = 0, .slot = 1}), Error);
  EXPECT_THROW(stream.seek({.epoch = -1, .slot = 0}), Error);
  EXPECT_THROW((void)stream.total_steps(-1), Error);
}

TEST(Packing, FourHundredThousandSamplesTakeAMoment) {
  TokenizedSamples samples;
  const std::vector<std::int32_t> ids(200, 1);
  const std::vector<std::uint8_t> supervised(200, 1);
  Random random(3);
  for (int i = 0; i < 400'000; ++i) {
    const auto length = 1 + random.below(200);
    samples.add(std::span(ids).first(length), std::span(supervised).first(length));
  }
  const auto begin = std::chrono::steady_clock::now();
  const EpochSlots epoch = pack_epoch(samples, all(samples), {.slot_tokens = 1024}, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(static_cast<double>(samples.tokens()) / static_cast<double>(epoch.slots() * 1024), 0.98);
  RecordProperty("seconds", std::to_string(took.count()));
}

TEST(Split, KeepsQuestionsTogetherAndDependsOnTheSeedOnly) {
  TokenizedSamples samples;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    samples.add(std::vector<std::int32_t>{1, 2}, std::vector<std::uint8_t>{0, 1},
                i / 4);  // questions of four
  }
  const DataSplit split = split_by_group(samples, 0.1, 42);
  EXPECT_EQ(split.validation.size(), 100u);
  EXPECT_EQ(split.train.size(), 900u);
  std::set<std::uint64_t> questions;
  for (const auto i : split.validation) questions.insert(samples.group(i));
  EXPECT_EQ(questions.size(), 25u);
  for (const auto i : split.train) EXPECT_EQ(questions.count(samples.group(i)), 0u);
  EXPECT_EQ(split_by_group(samples, 0.1, 42).validation, split.validation);
  EXPECT_NE(split_by_group(samples, 0.1, 43).validation, split.validation);
  EXPECT_EQ(split_by_group(samples, 10, 42).validation.size(), 8u);  // whole questions only
  EXPECT_TRUE(split_by_group(samples, 0, 42).validation.empty());
}

TEST(Split, RefusesSizesThatLeaveASideEmpty) {
  const auto samples = samples_of({1, 2, 3});
  EXPECT_THROW((void)split_by_group(samples, 3, 1), Error);
  EXPECT_THROW((void)split_by_group(samples, 1e300, 1), Error);
  EXPECT_THROW((void)split_by_group(samples, -1, 1), Error);
  EXPECT_THROW((void)split_by_group(samples, 1.5, 1), Error);
  EXPECT_THROW((void)split_by_group(samples, 0.01, 1), Error);
  EXPECT_THROW((void)split_by_group(samples, std::nan(""), 1), Error);
}

TEST(TokenizedSamples, FingerprintSeesEveryIdFlagAndBorder) {
  const auto one = [](std::vector<std::int32_t> ids, std::vector<std::uint8_t> flags) {
    TokenizedSamples samples;
    samples.add(ids, flags);
    return samples.fingerprint();
  };
  EXPECT_EQ(one({1, 2}, {0, 1}), one({1, 2}, {0, 1}));
  EXPECT_NE(one({1, 2}, {0, 1}), one({1, 3}, {0, 1}));
  EXPECT_NE(one({1, 2}, {0, 1}), one({1, 2}, {1, 1}));
  TokenizedSamples two;
  two.add(std::vector<std::int32_t>{1}, std::vector<std::uint8_t>{0});
  two.add(std::vector<std::int32_t>{2}, std::vector<std::uint8_t>{1});
  EXPECT_NE(two.fingerprint(), one({1, 2}, {0, 1}));
}

}  // namespace
}  // namespace lazytrain
