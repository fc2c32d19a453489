// Sixteen floats in two AVX2 registers. Members and results are those of kernels::ArrayLanes<float>.
#pragma once

#include <immintrin.h>

#include "device/kernels/kernel.h"

namespace lazytrain::LAZYTRAIN_ISA {

struct FloatLanes {
  using Real = float;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 4;
  static constexpr int kTileVectors = 1;

  __m256 low, high;

  FloatLanes() = default;
  LAZYTRAIN_KERNEL FloatLanes(float x)  // NOLINT(google-explicit-constructor)
      : low(_mm256_set1_ps(x)), high(low) {}
  LAZYTRAIN_KERNEL FloatLanes(__m256 a, __m256 b) : low(a), high(b) {}

  // Lanes below count: all ones.
  LAZYTRAIN_KERNEL static __m256i mask(int count, int lane0) {
    const __m256i lanes =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(lane0));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lanes);
  }

  LAZYTRAIN_KERNEL static FloatLanes load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  LAZYTRAIN_KERNEL static FloatLanes load(const bfloat16* p) {
    return {from_upper(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            from_upper(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  LAZYTRAIN_KERNEL static FloatLanes load(const float* p, int count) {
    return {_mm256_maskload_ps(p, mask(count, 0)), _mm256_maskload_ps(p + 8, mask(count, 8))};
  }
  LAZYTRAIN_KERNEL static FloatLanes load(const bfloat16* p, int count) {
    bfloat16 copy[kLanes] = {};
    for (int l = 0; l < count; ++l) copy[l] = p[l];
    return load(copy);
  }
  LAZYTRAIN_KERNEL void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  LAZYTRAIN_KERNEL void store(bfloat16* p) const {
    const __m256i packed = _mm256_packus_epi32(upper(low), upper(high));  // interleaves halves
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
  }
  LAZYTRAIN_KERNEL void store(float* p, int count) const {
    _mm256_maskstore_ps(p, mask(count, 0), low);
    _mm256_maskstore_ps(p + 8, mask(count, 8), high);
  }
  LAZYTRAIN_KERNEL void store(bfloat16* p, int count) const {
    bfloat16 copy[kLanes];
    store(copy);
    for (int l = 0; l < count; ++l) p[l] = copy[l];
  }
  template <typename T>
  LAZYTRAIN_KERNEL FloatLanes rounded() const {
    if constexpr (sizeof(T) == 4) {
      return *this;
    } else {
      return {_mm256_castsi256_ps(_mm256_slli_epi32(upper(low), 16)),
              _mm256_castsi256_ps(_mm256_slli_epi32(upper(high), 16))};
    }
  }
  LAZYTRAIN_KERNEL FloatLanes first(int count) const {
    return {_mm256_and_ps(low, _mm256_castsi256_ps(mask(count, 0))),
            _mm256_and_ps(high, _mm256_castsi256_ps(mask(count, 8)))};
  }
  LAZYTRAIN_KERNEL static FloatLanes iota() {
    return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  LAZYTRAIN_KERNEL float sum() const {
    const __m256 a = _mm256_add_ps(low, high);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  LAZYTRAIN_KERNEL float maximum() const {
    const __m256 a = _mm256_max_ps(low, high);
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  LAZYTRAIN_KERNEL float lane0() const { return _mm256_cvtss_f32(low); }

  struct Wide {
    __m256d v[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    LAZYTRAIN_KERNEL static __m256d add(__m256d total, __m128 x) {
      const __m256d wide = _mm256_cvtps_pd(x);
      return _mm256_add_pd(total, _mm256_mul_pd(wide, wide));
    }
    LAZYTRAIN_KERNEL void add_square(const FloatLanes& x) {
      v[0] = add(v[0], _mm256_castps256_ps128(x.low));
      v[1] = add(v[1], _mm256_extractf128_ps(x.low, 1));
      v[2] = add(v[2], _mm256_castps256_ps128(x.high));
      v[3] = add(v[3], _mm256_extractf128_ps(x.high, 1));
    }
    LAZYTRAIN_KERNEL double sum() const {
      const __m256d b = _mm256_add_pd(_mm256_add_pd(v[0], v[2]), _mm256_add_pd(v[1], v[3]));
      const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
      return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
    }
  };

 private:
  LAZYTRAIN_KERNEL static __m256 from_upper(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  // Eight lanes as bfloat16, to nearest even, in the lower halves of 32-bit lanes.
  LAZYTRAIN_KERNEL static __m256i upper(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i shifted = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(shifted, _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_or_si256(shifted, _mm256_set1_epi32(0x40)), nan);
  }
};

LAZYTRAIN_KERNEL FloatLanes operator+(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes operator-(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes operator*(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes operator/(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes fma(const FloatLanes& a, const FloatLanes& b, const FloatLanes& c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
LAZYTRAIN_KERNEL FloatLanes larger_of(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes smaller_of(const FloatLanes& a, const FloatLanes& b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
LAZYTRAIN_KERNEL FloatLanes square_root(const FloatLanes& a) {
  return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)};
}
LAZYTRAIN_KERNEL __m256 select_between(__m256 low, __m256 x, __m256 high, __m256 yes, __m256 no) {
  const __m256 inside = _mm256_and_ps(_mm256_cmp_ps(low, x, _CMP_LE_OQ), _mm256_cmp_ps(x, high, _CMP_LE_OQ));
  return _mm256_blendv_ps(no, yes, inside);
}
LAZYTRAIN_KERNEL FloatLanes select_between(const FloatLanes& low, const FloatLanes& x, const FloatLanes& high,
                                           const FloatLanes& yes, const FloatLanes& no) {
  return {select_between(low.low, x.low, high.low, yes.low, no.low),
          select_between(low.high, x.high, high.high, yes.high, no.high)};
}
LAZYTRAIN_KERNEL FloatLanes round_integral(const FloatLanes& x) {
  return {_mm256_round_ps(x.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// Two factors, because 2^n itself may be no float; the first product is exact.
LAZYTRAIN_KERNEL __m256 scale_by_power(__m256 x, __m256 n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}
LAZYTRAIN_KERNEL FloatLanes scale_by_power(const FloatLanes& x, const FloatLanes& n) {
  return {scale_by_power(x.low, n.low), scale_by_power(x.high, n.high)};
}
LAZYTRAIN_KERNEL void split_exponent(__m256 x, __m256& mantissa, __m256& exponent) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(bits, _mm256_set1_epi32(0x3F3504F3)), 23);
  mantissa = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(e, 23)));
  exponent = _mm256_cvtepi32_ps(e);
}
LAZYTRAIN_KERNEL void split_exponent(const FloatLanes& x, FloatLanes& mantissa, FloatLanes& exponent) {
  split_exponent(x.low, mantissa.low, exponent.low);
  split_exponent(x.high, mantissa.high, exponent.high);
}

}  // namespace lazytrain::LAZYTRAIN_ISA
