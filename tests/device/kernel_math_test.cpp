// exp, exp2, log and the fused multiply-add against the standard library.
#include "device/kernels/math.h"

#include <bit>
#include <limits>

#include "device/kernel_support.h"

namespace lazytrain::test {
namespace {

using Lanes = kernels::ArrayLanes<float>;

// Distance from the exact value in units of the last place of the nearest float.
double ulps(float actual, double exact) {
  const float nearest = static_cast<float>(exact);
  const double unit = static_cast<double>(std::nextafter(std::abs(nearest), INFINITY)) - std::abs(nearest);
  return std::abs(actual - exact) / unit;
}

// The largest error over `values`, sixteen at a time.
template <typename Kernel>
double worst_error(const std::vector<float>& values, Kernel kernel, double (*exact)(double)) {
  double worst = 0;
  for (std::size_t i = 0; i + Lanes::kLanes <= values.size(); i += Lanes::kLanes) {
    const Lanes result = kernel(Lanes::load(&values[i]));
    for (std::size_t l = 0; l < Lanes::kLanes; ++l)
      worst = std::max(worst, ulps(result.v[l], exact(values[i + l])));
  }
  return worst;
}

TEST(KernelMath, ExponentialsAreWithinTwoUlp) {
  std::vector<float> values;
  for (int i = -870000; i <= 880000; ++i) values.push_back(static_cast<float>(i) * 1e-4f);
  EXPECT_LT(worst_error(
                values, [](const Lanes& x) { return kernels::exp(x); }, std::exp),
            1.5);
  EXPECT_LT(worst_error(
                values, [](const Lanes& x) { return kernels::exp2(x); }, std::exp2),
            1.5);
}

TEST(KernelMath, ExponentialsAtTheEdges) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  auto exp = [](float x) { return kernels::exp(Lanes(x)).lane0(); };
  auto exp2 = [](float x) { return kernels::exp2(Lanes(x)).lane0(); };
  EXPECT_EQ(exp(0), 1.0f);
  EXPECT_EQ(exp2(0), 1.0f);
  EXPECT_EQ(exp2(-1), 0.5f);
  EXPECT_EQ(exp2(127), 0x1p127f);
  EXPECT_EQ(exp2(-149), 0x1p-149f);  // gradual underflow
  EXPECT_EQ(exp2(-151), 0.0f);
  EXPECT_EQ(exp2(128), kInfinity);
  EXPECT_EQ(exp(89), kInfinity);
  EXPECT_LT(exp(88.7f), kInfinity);
  EXPECT_EQ(exp(-104), 0.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_EQ(exp2(-3e38f), 0.0f);
  EXPECT_TRUE(std::isnan(exp(NAN)));
  EXPECT_TRUE(std::isnan(exp2(NAN)));
}

TEST(KernelMath, LogarithmIsWithinTwoUlp) {
  std::vector<float> values;
  for (std::uint32_t bits = 0x00800000; bits < 0x7F800000; bits += 977)
    values.push_back(std::bit_cast<float>(bits));
  EXPECT_LT(worst_error(
                values, [](const Lanes& x) { return kernels::log(x); }, std::log),
            2);
  EXPECT_EQ(kernels::log(Lanes(1)).lane0(), 0.0f);
  EXPECT_TRUE(std::isnan(kernels::log(Lanes(NAN)).lane0()));
  EXPECT_EQ(kernels::log(Lanes(INFINITY)).lane0(), INFINITY);
}

// The emulation for processors without the instruction (this file is compiled for the baseline).
TEST(KernelMath, FusedMultiplyAddRoundsOnce) {
  Random random(1);
  auto any = [&] { return std::bit_cast<float>(static_cast<std::uint32_t>(random.next())); };
  for (int i = 0; i < 2000000; ++i) {
    float a = any(), b = any(), c = any();
    if (i % 2 == 0) {  // products and addends of like size, near cancellation
      a = std::bit_cast<float>((std::bit_cast<std::uint32_t>(a) & 0x80FFFFFFu) | 0x3F000000u);
      b = std::bit_cast<float>((std::bit_cast<std::uint32_t>(b) & 0x80FFFFFFu) | 0x3F000000u);
      c = -a * b * (1 + static_cast<float>(random.below(5)) * 0x1p-23f);
    }
    const float actual = kernels::fused_multiply_add(a, b, c), expected = std::fma(a, b, c);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << a << ' ' << b << ' ' << c;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(actual), std::bit_cast<std::uint32_t>(expected))
          << a << ' ' << b << ' ' << c;
    }
  }
}

}  // namespace
}  // namespace lazytrain::test
