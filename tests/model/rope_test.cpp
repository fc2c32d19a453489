// Rotary tables against fp64 formulas and hand-computed values.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "model/model_support.h"

namespace lazytrain {
namespace {

RopeConfig standard(double theta) {
  RopeConfig rope;
  rope.theta = theta;
  return rope;
}

TEST(Rope, StandardFrequenciesAreThePowersOfTheta) {
  const auto f = inverse_frequencies(standard(10000.0), 8);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_EQ(f[0], 1.0F);
  EXPECT_FLOAT_EQ(f[1], 0.1F);
  EXPECT_FLOAT_EQ(f[2], 0.01F);
  EXPECT_FLOAT_EQ(f[3], 0.001F);
}

TEST(Rope, StandardFrequenciesMatchFp64) {
  for (const double theta : {10000.0, 100000.0, 500000.0, 1e7}) {
    const auto f = inverse_frequencies(standard(theta), 128);
    for (int i = 0; i < 64; ++i) {
      const double exact = std::pow(theta, -2.0 * i / 128);
      EXPECT_NEAR(f[static_cast<std::size_t>(i)] / exact, 1.0, 1e-6) << theta << " " << i;
    }
  }
}

// Llama-3.2: factor 32, low 1, high 4, original 8192. Wavelengths below 2048 stay, above 8192 are divided
// by 32.
TEST(Rope, Llama3ScalingInItsThreeRanges) {
  const RopeConfig rope = read_architecture(golden_folder("llama3-rope")).rope;
  const auto f = inverse_frequencies(rope, 64);
  int kept = 0, blended = 0, divided = 0;
  for (int i = 0; i < 32; ++i) {
    const double plain = std::pow(500000.0, -2.0 * i / 64);
    const double wavelength = 2 * std::numbers::pi / plain;
    double exact = plain;
    if (wavelength > 8192.0) {
      exact = plain / 32;
      ++divided;
    } else if (wavelength >= 2048.0) {
      const double t = (8192.0 / wavelength - 1.0) / 3.0;
      exact = (1 - t) * plain / 32 + t * plain;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(f[static_cast<std::size_t>(i)] / exact, 1.0, 2e-6) << i;
  }
  EXPECT_EQ(kept, 15);
  EXPECT_EQ(blended, 3);
  EXPECT_EQ(divided, 14);
}

TEST(Rope, TablesHoldCosineAndSineOfTheRoundedAngle) {
  const RopeConfig rope = standard(100000.0);
  constexpr std::int64_t positions = 20001;
  std::vector<float> cosine(positions * 8), sine(positions * 8);
  fill_rope_tables(rope, 16, positions, cosine, sine);
  const auto f = inverse_frequencies(rope, 16);
  for (const std::int64_t position : {0, 1, 777, 20000}) {
    for (std::size_t i = 0; i < 8; ++i) {
      const float angle = static_cast<float>(position) * f[i];
      const std::size_t at = static_cast<std::size_t>(position) * 8 + i;
      EXPECT_NEAR(cosine[at], std::cos(static_cast<double>(angle)), 6e-8);
      EXPECT_NEAR(sine[at], std::sin(static_cast<double>(angle)), 6e-8);
    }
  }
  EXPECT_EQ(cosine[0], 1.0F);
  EXPECT_EQ(sine[0], 0.0F);
  // cos and sin of 1 radian: position 1, first frequency.
  EXPECT_FLOAT_EQ(cosine[8], 0.54030231F);
  EXPECT_FLOAT_EQ(sine[8], 0.84147098F);
}

}  // namespace
}  // namespace lazytrain
