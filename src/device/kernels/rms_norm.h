// RMSNorm (B. Zhang, R. Sennrich, 2019) with the roundings of Hugging Face's LlamaRMSNorm:
//   r = 1 / sqrt(mean(x^2) + epsilon),  h = round(x r),  y = round(h w).
// Backward, with g = dy w and the rounding of h taken as the identity:
//   dx = r (g - x r mean(g x r)) + residual,  dw = sum over rows of dy h.
#pragma once

#include "device/kernels/lane_team.h"

namespace lazytrain::kernels {

template <typename Team, typename T>
LAZYTRAIN_KERNEL typename Team::Real inverse_rms(const Team& team, std::int64_t width,
                                                 typename Team::Real epsilon, const T* x) {
  using V = typename Team::Value;
  const auto squares = team.sum(width, [&](auto i) {
    const V v = team.load(x, i);
    return v * v;
  });
  const V mean = V(squares / static_cast<typename Team::Real>(width));
  return (V(1) / square_root(mean + V(epsilon))).lane0();
}

// One row.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void rms_norm_forward(const Team& team, std::int64_t width, typename Team::Real epsilon,
                                       const T* x, const T* weight, T* y) {
  using V = typename Team::Value;
  const V r(inverse_rms(team, width, epsilon, x));
  team.each(width, [&](auto i) {
    const V h = (team.load(x, i) * r).template rounded<T>();
    team.store(y, i, h * team.load(weight, i));
  });
}

// One row; `inverse` = its inverse_rms. `residual` may be null, and dx may be the same memory as residual, x
// or dy.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void rms_norm_backward(const Team& team, std::int64_t width, typename Team::Real inverse,
                                        const T* x, const T* weight, const T* dy, const T* residual, T* dx) {
  using V = typename Team::Value;
  using Real = typename Team::Real;
  const V r(inverse);
  const Real dot = team.sum(
      width, [&](auto i) { return (team.load(dy, i) * team.load(weight, i)) * (team.load(x, i) * r); });
  const V mean(dot / static_cast<Real>(width));
  if (residual != nullptr) {
    team.each(width, [&](auto i) {
      const V h = team.load(x, i) * r;
      const V gradient = r * (team.load(dy, i) * team.load(weight, i) - h * mean);
      team.store(dx, i, team.load(residual, i) + gradient);
    });
  } else {
    team.each(width, [&](auto i) {
      const V h = team.load(x, i) * r;
      team.store(dx, i, r * (team.load(dy, i) * team.load(weight, i) - h * mean));
    });
  }
}

// Adds one slot's sum over rows to dweight, for `columns` neighbouring columns; pointers point at the first
// of them, `width` is the distance between rows, inverse[rows] = inverse_rms of each row.
template <typename Team, typename T, typename Sum>
LAZYTRAIN_KERNEL void rms_norm_weight_gradient(const Team& team, std::int64_t rows, std::int64_t columns,
                                               std::int64_t width, const T* x, const T* dy,
                                               const Sum* inverse, Sum* dweight) {
  using V = typename Team::Value;
  team.each(columns, [&](auto c) {
    V total(0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const V h = (team.load(x + row * width, c) * V(inverse[row])).template rounded<T>();
      total = fma(team.load(dy + row * width, c), h, total);
    }
    team.store(dweight, c, team.load(dweight, c) + total);
  });
}

// The same for a bias: dbias += sum over one slot's rows of dy.
template <typename Team, typename T, typename Sum>
LAZYTRAIN_KERNEL void bias_gradient(const Team& team, std::int64_t rows, std::int64_t columns,
                                    std::int64_t width, const T* dy, Sum* dbias) {
  using V = typename Team::Value;
  team.each(columns, [&](auto c) {
    V total(0);
    for (std::int64_t row = 0; row < rows; ++row) total = total + team.load(dy + row * width, c);
    team.store(dbias, c, team.load(dbias, c) + total);
  });
}

}  // namespace lazytrain::kernels
