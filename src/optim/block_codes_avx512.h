// Eight-bit codes in AVX-512 registers: what the block functions (optim/block_codes.cpp) and the fused sweep
// (optim/adamw_block_avx512.h) are made of. Private to `optim`.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstdint>

#include "optim/eight_bit_codes.h"

namespace lazytrain {

// The values of a CodeMap ordered for the vector versions. A place's region is looked up by the exponent
// field of the place as a float, 127 + floor(log2 z), modulo 8: region r stands at r + 7. The signed version
// takes |q| + 1/2 = z / 2, which the sign of q stays with: r + 6, and twice the slope (an exact product).
struct ValuesByExponent {
  std::array<float, 8> start = {}, slope = {};
};
constexpr ValuesByExponent by_exponent(const CodeMap& map, std::size_t exponent, float factor) {
  ValuesByExponent values;
  for (std::size_t region = 0; region < 8; ++region) {
    values.start[(region + exponent) % 8] = map.value_start[region];
    values.slope[(region + exponent) % 8] = map.value_slope[region] * factor;
  }
  return values;
}
inline constexpr ValuesByExponent kSignedValues = by_exponent(kSignedCodes, 6, 2.0F);
inline constexpr ValuesByExponent kUnsignedValues = by_exponent(kUnsignedCodes, 7, 1.0F);

struct ValuesAvx512 {
  __m512 start, slope;
};
struct PlacesAvx512 {
  __m512 threshold, start, slope;
  __m512i last;
};

// The masked forms, with full masks: g++ 12 warns of the undefined operand inside the plain ones.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 twice(
    const std::array<float, 8>& table) {
  return _mm512_maskz_broadcast_f32x8(0xFFFF, _mm256_loadu_ps(table.data()));
}
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline ValuesAvx512 load_avx512(
    const ValuesByExponent& values) {
  return {twice(values.start), twice(values.slope)};
}
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline PlacesAvx512 load_avx512(const CodeMap& map) {
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(map.last.data()));
  return {twice(map.threshold), twice(map.place_start), twice(map.place_slope),
          _mm512_maskz_broadcast_i32x8(0xFFFF, last)};
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 lookup(__m512 table, __m512i index) {
  return _mm512_maskz_permutexvar_ps(0xFFFF, index, table);
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 decode_avx512(const ValuesAvx512& values,
                                                                           __m512 place) {
  const __m512i exponent = _mm512_maskz_srli_epi32(0xFFFF, _mm512_castps_si512(place), 23);
  return _mm512_add_ps(lookup(values.start, exponent), _mm512_mul_ps(lookup(values.slope, exponent), place));
}

// Four registers at a time, step by step: one after the other, each step would wait for the one before.
inline constexpr std::int64_t kTeam = 4;

[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline void encode_avx512(const PlacesAvx512& map,
                                                                                  const __m512* y,
                                                                                  __m512i* place) {
  __m512i region[kTeam];
  __m512 line[kTeam];
  for (int t = 0; t < kTeam; ++t) {
    const __m512i upper = _mm512_maskz_srli_epi32(0xFFFF, _mm512_castps_si512(y[t]), 16);
    region[t] = _mm512_mulhi_epu16(_mm512_subs_epu16(upper, _mm512_set1_epi32(kGuessStart)),
                                   _mm512_set1_epi32(kGuessScale));
  }
  for (int t = 0; t < kTeam; ++t) {
    const __mmask16 above = _mm512_cmp_ps_mask(y[t], lookup(map.threshold, region[t]), _CMP_GE_OQ);
    region[t] = _mm512_mask_add_epi32(region[t], above, region[t], _mm512_set1_epi32(1));
  }
  for (int t = 0; t < kTeam; ++t) {
    line[t] = _mm512_add_ps(lookup(map.start, region[t]), _mm512_mul_ps(lookup(map.slope, region[t]), y[t]));
  }
  for (int t = 0; t < kTeam; ++t) {
    place[t] = _mm512_maskz_min_epi32(0xFFFF, _mm512_maskz_cvttps_epi32(0xFFFF, line[t]),
                                      _mm512_maskz_permutexvar_epi32(0xFFFF, region[t], map.last));
  }
}

}  // namespace lazytrain
