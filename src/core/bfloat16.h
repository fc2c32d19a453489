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

// Round to nearest, ties away from zero, saturating at the largest finite value: the streamed copy of an
// fp32 master weight. With this rule 16 further bits recover the master exactly; with ties to even
// 65,537 masters would share one code. Infinities and NaN pass through.
constexpr bfloat16 master_to_bfloat16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = u & 0x7FFFFFFFu;
  const std::uint32_t sign = u & 0x80000000u;
  if (magnitude >= 0x7F800000u) {
    const std::uint32_t nan = magnitude > 0x7F800000u ? 0x0040u : 0u;
    return {static_cast<std::uint16_t>((u >> 16) | nan)};
  }
  std::uint32_t rounded = (magnitude + 0x8000u) >> 16;
  if (rounded >= 0x7F80u) rounded = 0x7F7Fu;
  return {static_cast<std::uint16_t>((sign >> 16) | rounded)};
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
