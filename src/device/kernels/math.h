// exp, exp2 and log on lanes, from exact operations and explicit fused multiply-adds alone, so that their
// bits are the same on every processor. Errors (tests/device/kernel_math_test.cpp): at most 2 units in the
// last place. Infinities, NaN, overflow and gradual underflow behave as in the standard library.
//
// The polynomials are weighted least-squares fits (Lawson's iteration) of this project, made in 40 digits.
#pragma once

#include "device/kernels/kernel.h"

namespace lazytrain::kernels {

template <typename V, typename F>
LAZYTRAIN_KERNEL V lane_by_lane(const V& x, F f) {
  V r;
  for (int l = 0; l < V::kLanes; ++l) r.v[l] = f(x.v[l]);
  return r;
}

// 2^x.
template <typename V>
LAZYTRAIN_KERNEL V exp2(V x) {
  if constexpr (sizeof(typename V::Real) == 8) {
    return lane_by_lane(x, [](double y) { return __builtin_exp2(y); });
  } else {
    // The bounds lie beyond underflow to zero and overflow to infinity; a NaN passes both.
    x = smaller_of(V(130.0f), larger_of(V(-152.0f), x));
    const V n = round_integral(x);
    const V r = x - n;  // exact
    V p = fma(V(0x1.41f982p-13f), r, V(0x1.5f3f20p-10f));
    p = fma(p, r, V(0x1.3b2d52p-7f));
    p = fma(p, r, V(0x1.c6aee8p-5f));
    p = fma(p, r, V(0x1.ebfbdcp-3f));
    p = fma(p, r, V(0x1.62e430p-1f));
    p = fma(p, r, V(1.0f));
    return scale_by_power(p, n);
  }
}

// e^x.
template <typename V>
LAZYTRAIN_KERNEL V exp(V x) {
  if constexpr (sizeof(typename V::Real) == 8) {
    return lane_by_lane(x, [](double y) { return __builtin_exp(y); });
  } else {
    x = smaller_of(V(90.0f), larger_of(V(-105.0f), x));
    const V n = round_integral(x * V(0x1.715476p+0f));
    // ln 2 in two parts; n times the first is exact.
    V r = fma(n, V(-0x1.62e400p-1f), x);
    r = fma(n, V(-0x1.7f7d1cp-20f), r);
    V p = fma(V(0x1.6ae4aep-10f), r, V(0x1.126822p-7f));
    p = fma(p, r, V(0x1.555828p-5f));
    p = fma(p, r, V(0x1.555418p-3f));
    p = fma(p, r, V(0x1.fffffcp-2f));
    p = fma(p, r, V(1.0f));
    p = fma(p, r, V(1.0f));
    return scale_by_power(p, n);
  }
}

// Natural logarithm of positive normal numbers (sums of exponentials, which are at least one).
template <typename V>
LAZYTRAIN_KERNEL V log(V x) {
  if constexpr (sizeof(typename V::Real) == 8) {
    return lane_by_lane(x, [](double y) { return __builtin_log(y); });
  } else {
    V m, e;
    split_exponent(x, m, e);
    // log m = 2 atanh(s), s = (m - 1) / (m + 1): an odd series in s.
    const V f = m - V(1.0f);
    const V s = f / (m + V(1.0f));
    const V z = s * s;
    V p = fma(V(0x1.320644p-2f), z, V(0x1.995d84p-2f));
    p = fma(p, z, V(0x1.55557cp-1f));
    // 2 s = f - s f, whose first term is exact.
    const V tail = fma(p, s * z, V(0.0f) - s * f);
    const V low = fma(e, V(0x1.7f7d1cp-20f), tail) + f;
    const V result = fma(e, V(0x1.62e400p-1f), low);
    // NaN and infinity have no exponent to split: they pass through.
    return select_between(V(0.0f), x, V(0x1.fffffep+127f), result, x);
  }
}

template <typename V>
LAZYTRAIN_KERNEL V sigmoid(const V& x) {
  return V(1) / (V(1) + exp(V(0) - x));
}

}  // namespace lazytrain::kernels
