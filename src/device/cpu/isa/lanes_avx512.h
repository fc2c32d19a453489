// Sixteen floats in one AVX-512 register. Members and results are those of kernels::ArrayLanes<float>.
#pragma once

#include <immintrin.h>

#include "device/kernels/kernel.h"

namespace lazytrain::LAZYTRAIN_ISA {

struct FloatLanes {
  using Real = float;
  static constexpr int kLanes = 16;
  static constexpr int kTileRows = 8;
  static constexpr int kTileVectors = 2;

  __m512 v;

  FloatLanes() = default;
  LAZYTRAIN_KERNEL FloatLanes(float x) : v(_mm512_set1_ps(x)) {}  // NOLINT(google-explicit-constructor)
  LAZYTRAIN_KERNEL explicit FloatLanes(__m512 x) : v(x) {}

  LAZYTRAIN_KERNEL static __mmask16 mask(int count) { return static_cast<__mmask16>((1u << count) - 1u); }

  LAZYTRAIN_KERNEL static FloatLanes load(const float* p) { return FloatLanes(_mm512_loadu_ps(p)); }
  LAZYTRAIN_KERNEL static FloatLanes load(const bfloat16* p) {
    return from_upper(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  LAZYTRAIN_KERNEL static FloatLanes load(const float* p, int count) {
    return FloatLanes(_mm512_maskz_loadu_ps(mask(count), p));
  }
  LAZYTRAIN_KERNEL static FloatLanes load(const bfloat16* p, int count) {
    return from_upper(_mm256_maskz_loadu_epi16(mask(count), p));
  }
  LAZYTRAIN_KERNEL void store(float* p) const { _mm512_storeu_ps(p, v); }
  LAZYTRAIN_KERNEL void store(bfloat16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(upper()));
  }
  LAZYTRAIN_KERNEL void store(float* p, int count) const { _mm512_mask_storeu_ps(p, mask(count), v); }
  LAZYTRAIN_KERNEL void store(bfloat16* p, int count) const {
    _mm256_mask_storeu_epi16(p, mask(count), _mm512_cvtepi32_epi16(upper()));
  }
  template <typename T>
  LAZYTRAIN_KERNEL FloatLanes rounded() const {
    if constexpr (sizeof(T) == 4) {
      return *this;
    } else {
      return FloatLanes(_mm512_castsi512_ps(_mm512_slli_epi32(upper(), 16)));
    }
  }
  LAZYTRAIN_KERNEL FloatLanes first(int count) const {
    return FloatLanes(_mm512_maskz_mov_ps(mask(count), v));
  }
  LAZYTRAIN_KERNEL static FloatLanes iota() {
    return FloatLanes(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  }
  LAZYTRAIN_KERNEL float sum() const {
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
  }
  LAZYTRAIN_KERNEL float maximum() const {
    const __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
  }
  LAZYTRAIN_KERNEL float lane0() const { return _mm512_cvtss_f32(v); }

  struct Wide {
    __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
    LAZYTRAIN_KERNEL void add_square(const FloatLanes& x) {
      const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
      const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1));
      low = _mm512_add_pd(low, _mm512_mul_pd(a, a));
      high = _mm512_add_pd(high, _mm512_mul_pd(b, b));
    }
    LAZYTRAIN_KERNEL double sum() const {
      const __m512d a = _mm512_add_pd(low, high);
      const __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
      const __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
      return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
    }
  };

 private:
  LAZYTRAIN_KERNEL static FloatLanes from_upper(__m256i bits) {
    return FloatLanes(_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16)));
  }
  // The lanes as bfloat16, to nearest even, in the lower halves of 32-bit lanes.
  LAZYTRAIN_KERNEL __m512i upper() const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i shifted = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(shifted, _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd), 16);
    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), shifted,
                                _mm512_set1_epi32(0x40));
  }
};

LAZYTRAIN_KERNEL FloatLanes operator+(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_add_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes operator-(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_sub_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes operator*(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_mul_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes operator/(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_div_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes fma(const FloatLanes& a, const FloatLanes& b, const FloatLanes& c) {
  return FloatLanes(_mm512_fmadd_ps(a.v, b.v, c.v));
}
LAZYTRAIN_KERNEL FloatLanes larger_of(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_max_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes smaller_of(const FloatLanes& a, const FloatLanes& b) {
  return FloatLanes(_mm512_min_ps(a.v, b.v));
}
LAZYTRAIN_KERNEL FloatLanes square_root(const FloatLanes& a) {
  return FloatLanes(_mm512_sqrt_ps(a.v));
}
LAZYTRAIN_KERNEL FloatLanes select_between(const FloatLanes& low, const FloatLanes& x, const FloatLanes& high,
                                           const FloatLanes& yes, const FloatLanes& no) {
  const __mmask16 below = _mm512_cmp_ps_mask(low.v, x.v, _CMP_LE_OQ);
  const __mmask16 inside = _mm512_mask_cmp_ps_mask(below, x.v, high.v, _CMP_LE_OQ);
  return FloatLanes(_mm512_mask_blend_ps(inside, no.v, yes.v));
}
LAZYTRAIN_KERNEL FloatLanes round_integral(const FloatLanes& x) {
  return FloatLanes(_mm512_roundscale_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LAZYTRAIN_KERNEL FloatLanes scale_by_power(const FloatLanes& x, const FloatLanes& n) {
  return FloatLanes(_mm512_scalef_ps(x.v, n.v));
}
LAZYTRAIN_KERNEL void split_exponent(const FloatLanes& x, FloatLanes& mantissa, FloatLanes& exponent) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i e = _mm512_srai_epi32(_mm512_sub_epi32(bits, _mm512_set1_epi32(0x3F3504F3)), 23);
  mantissa.v = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(e, 23)));
  exponent.v = _mm512_cvtepi32_ps(e);
}

}  // namespace lazytrain::LAZYTRAIN_ISA
