// Eight-bit codes for the moments of AdamW: 256 values on [-1, 1] (first moment) or [0, 1] (square root of
// the second), fine near 1 and reaching down to 5e-7. A moment is stored as its code times the largest
// magnitude of its block of 256 (optim/adamw_blocks.h).
//
// Source: the "dynamic" map of Dettmers et al., "8-bit Optimizers via Block-wise Quantization". Seven decades
// 10^(d-7) .. 10^(d-6), d = 0..6, are cut into equal steps, twice as many in each decade as in the one below;
// a code stands for the middle of its step:
//   signed    code 127 + q: 0 for q = 0, 1 for q = 128, else with e = floor(log2 |q|), f = |q| / 2^e - 1
//             sign(q) * 10^(e-6) * (0.1 + 0.9 * (f + 0.5 / 2^e))                q in -127..127
//   unsigned  code n - 1: 0 for n = 1, 1 for n = 256, else with e = floor(log2 n), f = n / 2^e - 1
//             10^(e-7) * (0.1 + 0.9 * (f + 0.5 / 2^e))
// Both are linear in q (n) inside a decade, so a decade is a pair of coefficients and no 256 values need to
// be looked up or searched. Everything is defined by separately rounded fp32 operations: the vector versions
// (optim/block_codes.h) do the same ones and agree to the bit.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace lazytrain {

// Coefficients by region. Regions 1..7 are the decades. Region 0 is the code of zero, region 8 that of one;
// they share entry 0 (indices count modulo 8, so that an entry is one lane of a vector permute): one line
// goes through both.
struct CodeMap {
  // With the code's place z (2 |q| + 1, or n) and region floor(log2 z): value = start + slope * z.
  std::array<float, 8> value_start = {}, value_slope = {};
  // Region of a value y: r + (y >= threshold[r]) for its guess r (region_guess).
  std::array<float, 8> threshold = {};
  // |q|, or n - 1, of a value y: min(trunc(start + slope * y), last).
  std::array<float, 8> place_start = {}, place_slope = {};
  std::array<std::int32_t, 8> last = {};
};

constexpr CodeMap make_code_map(bool has_sign) {
  CodeMap map;
  const double end = has_sign ? 128 : 255;   // |q| or n - 1 of the code of one
  const double middle = has_sign ? 0.5 : 1;  // z of two neighbours differs by 1 / middle
  map.value_start[0] = static_cast<float>(has_sign ? -1.0 / 256 : -1.0 / 255);
  map.value_slope[0] = -map.value_start[0];
  map.place_start[0] = 0.5F;
  map.place_slope[0] = static_cast<float>(end);
  map.last[0] = static_cast<std::int32_t>(end);
  double scale = 1e-6;                     // where the decade ends
  double steps = has_sign ? 1 : 2;         // in this decade: 2^e
  const double first = has_sign ? 0 : -1;  // |q| or n - 1, less 2^e, where a decade starts
  for (std::size_t region = 1; region < 8; ++region, scale *= 10, steps *= 2) {
    const double step = 0.9 * scale / steps;
    map.value_slope[region] = static_cast<float>(step * middle);
    map.value_start[region] = static_cast<float>(has_sign ? -0.8 * scale : -0.8 * scale + 0.5 * step);
    map.place_slope[region] = static_cast<float>(1 / step);
    map.place_start[region] = static_cast<float>(first + steps * 8 / 9);
    map.last[region] = static_cast<std::int32_t>(first + 2 * steps - 1);
    // Half way between this decade's last value and the next value.
    const double next = region == 7 ? 1.0 : scale + 2.25 * scale / steps;
    map.threshold[region] = static_cast<float>((scale - 0.5 * step + next) / 2);
  }
  if (has_sign) {
    map.threshold[0] = 0.55e-6F / 2;
  } else {
    // Only zero is code 0. The square root of a second moment that is not zero never becomes zero: an update
    // divides by it. The first decade has the codes 1 and 2.
    map.threshold[0] = std::bit_cast<float>(1U);
    map.place_start[1] = 1;
    map.place_slope[1] = static_cast<float>(1 / 0.55e-6);
  }
  return map;
}
inline constexpr CodeMap kSignedCodes = make_code_map(true);
inline constexpr CodeMap kUnsignedCodes = make_code_map(false);
inline constexpr std::uint8_t kSignedZero = 127;

// The region of y in [0, 1], or one less: a line through the logarithm that a float's upper 16 bits are. It
// steps up every 0.93 decades, half way between thresholds, so it need not be exact.
inline constexpr std::int32_t kGuessStart = 13216;  // upper bits of 10^-7.15
inline constexpr std::int32_t kGuessScale = 166;    // 2^16 * log10(2) / 128 / 0.93
constexpr std::int32_t region_guess(float y) {
  const std::int32_t upper = std::bit_cast<std::int32_t>(y) >> 16;
  return std::max(0, upper - kGuessStart) * kGuessScale >> 16;
}

constexpr float decode_place(const CodeMap& map, std::int32_t z) {
  const auto region = static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(z)) - 1) % 8;
  return map.value_start[region] + map.value_slope[region] * static_cast<float>(z);
}
constexpr std::int32_t encode_place(const CodeMap& map, float y) {
  const auto guess = static_cast<std::size_t>(region_guess(y)) % 8;  // NaN stays inside
  const std::size_t region = (guess + (y >= map.threshold[guess] ? 1 : 0)) % 8;
  return std::min(static_cast<std::int32_t>(map.place_start[region] + map.place_slope[region] * y),
                  map.last[region]);
}

// The value of a code, in [-0.99297, 1].
constexpr float decode_signed(std::uint8_t code) {
  const std::int32_t q = code - kSignedZero;
  const float magnitude = decode_place(kSignedCodes, 2 * (q < 0 ? -q : q) + 1);
  return q < 0 ? -magnitude : magnitude;
}
// The value of a code, in [0, 1].
constexpr float decode_unsigned(std::uint8_t code) {
  return decode_place(kUnsignedCodes, code + 1);
}
// The code with the value nearest to y in [-1, 1] (a few units in the last place outside are no harm).
constexpr std::uint8_t encode_signed(float y) {
  const std::int32_t q = encode_place(kSignedCodes, y < 0 ? -y : y);
  return static_cast<std::uint8_t>(std::max(0, kSignedZero + (y < 0 ? -q : q)));
}
// The code with the value nearest to y in [0, 1], but 0 for nothing but zero.
constexpr std::uint8_t encode_unsigned(float y) {
  return static_cast<std::uint8_t>(encode_place(kUnsignedCodes, y));
}

}  // namespace lazytrain
