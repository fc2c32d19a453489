// Blocks of codes on every instruction set against the definition, to the bit.
#include "optim/block_codes.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "optim/adamw.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {
namespace {

struct Version {
  InstructionSet set;
  decltype(decode_block_baseline)* decode;
  decltype(encode_block_baseline)* encode;
};

std::vector<Version> available_versions() {
  std::vector<Version> versions{{InstructionSet::baseline, decode_block_baseline, encode_block_baseline},
                                {InstructionSet::avx2, decode_block_avx2, encode_block_avx2},
                                {InstructionSet::avx512, decode_block_avx512, encode_block_avx512}};
  std::erase_if(versions, [](const Version& version) { return version.set > best_instruction_set(); });
  return versions;
}

struct alignas(64) Floats : std::array<float, 256> {};
using Bytes256 = std::array<std::uint8_t, 256>;

TEST(BlockCodes, DecodeIsTheValueTimesTheScale) {
  Bytes256 codes = {};
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
  constexpr BlockScale kScale{.exp_avg = 0.037F, .root = 1.7e-5F};
  for (const Version& version : available_versions()) {
    Floats exp_avg = {};
    Floats root = {};
    version.decode({.exp_avg = codes.data(), .root = codes.data()}, kScale, exp_avg.data(), root.data());
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(exp_avg[i], decode_signed(codes[i]) * kScale.exp_avg) << to_string(version.set) << ' ' << i;
      ASSERT_EQ(root[i], decode_unsigned(codes[i]) * kScale.root) << to_string(version.set) << ' ' << i;
    }
  }
}

// Every 251st float of 0..1, and both neighbours of every place where the code changes.
std::vector<float> samples() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits <= 0x3F800001; bits += 251) values.push_back(std::bit_cast<float>(bits));
  for (std::uint8_t code = 1; code != 0; ++code) {
    for (const bool has_sign : {true, false}) {
      std::uint32_t low = 0;
      std::uint32_t high = 0x3F800000;
      while (high - low > 1) {
        const std::uint32_t middle = (low + high) / 2;
        const auto y = std::bit_cast<float>(middle);
        ((has_sign ? encode_signed(y) : encode_unsigned(y)) < code ? low : high) = middle;
      }
      values.push_back(std::bit_cast<float>(low));
      values.push_back(std::bit_cast<float>(high));
    }
  }
  values.resize((values.size() + 255) / 256 * 256);
  return values;
}

TEST(BlockCodes, EncodeIsTheScalarEncode) {
  const std::vector<float> values = samples();
  for (const Version& version : available_versions()) {
    for (std::size_t start = 0; start < values.size(); start += 256) {
      Floats exp_avg = {};
      Floats root = {};
      for (std::size_t i = 0; i < 256; ++i) {
        root[i] = values[start + i];
        exp_avg[i] = i % 2 == 0 ? root[i] : -root[i];
      }
      Bytes256 signed_codes = {};
      Bytes256 unsigned_codes = {};
      version.encode(exp_avg.data(), root.data(), {.exp_avg = 1, .root = 1},
                     {.exp_avg = signed_codes.data(), .root = unsigned_codes.data()});
      for (std::size_t i = 0; i < 256; ++i) {
        ASSERT_EQ(signed_codes[i], encode_signed(exp_avg[i])) << to_string(version.set) << ' ' << exp_avg[i];
        ASSERT_EQ(unsigned_codes[i], encode_unsigned(root[i])) << to_string(version.set) << ' ' << root[i];
      }
    }
  }
}

TEST(BlockCodes, AnInverseScaleOfZeroGivesTheCodesOfZero) {
  Floats values = {};
  values.fill(1e-39F);
  for (const Version& version : available_versions()) {
    Bytes256 signed_codes = {};
    Bytes256 unsigned_codes = {};
    version.encode(values.data(), values.data(), {},
                   {.exp_avg = signed_codes.data(), .root = unsigned_codes.data()});
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_EQ(signed_codes[i], kSignedZero);
      ASSERT_EQ(unsigned_codes[i], 0);
    }
  }
}

}  // namespace
}  // namespace lazytrain
