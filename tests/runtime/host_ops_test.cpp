// Embedding rows in and out on the host stream.
#include "runtime/host_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace lazytrain {
namespace {

TEST(ScatterEmbeddingGradient, AddsRowsInTokenOrderAndLeavesThePaddingTokenOut) {
  ThreadPool pool(2);
  const std::array<float, 6> gradient{1, 2, 10, 20, 100, 200};
  const std::array<std::int32_t, 3> tokens{2, 1, 2};
  const auto scattered = [&](std::optional<std::int32_t> padding) {
    std::vector<float> sums(6, 0.5F);
    scatter_embedding_gradient(pool, DataType::f32, 2, gradient.data(), tokens, padding, sums.data());
    return sums;
  };
  EXPECT_THAT(scattered(std::nullopt), testing::ElementsAre(0.5F, 0.5F, 10.5F, 20.5F, 101.5F, 202.5F));
  EXPECT_THAT(scattered(2), testing::ElementsAre(0.5F, 0.5F, 10.5F, 20.5F, 0.5F, 0.5F));
}

}  // namespace
}  // namespace lazytrain
