// Embedding rows in and out on the host stream.
#include "runtime/host_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/bfloat16.h"
#include "core/random.h"
#include "device/cpu/kernels.h"
#include "runtime/batch_arrays.h"

namespace lazytrain {
namespace {

using testing::ElementsAre;

TEST(FindDistinct, NumbersTheTokensThatOccurInAscendingOrder) {
  const std::array<std::int32_t, 6> tokens{7, 2, 7, 0, 2, 9};
  std::array<std::int32_t, 6> distinct{}, rows{};
  EXPECT_EQ(find_distinct(tokens, std::nullopt, distinct.data(), rows.data()), 4);
  EXPECT_THAT(distinct, ElementsAre(0, 2, 7, 9, -1, -1));
  EXPECT_THAT(rows, ElementsAre(2, 1, 2, 0, 1, 3));
}

TEST(FindDistinct, LeavesThePaddingTokenOut) {
  const std::array<std::int32_t, 5> tokens{0, 3, 0, 3, 1};
  std::array<std::int32_t, 5> distinct{}, rows{};
  EXPECT_EQ(find_distinct(tokens, 3, distinct.data(), rows.data()), 2);
  EXPECT_THAT(distinct, ElementsAre(0, 1, -1, -1, -1));
  EXPECT_THAT(rows, ElementsAre(0, -1, 0, -1, 1));
  const std::array<std::int32_t, 2> only{3, 3};
  EXPECT_EQ(find_distinct(only, 3, distinct.data(), rows.data()), 0);
}

TEST(ScatterEmbeddingGradient, AddsRowsInTokenOrderAndLeavesOutWhatHasNoRow) {
  ThreadPool pool(2);
  // In another order the large ones would swallow the 1.
  const std::array<float, 8> gradient{1e8F, 2, 10, 20, -1e8F, 200, 1, 4};
  const std::array<std::int32_t, 4> rows{1, -1, 1, 1};
  std::vector<float> sums(4, 0.5F);
  scatter_embedding_gradient(pool, DataType::f32, 2, gradient.data(), rows, sums.data());
  EXPECT_THAT(sums, ElementsAre(0.5F, 0.5F, 1.0F, 206.5F));
}

// As if every row had an fp32 accumulator that is rounded once all is in it.
TEST(FinishEmbeddingGradient, RoundsTheRowsOfTheStepAndSumsTheSquaresOfAll) {
  constexpr std::int64_t kVocab = 700, kWidth = 101, kElements = kVocab * kWidth;
  static_assert(kElements > kNormChunk && kElements % kNormChunk % 8 != 0);
  const std::vector<std::int32_t> tokens{3, 10, 655, 699};
  Random random(5);
  std::vector<float> whole(kElements);
  for (float& value : whole) value = static_cast<float>(random.uniform() - 0.5);
  std::vector<bfloat16> gradient(kElements), expected(kElements);
  std::vector<float> sums;
  for (std::int64_t i = 0; i < kElements; ++i)
    expected[static_cast<std::size_t>(i)] = gradient[static_cast<std::size_t>(i)] =
        to_bfloat16(whole[static_cast<std::size_t>(i)]);
  for (const std::int32_t token : tokens)
    for (std::int64_t c = 0; c < kWidth; ++c) {
      const auto i = static_cast<std::size_t>(token * kWidth + c);
      sums.push_back(whole[i] + static_cast<float>(random.uniform()));
      expected[i] = to_bfloat16(sums.back());
    }
  // As they are summed where a gradient leaves the device.
  std::vector<float> rounded;
  for (const bfloat16 value : expected) rounded.push_back(to_float(value));
  std::vector<double> squares(static_cast<std::size_t>(norm_chunks(kElements)));
  std::vector<bfloat16> copy(kElements);
  ThreadPool one(1);
  cpu::run(one, OffloadGradient{DataType::bf16, kElements, rounded.data(), copy.data(), squares.data()});
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<bfloat16> found = gradient;
    std::vector<double> partial(squares.size());
    finish_embedding_gradient(pool, {.type = DataType::bf16,
                                     .width = kWidth,
                                     .elements = kElements,
                                     .tokens = tokens,
                                     .sums = sums.data(),
                                     .gradient = found.data(),
                                     .partial = partial.data()});
    EXPECT_EQ(found, expected);
    EXPECT_EQ(partial, squares);
    std::fill(partial.begin(), partial.end(), -1.0);
    sum_squares(pool, DataType::bf16, kElements, expected.data(), partial.data());
    EXPECT_EQ(partial, squares);
  }
}

}  // namespace
}  // namespace lazytrain
