#include "optim/block_codes.h"

#include <immintrin.h>

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

// A CodeMap in registers: one entry a lane, looked up by a permute, which takes indices modulo 8.
// The names of steps are those of eight_bit_codes.h.
struct MapAvx2 {
  __m256 value_start, value_slope, threshold, place_start, place_slope;
  __m256i last;
};

[[gnu::target("avx2"), gnu::always_inline]] inline MapAvx2 load_avx2(const CodeMap& map) {
  return {_mm256_loadu_ps(map.value_start.data()),
          _mm256_loadu_ps(map.value_slope.data()),
          _mm256_loadu_ps(map.threshold.data()),
          _mm256_loadu_ps(map.place_start.data()),
          _mm256_loadu_ps(map.place_slope.data()),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(map.last.data()))};
}

// z is at least 1: the float's exponent field is 127 + floor(log2 z).
[[gnu::target("avx2"), gnu::always_inline]] inline __m256 decode_avx2(const MapAvx2& map, __m256i z) {
  const __m256 place = _mm256_cvtepi32_ps(z);
  const __m256i region =
      _mm256_add_epi32(_mm256_srli_epi32(_mm256_castps_si256(place), 23), _mm256_set1_epi32(1));
  return _mm256_add_ps(_mm256_permutevar8x32_ps(map.value_start, region),
                       _mm256_mul_ps(_mm256_permutevar8x32_ps(map.value_slope, region), place));
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i encode_avx2(const MapAvx2& map, __m256 y) {
  const __m256i upper = _mm256_srli_epi32(_mm256_castps_si256(y), 16);
  const __m256i line = _mm256_sub_epi32(_mm256_madd_epi16(upper, _mm256_set1_epi32(kGuessScale)),
                                        _mm256_set1_epi32(kGuessStart));
  const __m256i guess = _mm256_max_epi32(_mm256_srai_epi32(line, 20), _mm256_setzero_si256());
  const __m256 above = _mm256_cmp_ps(y, _mm256_permutevar8x32_ps(map.threshold, guess), _CMP_GE_OQ);
  const __m256i region = _mm256_sub_epi32(guess, _mm256_castps_si256(above));
  const __m256 place = _mm256_add_ps(_mm256_permutevar8x32_ps(map.place_start, region),
                                     _mm256_mul_ps(_mm256_permutevar8x32_ps(map.place_slope, region), y));
  return _mm256_min_epi32(_mm256_cvttps_epi32(place), _mm256_permutevar8x32_epi32(map.last, region));
}

[[gnu::target("avx2"), gnu::always_inline]] inline __m256i bytes_avx2(const std::uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}

[[gnu::target("avx2"), gnu::always_inline]] inline void store_avx2(std::uint8_t* to, __m256i x) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

struct MapAvx512 {
  __m512 value_start, value_slope, threshold, place_start, place_slope;
  __m512i last;
};

using EightFloats = std::array<float, 8>;

// Twice the eight entries: indices count modulo 16 here.
[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline __m512 twice(const EightFloats& table) {
  return _mm512_maskz_broadcast_f32x8(0xFFFF, _mm256_loadu_ps(table.data()));
}

[[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline MapAvx512 load_avx512(const CodeMap& map) {
  const __m256i last = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(map.last.data()));
  return {twice(map.value_start), twice(map.value_slope), twice(map.threshold),
          twice(map.place_start), twice(map.place_slope), _mm512_maskz_broadcast_i32x8(0xFFFF, last)};
}

// The masked forms, with full masks: g++ 12 warns of the undefined operand inside the plain ones.
[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 lookup(__m512 table, __m512i index) {
  return _mm512_maskz_permutexvar_ps(0xFFFF, index, table);
}

[[gnu::target("avx512f"), gnu::always_inline]] inline __m512 decode_avx512(const MapAvx512& map, __m512i z) {
  const __m512 place = _mm512_maskz_cvtepi32_ps(0xFFFF, z);
  const __m512i region =
      _mm512_add_epi32(_mm512_maskz_srli_epi32(0xFFFF, _mm512_castps_si512(place), 23), _mm512_set1_epi32(1));
  return _mm512_add_ps(lookup(map.value_start, region),
                       _mm512_mul_ps(lookup(map.value_slope, region), place));
}

[[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline __m512i encode_avx512(const MapAvx512& map,
                                                                                     __m512 y) {
  const __m512i upper = _mm512_maskz_srli_epi32(0xFFFF, _mm512_castps_si512(y), 16);
  const __m512i line = _mm512_sub_epi32(_mm512_madd_epi16(upper, _mm512_set1_epi32(kGuessScale)),
                                        _mm512_set1_epi32(kGuessStart));
  const __m512i guess =
      _mm512_maskz_max_epi32(0xFFFF, _mm512_maskz_srai_epi32(0xFFFF, line, 20), _mm512_setzero_si512());
  const __mmask16 above = _mm512_cmp_ps_mask(y, lookup(map.threshold, guess), _CMP_GE_OQ);
  const __m512i region = _mm512_mask_add_epi32(guess, above, guess, _mm512_set1_epi32(1));
  const __m512 place =
      _mm512_add_ps(lookup(map.place_start, region), _mm512_mul_ps(lookup(map.place_slope, region), y));
  return _mm512_maskz_min_epi32(0xFFFF, _mm512_maskz_cvttps_epi32(0xFFFF, place),
                                _mm512_maskz_permutexvar_epi32(0xFFFF, region, map.last));
}

}  // namespace

[[gnu::target("avx2")]] void decode_block_avx2(BlockCodes codes, BlockScale scale, float* exp_avg,
                                               float* root) {
  const MapAvx2 with_sign = load_avx2(kSignedCodes);
  const MapAvx2 without_sign = load_avx2(kUnsignedCodes);
  const __m256i one = _mm256_set1_epi32(1);
  const __m256 scale_m = _mm256_set1_ps(scale.exp_avg);
  const __m256 scale_r = _mm256_set1_ps(scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 8) {
    const __m256i q = _mm256_sub_epi32(bytes_avx2(codes.exp_avg + i), _mm256_set1_epi32(kSignedZero));
    const __m256i magnitude = _mm256_abs_epi32(q);
    const __m256 m = decode_avx2(with_sign, _mm256_add_epi32(_mm256_add_epi32(magnitude, magnitude), one));
    const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(q), _mm256_set1_ps(-0.0F));
    _mm256_store_ps(exp_avg + i, _mm256_mul_ps(_mm256_or_ps(m, sign), scale_m));
    const __m256 r = decode_avx2(without_sign, _mm256_add_epi32(bytes_avx2(codes.root + i), one));
    _mm256_store_ps(root + i, _mm256_mul_ps(r, scale_r));
  }
}

[[gnu::target("avx2")]] void encode_block_avx2(const float* exp_avg, const float* root,
                                               BlockScale inverse_scale, BlockCodes codes) {
  const MapAvx2 with_sign = load_avx2(kSignedCodes);
  const MapAvx2 without_sign = load_avx2(kUnsignedCodes);
  const __m256 inverse_m = _mm256_set1_ps(inverse_scale.exp_avg);
  const __m256 inverse_r = _mm256_set1_ps(inverse_scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 8) {
    const __m256 m = _mm256_mul_ps(_mm256_load_ps(exp_avg + i), inverse_m);
    const __m256i sign = _mm256_srai_epi32(_mm256_castps_si256(m), 31);
    const __m256i q = encode_avx2(with_sign, _mm256_andnot_ps(_mm256_set1_ps(-0.0F), m));
    const __m256i with = _mm256_sub_epi32(_mm256_xor_si256(q, sign), sign);
    // packus cuts the one negative value, 127 - 128, to 0.
    store_avx2(codes.exp_avg + i, _mm256_add_epi32(with, _mm256_set1_epi32(kSignedZero)));
    const __m256 r = _mm256_mul_ps(_mm256_load_ps(root + i), inverse_r);
    store_avx2(codes.root + i, encode_avx2(without_sign, r));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void decode_block_avx512(BlockCodes codes,
                                                                               BlockScale scale,
                                                                               float* exp_avg, float* root) {
  const MapAvx512 with_sign = load_avx512(kSignedCodes);
  const MapAvx512 without_sign = load_avx512(kUnsignedCodes);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512 scale_m = _mm512_set1_ps(scale.exp_avg);
  const __m512 scale_r = _mm512_set1_ps(scale.root);
  const auto load = [](const std::uint8_t* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  };
  for (std::int64_t i = 0; i < kStateBlock; i += 16) {
    const __m512i code = _mm512_maskz_cvtepu8_epi32(0xFFFF, load(codes.exp_avg + i));
    const __m512i q = _mm512_sub_epi32(code, _mm512_set1_epi32(kSignedZero));
    const __m512i magnitude = _mm512_maskz_abs_epi32(0xFFFF, q);
    const __m512 m = decode_avx512(with_sign, _mm512_add_epi32(_mm512_add_epi32(magnitude, magnitude), one));
    const __m512 sign = _mm512_and_ps(_mm512_castsi512_ps(q), _mm512_set1_ps(-0.0F));
    _mm512_store_ps(exp_avg + i, _mm512_mul_ps(_mm512_or_ps(m, sign), scale_m));
    const __m512i n = _mm512_add_epi32(_mm512_maskz_cvtepu8_epi32(0xFFFF, load(codes.root + i)), one);
    _mm512_store_ps(root + i, _mm512_mul_ps(decode_avx512(without_sign, n), scale_r));
  }
}

[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void encode_block_avx512(const float* exp_avg,
                                                                               const float* root,
                                                                               BlockScale inverse_scale,
                                                                               BlockCodes codes) {
  const MapAvx512 with_sign = load_avx512(kSignedCodes);
  const MapAvx512 without_sign = load_avx512(kUnsignedCodes);
  const __m512 inverse_m = _mm512_set1_ps(inverse_scale.exp_avg);
  const __m512 inverse_r = _mm512_set1_ps(inverse_scale.root);
  for (std::int64_t i = 0; i < kStateBlock; i += 16) {
    const __m512 m = _mm512_mul_ps(_mm512_load_ps(exp_avg + i), inverse_m);
    const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(m));
    const __m512i q = encode_avx512(with_sign, _mm512_andnot_ps(_mm512_set1_ps(-0.0F), m));
    const __m512i zero = _mm512_set1_epi32(kSignedZero);
    const __m512i code = _mm512_mask_sub_epi32(_mm512_add_epi32(zero, q), negative, zero, q);
    // 127 - 128 is cut to 0.
    const __m512i cut = _mm512_maskz_max_epi32(0xFFFF, code, _mm512_setzero_si512());
    _mm512_mask_cvtepi32_storeu_epi8(codes.exp_avg + i, 0xFFFF, cut);
    const __m512i place = encode_avx512(without_sign, _mm512_mul_ps(_mm512_load_ps(root + i), inverse_r));
    _mm512_mask_cvtepi32_storeu_epi8(codes.root + i, 0xFFFF, place);
  }
}

}  // namespace lazytrain
