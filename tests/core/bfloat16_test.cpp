// Rounding of master weights to the bf16 copy that is streamed.
#include "core/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace lazytrain {
namespace {

TEST(MasterRounding, LeavesTheGridAlone) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const float master = std::bit_cast<float>(code << 16);
    if (std::isnan(master)) continue;
    for (const std::uint64_t index : {0U, 1U, 7U, 123456789U})
      ASSERT_EQ(master_to_bfloat16(master, index).bits, code);
  }
}

TEST(MasterRounding, GivesANeighbour) {
  for (std::uint32_t upper = 0; upper < 0x7F80; ++upper) {
    for (const std::uint32_t lower : {0x0001U, 0x4000U, 0x7FFFU, 0x8000U, 0xFFFFU}) {
      for (const std::uint32_t sign : {0U, 0x80000000U}) {
        for (const std::uint64_t index : {0U, 1U, 2U, 3U, 4711U}) {
          const std::uint32_t bits = sign | upper << 16 | lower;
          const std::uint32_t rounded = master_to_bfloat16(std::bit_cast<float>(bits), index).bits;
          ASSERT_GE(rounded, bits >> 16);
          ASSERT_LE(rounded, (bits >> 16) + 1);
        }
      }
    }
  }
}

TEST(MasterRounding, PassesInfinitiesAndNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(master_to_bfloat16(kInfinity, 3)), kInfinity);
  EXPECT_EQ(to_float(master_to_bfloat16(-kInfinity, 3)), -kInfinity);
  for (const std::uint32_t bits : {0x7F800001U, 0x7FFFFFFFU, 0xFF800001U, 0xFFFFFFFFU, 0x7FC00000U})
    EXPECT_TRUE(std::isnan(to_float(master_to_bfloat16(std::bit_cast<float>(bits), 5))));
}

// What rounding to nearest cannot do: many weights that all move by a tenth of a step move by that on
// average.
TEST(MasterRounding, IsRightOnAverageForSmallMoves) {
  constexpr std::int64_t kWeights = 4096;
  constexpr float kStep = 0x1p-7F;  // of bf16 between 1 and 2
  for (const float part : {0.01F, 0.1F, 0.5F, 0.9F}) {
    double sum = 0;
    for (std::int64_t i = 0; i < kWeights; ++i)
      sum += to_float(master_to_bfloat16(1.0F + part * kStep, static_cast<std::uint64_t>(i))) - 1.0F;
    EXPECT_NEAR(sum / kWeights / kStep, part, 0.002) << part;
  }
}

TEST(MasterRounding, RisesWithTheMaster) {
  for (const std::uint64_t index : {0U, 5U, 77U}) {
    float before = -1;
    for (std::uint32_t bits = 0x3F7F0000; bits < 0x3F820000; ++bits) {
      const float rounded = to_float(master_to_bfloat16(std::bit_cast<float>(bits), index));
      ASSERT_GE(rounded, before);
      before = rounded;
    }
  }
}

// All upper halves, so both zeros, subnormals, the largest finite and infinities too. The lower halves stand
// on both sides of every index's carry.
TEST(MasterRounding, SixteenMoreBitsRecoverEveryMaster) {
  for (const std::uint64_t index : {0ULL, 1ULL, 2ULL, 255ULL, 4711ULL, 123456789ULL, (1ULL << 31) + 5}) {
    const std::uint32_t carry = 0x10000U - rounding_offset(index);
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
      for (const std::uint32_t lower : {0U, 1U, 0x7FFFU, 0x8000U, carry - 1, carry, carry + 1, 0xFFFFU}) {
        const std::uint32_t bits = upper << 16 | (lower & 0xFFFFU);
        const auto master = std::bit_cast<float>(bits);
        const float joined = join_master(master_to_bfloat16(master, index), master_residual(master), index);
        if (std::isnan(master)) {
          ASSERT_TRUE(std::isnan(joined)) << std::hex << bits;
        } else {
          ASSERT_EQ(std::bit_cast<std::uint32_t>(joined), bits) << std::hex << bits;
        }
      }
    }
  }
}

TEST(MasterRounding, AWeightOnTheGridHasNoResidual) {
  EXPECT_EQ(master_residual(-1.5F), 0);
  EXPECT_EQ(join_master(to_bfloat16(-1.5F), 0, 77), -1.5F);
}

}  // namespace
}  // namespace lazytrain
