// The two maps against their definition in fp64, and their encoders against a search.
#include "optim/eight_bit_codes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lazytrain {
namespace {

double signed_value(int code) {
  const int q = code - 127;
  if (q == 0) return 0;
  if (q == 128) return 1;
  const int e = static_cast<int>(std::floor(std::log2(std::abs(q))));
  const double steps = std::ldexp(1.0, e);
  const double magnitude = std::pow(10.0, e - 6) * (0.1 + 0.9 * (std::abs(q) / steps - 1 + 0.5 / steps));
  return q < 0 ? -magnitude : magnitude;
}

double unsigned_value(int code) {
  const int n = code + 1;
  if (n == 1) return 0;
  if (n == 256) return 1;
  const int e = static_cast<int>(std::floor(std::log2(n)));
  const double steps = std::ldexp(1.0, e);
  return std::pow(10.0, e - 7) * (0.1 + 0.9 * (n / steps - 1 + 0.5 / steps));
}

TEST(EightBitCodes, AllCodesHaveTheirValue) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    ASSERT_NEAR(decode_signed(byte), signed_value(code), 1e-6 * std::abs(signed_value(code))) << code;
    ASSERT_NEAR(decode_unsigned(byte), unsigned_value(code), 1e-6 * unsigned_value(code)) << code;
  }
}

TEST(EightBitCodes, EndsAndZerosAreExact) {
  EXPECT_EQ(decode_signed(127), 0.0F);
  EXPECT_EQ(decode_signed(255), 1.0F);
  EXPECT_NEAR(decode_signed(0), -0.99297, 1e-5);
  EXPECT_NEAR(decode_signed(128), 5.5e-7, 1e-12);
  EXPECT_EQ(decode_unsigned(0), 0.0F);
  EXPECT_EQ(decode_unsigned(255), 1.0F);
  EXPECT_NEAR(decode_unsigned(1), 3.25e-7, 1e-12);
}

TEST(EightBitCodes, ValuesRiseWithTheCode) {
  for (int code = 1; code < 256; ++code) {
    ASSERT_LT(decode_signed(static_cast<std::uint8_t>(code - 1)),
              decode_signed(static_cast<std::uint8_t>(code)));
    ASSERT_LT(decode_unsigned(static_cast<std::uint8_t>(code - 1)),
              decode_unsigned(static_cast<std::uint8_t>(code)));
  }
}

TEST(EightBitCodes, EncodingADecodedCodeGivesTheCode) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    ASSERT_EQ(encode_signed(decode_signed(byte)), byte);
    ASSERT_EQ(encode_unsigned(decode_unsigned(byte)), byte);
  }
}

TEST(EightBitCodes, ZeroIsZero) {
  EXPECT_EQ(encode_signed(0.0F), 127);
  EXPECT_EQ(encode_signed(-0.0F), 127);
  EXPECT_EQ(encode_unsigned(0.0F), 0);
}

TEST(EightBitCodes, OnlyZeroIsUnsignedCodeZero) {
  for (const float y : {1e-45F, 1e-38F, 1e-20F, 1e-8F, 1.6e-7F, 3e-7F}) EXPECT_EQ(encode_unsigned(y), 1) << y;
}

// All upper halves of the floats in 0..1 and some lower ones, of either sign.
std::vector<float> samples() {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper <= 0x3F7F; ++upper)
    for (std::uint32_t lower = 0; lower < 0x10000; lower += 0x37F) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  values.push_back(1.0F);
  return values;
}

TEST(EightBitCodes, EncodingIsNearest) {
  std::vector<double> signed_values(256);
  std::vector<double> unsigned_values(256);
  for (int code = 0; code < 256; ++code) {
    signed_values[static_cast<std::size_t>(code)] = signed_value(code);
    unsigned_values[static_cast<std::size_t>(code)] = unsigned_value(code);
  }
  const auto distance = [](const std::vector<double>& values, double y) {
    const auto above = std::lower_bound(values.begin(), values.end() - 1, y);
    return std::min(std::abs(*above - y), above == values.begin() ? 9.0 : std::abs(*(above - 1) - y));
  };
  for (const float y : samples()) {
    const double slack = 1e-6 * y;  // a tie may go either way
    ASSERT_LE(std::abs(signed_values[encode_signed(y)] - y), distance(signed_values, y) + slack) << y;
    ASSERT_LE(std::abs(signed_values[encode_signed(-y)] + y), distance(signed_values, -y) + slack) << y;
    if (y < 3.25e-7F) continue;  // OnlyZeroIsUnsignedCodeZero
    ASSERT_LE(std::abs(unsigned_values[encode_unsigned(y)] - y), distance(unsigned_values, y) + slack) << y;
  }
}

TEST(EightBitCodes, EncodingRisesWithTheValue) {
  int before_signed = 0;
  int before_unsigned = 0;
  for (const float y : samples()) {
    ASSERT_GE(encode_signed(y), before_signed) << y;
    ASSERT_GE(encode_unsigned(y), before_unsigned) << y;
    before_signed = encode_signed(y);
    before_unsigned = encode_unsigned(y);
  }
}

TEST(EightBitCodes, ALittleAboveOneIsOne) {
  EXPECT_EQ(encode_signed(1.0000002F), 255);
  EXPECT_EQ(encode_signed(-1.0000002F), 0);
  EXPECT_EQ(encode_unsigned(1.0000002F), 255);
}

}  // namespace
}  // namespace lazytrain
