// Lanes: sixteen numbers on which arithmetic works elementwise, the CPU's unit of work in every kernel.
// The width is a property of the kernels, not of the processor: sums run over sixteen lanes on every
// instruction set, so the bits are the same everywhere. This is the portable form, an array; the AVX
// forms (device/cpu/isa) have the same members and the same results, bit for bit.
//
// Real = float for training, double for the finite-difference tests.
#pragma once

#include "device/kernels/kernel.h"

namespace lazytrain::kernels {

// a * b + c with one rounding, on processors that have no such instruction: the product is exact in
// double; the sum is rounded to odd (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded
// sums", 2008), after which rounding to float is the only rounding that counts.
LAZYTRAIN_KERNEL float fused_multiply_add(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  const double product = static_cast<double>(a) * b;
  const double addend = c;
  const double sum = product + addend;
  const double part = sum - product;
  const double error = (product - (sum - part)) + (addend - part);
  const auto bits = __builtin_bit_cast(std::int64_t, sum);
  const std::int64_t away = (error > 0) == (sum > 0) ? 1 : -1;
  const bool adjust = (error > 0 || error < 0) && (bits & 1) == 0;  // false for NaN
  return static_cast<float>(__builtin_bit_cast(double, adjust ? bits + away : bits));
#endif
}
LAZYTRAIN_KERNEL double fused_multiply_add(double a, double b, double c) {
  return __builtin_fma(a, b, c);
}

template <typename RealType>
struct ArrayLanes {
  using Real = RealType;
  static constexpr int kLanes = 16;
  // Register tile of the matrix product (attention): rows x vectors of accumulators.
  static constexpr int kTileRows = 2;
  static constexpr int kTileVectors = 1;

  Real v[kLanes];

  ArrayLanes() = default;
  LAZYTRAIN_KERNEL ArrayLanes(Real x) {  // NOLINT(google-explicit-constructor): scalars mix with lanes
    for (Real& lane : v) lane = x;
  }

  template <typename T>
  LAZYTRAIN_KERNEL static ArrayLanes load(const T* p) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = widen(p[l]);
    return r;
  }
  // The first `count` elements, zeros after them.
  template <typename T>
  LAZYTRAIN_KERNEL static ArrayLanes load(const T* p, int count) {
    ArrayLanes r(0);
    for (int l = 0; l < count; ++l) r.v[l] = widen(p[l]);
    return r;
  }
  template <typename T>
  LAZYTRAIN_KERNEL void store(T* p) const {
    for (int l = 0; l < kLanes; ++l) narrow(v[l], p[l]);
  }
  template <typename T>
  LAZYTRAIN_KERNEL void store(T* p, int count) const {
    for (int l = 0; l < count; ++l) narrow(v[l], p[l]);
  }
  // As it would be read back after a store to T.
  template <typename T>
  LAZYTRAIN_KERNEL ArrayLanes rounded() const {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) {
      T stored;
      narrow(v[l], stored);
      r.v[l] = widen(stored);
    }
    return r;
  }
  // Lanes from `count` on become zero.
  LAZYTRAIN_KERNEL ArrayLanes first(int count) const {
    ArrayLanes r(0);
    for (int l = 0; l < count; ++l) r.v[l] = v[l];
    return r;
  }
  LAZYTRAIN_KERNEL static ArrayLanes iota() {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = static_cast<Real>(l);
    return r;
  }
  // Reductions over the lanes as a tree of halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
  LAZYTRAIN_KERNEL Real sum() const {
    Real t[8];
    for (int l = 0; l < 8; ++l) t[l] = v[l] + v[l + 8];
    for (int l = 0; l < 4; ++l) t[l] = t[l] + t[l + 4];
    for (int l = 0; l < 2; ++l) t[l] = t[l] + t[l + 2];
    return t[0] + t[1];
  }
  LAZYTRAIN_KERNEL Real maximum() const {
    Real m = v[0];
    for (int l = 1; l < kLanes; ++l) m = m > v[l] ? m : v[l];
    return m;
  }
  LAZYTRAIN_KERNEL Real lane0() const { return v[0]; }

  // Sums of squares in double, lane by lane.
  struct Wide {
    double v[kLanes];
    LAZYTRAIN_KERNEL Wide() {
      for (double& lane : v) lane = 0;
    }
    LAZYTRAIN_KERNEL void add_square(const ArrayLanes& x) {
      for (int l = 0; l < kLanes; ++l) v[l] += static_cast<double>(x.v[l]) * static_cast<double>(x.v[l]);
    }
    LAZYTRAIN_KERNEL double sum() const {
      double t[8];
      for (int l = 0; l < 8; ++l) t[l] = v[l] + v[l + 8];
      for (int l = 0; l < 4; ++l) t[l] = t[l] + t[l + 4];
      for (int l = 0; l < 2; ++l) t[l] = t[l] + t[l + 2];
      return t[0] + t[1];
    }
  };

  friend LAZYTRAIN_KERNEL ArrayLanes operator+(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] + b.v[l];
    return r;
  }
  friend LAZYTRAIN_KERNEL ArrayLanes operator-(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] - b.v[l];
    return r;
  }
  friend LAZYTRAIN_KERNEL ArrayLanes operator*(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] * b.v[l];
    return r;
  }
  friend LAZYTRAIN_KERNEL ArrayLanes operator/(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] / b.v[l];
    return r;
  }
  friend LAZYTRAIN_KERNEL ArrayLanes fma(const ArrayLanes& a, const ArrayLanes& b, const ArrayLanes& c) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = fused_multiply_add(a.v[l], b.v[l], c.v[l]);
    return r;
  }
  // a > b ? a : b, so a NaN in either gives b.
  friend LAZYTRAIN_KERNEL ArrayLanes larger_of(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] > b.v[l] ? a.v[l] : b.v[l];
    return r;
  }
  // a < b ? a : b.
  friend LAZYTRAIN_KERNEL ArrayLanes smaller_of(const ArrayLanes& a, const ArrayLanes& b) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = a.v[l] < b.v[l] ? a.v[l] : b.v[l];
    return r;
  }
  friend LAZYTRAIN_KERNEL ArrayLanes square_root(const ArrayLanes& a) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) {
      if constexpr (sizeof(Real) == 4) {
        r.v[l] = __builtin_sqrtf(a.v[l]);
      } else {
        r.v[l] = __builtin_sqrt(a.v[l]);
      }
    }
    return r;
  }
  // low <= x <= high ? yes : no, lane by lane.
  friend LAZYTRAIN_KERNEL ArrayLanes select_between(const ArrayLanes& low, const ArrayLanes& x,
                                                    const ArrayLanes& high, const ArrayLanes& yes,
                                                    const ArrayLanes& no) {
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l)
      r.v[l] = (low.v[l] <= x.v[l]) & (x.v[l] <= high.v[l]) ? yes.v[l] : no.v[l];
    return r;
  }

  // The steps below serve device/kernels/math.h and exist for float alone.

  // To the nearest integer, ties to even; |x| < 2^22.
  friend LAZYTRAIN_KERNEL ArrayLanes round_integral(const ArrayLanes& x) {
    static_assert(sizeof(Real) == 4);
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) r.v[l] = (x.v[l] + 12582912.0f) - 12582912.0f;
    return r;
  }
  // x * 2^n for x near 1 and integral n in -252..254, rounded once; NaN in n does not matter where x is NaN.
  friend LAZYTRAIN_KERNEL ArrayLanes scale_by_power(const ArrayLanes& x, const ArrayLanes& n) {
    static_assert(sizeof(Real) == 4);
    ArrayLanes r;
    for (int l = 0; l < kLanes; ++l) {
      // The sum's low bits are n; two factors, because 2^n itself may be no float.
      const auto biased = __builtin_bit_cast(std::int32_t, n.v[l] + 12582912.0f) - 0x4B400000;
      const std::int32_t half = biased >> 1;
      const auto first = __builtin_bit_cast(float, (half + 127) << 23);
      const auto second = __builtin_bit_cast(float, (biased - half + 127) << 23);
      r.v[l] = (x.v[l] * first) * second;
    }
    return r;
  }
  // x = mantissa * 2^exponent with mantissa in [sqrt(1/2), sqrt(2)), for positive normal x.
  friend LAZYTRAIN_KERNEL void split_exponent(const ArrayLanes& x, ArrayLanes& mantissa,
                                              ArrayLanes& exponent) {
    static_assert(sizeof(Real) == 4);
    for (int l = 0; l < kLanes; ++l) {
      const auto bits = __builtin_bit_cast(std::int32_t, x.v[l]);
      const std::int32_t e = (bits - 0x3F3504F3) >> 23;  // 0x3F3504F3 = sqrt(1/2)
      mantissa.v[l] = __builtin_bit_cast(float, bits - (e << 23));
      exponent.v[l] = static_cast<float>(e);
    }
  }
};

}  // namespace lazytrain::kernels
