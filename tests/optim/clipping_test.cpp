#include "optim/clipping.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace lazytrain {
namespace {

TEST(Clipping, FactorIsOneBelowTheLimit) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

TEST(Clipping, FactorAboveTheLimit) {
  EXPECT_DOUBLE_EQ(clip_factor(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_DOUBLE_EQ(clip_factor(6.0, 3.0), 3.0 / 6.000001);
}

TEST(Clipping, ZeroTurnsItOff) {
  EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);
}

TEST(Clipping, NormOfPartials) {
  constexpr std::array<double, 3> kPartials{9.0, 16.0, 144.0};
  EXPECT_EQ(gradient_norm(sum_of_squares(kPartials)), 13.0);
  EXPECT_EQ(gradient_norm(sum_of_squares(std::span(kPartials).subspan(2),
                                         sum_of_squares(std::span(kPartials).first(2)))),
            13.0);
}

TEST(Clipping, NonFiniteGradientsShowInTheNorm) {
  const std::array<double, 2> with_nan{1.0, std::numeric_limits<double>::quiet_NaN()};
  const std::array<double, 2> with_infinity{std::numeric_limits<double>::infinity(), 1.0};
  EXPECT_FALSE(std::isfinite(gradient_norm(sum_of_squares(with_nan))));
  EXPECT_FALSE(std::isfinite(gradient_norm(sum_of_squares(with_infinity))));
}

}  // namespace
}  // namespace lazytrain
