#include "optim/block_codes.h"

#include <immintrin.h>

#include "optim/block_codes_avx512.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {
namespace {

struct ValueTable {
  std::array<float, 256> value_signed = {}, value_unsigned = {};
};
constexpr ValueTable make_value_table() {
  ValueTable table;
  for (std::size_t code = 0; code < 256; ++code) {
    table.value_signed[code] = decode_signed(static_cast<std::uint8_t>(code));
    table.value_unsigned[code] = decode_unsigned(static_cast<std::uint8_t>(code));
  }
  return table;
}
constexpr ValueTable kValues = make_value_table();

}  // namespace

void decode_block_baseline(BlockCodes codes, BlockScale scale, float* exp_avg, float* root) {
  for (std::int64_t i = 0; i < kStateBlock; ++i) {
    exp_avg[i] = kValues.value_signed[codes.exp_avg[i]] * scale.exp_avg;
    root[i] = kValues.value_unsigned[codes.root[i]] * scale.root;
  }
}

void encode_block_baseline(const float* exp_avg, const float* root, BlockScale inverse_scale,
                           BlockCodes codes) {
  for (std::int64_t i = 0; i < kStateBlock; ++i) {
    codes.exp_avg[i] = encode_signed(exp_avg[i] * inverse_scale.exp_avg);
    codes.root[i] = encode_unsigned(root[i] * inverse_scale.root);
  }
}

namespace {

// Tables are registers, one entry a lane, looked up by a permute, which takes indices modulo 8 (or 16, so
// AVX-512 has each table twice). The names of steps are those of eight_bit_codes.h.
struct ValuesAvx2 {
  __m256 start, slope;
};
struct PlacesAvx2 {
  __m256 threshold, start, slope;
  __m256i last;
};

[[gnu::target("avx2"), gnu::always_inline]] inline ValuesAvx2 load_avx2(const ValuesByExponent& values) {
  return {_mm256_loadu_ps(values.start.data()), _mm256_loadu_ps(values.slope.data())};
}
[[gnu::target("avx2"), gnu::always_inline]] inline PlacesAvx2 load_avx2(const CodeMap& map) {
  return {_mm256_loadu_ps(map.threshold.data()), _mm256_loadu_ps(map.place_start.data()),
          _mm256_loadu_ps(map.place_slope.data()),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(map.last.data()))};
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256 decode_avx2(const ValuesAvx2& values,
                                                                      __m256 place) {
  const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(place), 23);
  return _mm256_add_ps(_mm256_permutevar8x32_ps(values.start, exponent),
                       _mm256_mul_ps(_mm256_permutevar8x32_ps(values.slope, exponent), place));
}

// region_guess multiplies 16-bit numbers; its subtraction saturates at zero.
[[gnu::target("avx2"), gnu::always_inline]] inline __m256i encode_avx2(const PlacesAvx2& map, __m256 y) {
  const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(y), 16);
  const __m256i guess = _mm256_mulhi_epu16(_mm256_subs_epu16(upper, _mm256_set1_epi32(kGuessStart)),
                                           _mm256_set1_epi32(kGuessScale));
  const __m256 above = _mm256_cmp_ps(y, _mm256_permutevar8x32_ps(map.threshold, guess), _CMP_GE_OQ);
  const __m256i region = _mm256_sub_epi32(guess, _mm256_castps_si256(above));
  const __m256 place = _mm256_add_ps(_mm256_permutevar8x32_ps(map.start, region),
                                     _mm256_mul_ps(_mm256_permutevar8x32_ps(map.slope, region), y));
  return _mm256_min_epi32(_mm256_cvttps_epi32(place), _mm256_permutevar8x32_epi32(map.last, region));
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i bytes_avx2(const std::uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

// The one negative code, 127 - 128, is cut to 0, here by the unsigned packing.
[[gnu::target("avx2"), gnu::always_inline]] inline void store_avx2(std::uint8_t* to, __m256i x) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

}  // namespace

[[gnu::target("avx2")]] void decode_block_avx2(BlockCodes codes, BlockScale scale, float* exp_avg,
                                               float* root) {
  const ValuesAvx2 with_sign = load_avx2(kSignedValues);
  const ValuesAvx2 without_sign = load_avx2(kUnsignedValues);
  const __m256 sign_bit = _mm256_set1_ps(-0.0F);
  const __m256 scale_m = _mm256_set1_ps(scale.exp_avg);
  const __m256 scale_r = _mm256_set1_ps(scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 8) {
    const __m256i code = bytes_avx2(codes.exp_avg + i);
    const __m256 q = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, _mm256_set1_epi32(kSignedZero)));
    const __m256 half_z = _mm256_add_ps(_mm256_andnot_ps(sign_bit, q), _mm256_set1_ps(0.5F));
    const __m256 m = _mm256_or_ps(decode_avx2(with_sign, half_z), _mm256_and_ps(sign_bit, q));
    _mm256_store_ps(exp_avg + i, _mm256_mul_ps(m, scale_m));
    const __m256 z = _mm256_add_ps(_mm256_cvtepi32_ps(bytes_avx2(codes.root + i)), _mm256_set1_ps(1.0F));
    _mm256_store_ps(root + i, _mm256_mul_ps(decode_avx2(without_sign, z), scale_r));
  }
}

[[gnu::target("avx2")]] void encode_block_avx2(const float* exp_avg, const float* root,
                                               BlockScale inverse_scale, BlockCodes codes) {
  const PlacesAvx2 with_sign = load_avx2(kSignedCodes);
  const PlacesAvx2 without_sign = load_avx2(kUnsignedCodes);
  const __m256 inverse_m = _mm256_set1_ps(inverse_scale.exp_avg);
  const __m256 inverse_r = _mm256_set1_ps(inverse_scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 8) {
    const __m256 m = _mm256_mul_ps(_mm256_load_ps(exp_avg + i), inverse_m);
    const __m256i q = encode_avx2(with_sign, _mm256_andnot_ps(_mm256_set1_ps(-0.0F), m));
    const __m256i sign = _mm256_srai_epi32(_mm256_castps_si256(m), 31);
    const __m256i signed_q = _mm256_sub_epi32(_mm256_xor_si256(q, sign), sign);
    store_avx2(codes.exp_avg + i, _mm256_add_epi32(signed_q, _mm256_set1_epi32(kSignedZero)));
    const __m256 r = _mm256_mul_ps(_mm256_load_ps(root + i), inverse_r);
    store_avx2(codes.root + i, encode_avx2(without_sign, r));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void decode_block_avx512(BlockCodes codes,
                                                                               BlockScale scale,
                                                                               float* exp_avg, float* root) {
  const ValuesAvx512 with_sign = load_avx512(kSignedValues);
  const ValuesAvx512 without_sign = load_avx512(kUnsignedValues);
  const __m512 sign_bit = _mm512_set1_ps(-0.0F);
  const __m512 scale_m = _mm512_set1_ps(scale.exp_avg);
  const __m512 scale_r = _mm512_set1_ps(scale.root);
  const auto load = [](const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  for (std::int64_t i = 0; i < kStateBlock; i += 16) {
    const __m512i code = _mm512_maskz_cvtepu8_epi32(0xFFFF, load(codes.exp_avg + i));
    const __m512 q = _mm512_maskz_cvtepi32_ps(0xFFFF, _mm512_sub_epi32(code, _mm512_set1_epi32(kSignedZero)));
    const __m512 half_z = _mm512_add_ps(_mm512_andnot_ps(sign_bit, q), _mm512_set1_ps(0.5F));
    const __m512 m = _mm512_or_ps(decode_avx512(with_sign, half_z), _mm512_and_ps(sign_bit, q));
    _mm512_store_ps(exp_avg + i, _mm512_mul_ps(m, scale_m));
    const __m512i place = _mm512_maskz_cvtepu8_epi32(0xFFFF, load(codes.root + i));
    const __m512 z = _mm512_add_ps(_mm512_maskz_cvtepi32_ps(0xFFFF, place), _mm512_set1_ps(1.0F));
    _mm512_store_ps(root + i, _mm512_mul_ps(decode_avx512(without_sign, z), scale_r));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void encode_block_avx512(const float* exp_avg,
                                                                               const float* root,
                                                                               BlockScale inverse_scale,
                                                                               BlockCodes codes) {
  const PlacesAvx512 with_sign = load_avx512(kSignedCodes);
  const __m512i zero = _mm512_set1_epi32(kSignedZero);
  const __m512 inverse_m = _mm512_set1_ps(inverse_scale.exp_avg);
  __m512 y[kTeam];
  __m512i place[kTeam];
  __mmask16 negative[kTeam];
  for (std::int64_t i = 0; i < kStateBlock; i += 16 * kTeam) {
    for (int t = 0; t < kTeam; ++t) {
      const __m512 m = _mm512_mul_ps(_mm512_load_ps(exp_avg + i + 16 * t), inverse_m);
      negative[t] = _mm512_movepi32_mask(_mm512_castps_si512(m));
      y[t] = _mm512_andnot_ps(_mm512_set1_ps(-0.0F), m);
    }
    encode_avx512(with_sign, y, place);
    for (int t = 0; t < kTeam; ++t) {
      const __m512i code =
          _mm512_mask_sub_epi32(_mm512_add_epi32(zero, place[t]), negative[t], zero, place[t]);
      const __m512i cut = _mm512_maskz_max_epi32(0xFFFF, code, _mm512_setzero_si512());
      _mm512_mask_cvtepi32_storeu_epi8(codes.exp_avg + i + 16 * t, 0xFFFF, cut);
    }
  }
  const PlacesAvx512 without_sign = load_avx512(kUnsignedCodes);
  const __m512 inverse_r = _mm512_set1_ps(inverse_scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 16 * kTeam) {
    for (int t = 0; t < kTeam; ++t) y[t] = _mm512_mul_ps(_mm512_load_ps(root + i + 16 * t), inverse_r);
    encode_avx512(without_sign, y, place);
    for (int t = 0; t < kTeam; ++t)
      _mm512_mask_cvtepi32_storeu_epi8(codes.root + i + 16 * t, 0xFFFF, place[t]);
  }
}

}  // namespace lazytrain
