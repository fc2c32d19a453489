// bfloat16 as storage: the upper half of an IEEE float. Arithmetic happens in float; these are the only
// conversions. g++ 12 has no std::bfloat16_t, and clang 14 no __bf16, so the type is a struct.
#pragma once

#include <bit>
#include <cstdint>

namespace lazytrain {

struct bfloat16 {
  std::uint16_t bits = 0;
  constexpr bool operator==(const bfloat16&) const = default;
};
static_assert(sizeof(bfloat16) == 2);

constexpr float to_float(bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}
constexpr float to_float(float x) {
  return x;
}

// Round to nearest, ties to even: activations and gradients. NaN stays a (quiet) NaN. Branch-free but
// for the select, so that loops vectorise.
constexpr bfloat16 to_bfloat16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x0040u;
  return {static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded)};
}

// What is added below the 16 bits that a master weight's streamed copy keeps: element i of a tensor is
// rounded up where its remainder reaches 65536 - rounding_offset(i). The offsets of neighbours are spread
// evenly (multiples of the golden ratio), so that the copies of many weights are right on average.
constexpr std::uint32_t kRoundingStride = 0x9E3779B1U;
constexpr std::uint32_t rounding_offset(std::uint64_t index) {
  return (static_cast<std::uint32_t>(index) * kRoundingStride) >> 16;
}

// The streamed copy of fp32 master weight `index` of its tensor: dithered rounding with a threshold that is
// the weight's own for ever. Rounding to nearest would not let a weight move before its master has moved by
// half a step of bf16 (2^-9 of it): fine-tuning steps are smaller, and a checkpoint in bf16 starts with all
// masters on the grid. Measured on SmolLM2-135M, 20 steps at 1e-4: losses up to 31 % off those of fp32 with
// rounding to nearest, in this engine and in torch's autocast alike, 2.2 % off with this rule
// (docs/measurements/weight-rounding.txt). Values on the grid stay as they are. Finite magnitudes within one
// step above the largest bf16 (3.39e38) may become infinite, as they do when rounded to nearest. Infinities
// and NaN pass through.
constexpr bfloat16 master_to_bfloat16(float x, std::uint64_t index) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const bool nan = (u & 0x7FFFFFFFU) > 0x7F800000U;
  return {static_cast<std::uint16_t>(nan ? u >> 16 | 0x0040U : (u + rounding_offset(index)) >> 16)};
}

// A master is kept as its streamed copy and 16 bits more: its own lower half. The copy says the rest, because
// the offset is known: the copy is the master's upper half, plus one where adding the offset to the lower
// half carries. So every float but NaN comes back to the bit, whatever its exponent and sign; the sum never
// reaches the sign bit (0x7F800000 + 0xFFFF), and an infinity has a lower half of zero, which never carries.
// A NaN comes back as a NaN: its copy is at least 0x7FC0, and one less is still above infinity. (Leaving the
// offset out near the top of the range, to keep copies finite, would give two masters the same 32 bits.)
constexpr std::uint16_t master_residual(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x));
}
constexpr float join_master(bfloat16 weight, std::uint16_t residual, std::uint64_t index) {
  const std::uint32_t offset = rounding_offset(index);
  const std::uint32_t sum = static_cast<std::uint32_t>(weight.bits) << 16 | ((residual + offset) & 0xFFFFU);
  return std::bit_cast<float>(sum - offset);
}

// What a tensor's elements are while training: fp32 (reference) or bf16.
template <typename T>
T from_float(float x);
template <>
constexpr float from_float<float>(float x) {
  return x;
}
template <>
constexpr bfloat16 from_float<bfloat16>(float x) {
  return to_bfloat16(x);
}

}  // namespace lazytrain
