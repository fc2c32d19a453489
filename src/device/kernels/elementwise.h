// Kernels whose elements do not meet: rotary embedding, SwiGLU, addition, gradient conversion.
#pragma once

#include "device/kernels/lane_team.h"
#include "device/kernels/math.h"

namespace lazytrain::kernels {

// Rotary position embedding of one head (J. Su et al., 2021; Hugging Face's "rotate half" pairing of i with
// i + half): (a, b) -> (a cos - b sin, b cos + a sin), in place. sign = -1 rotates back.
template <typename Team, typename T, typename Table>
LAZYTRAIN_KERNEL void rope(const Team& team, std::int64_t half, typename Team::Real sign, const Table* cosine,
                           const Table* sine, T* head) {
  using V = typename Team::Value;
  team.each(half, [&](auto i) {
    const V c = team.load(cosine, i);
    const V s = team.load(sine, i) * V(sign);
    const V a = team.load(head, i);
    const V b = team.load(head + half, i);
    team.store(head, i, a * c - b * s);
    team.store(head + half, i, b * c + a * s);
  });
}

// One row: act = silu(gate) up with silu(g) = g sigmoid(g).
template <typename Team, typename T>
LAZYTRAIN_KERNEL void swiglu_forward(const Team& team, std::int64_t width, const T* gate, const T* up,
                                     T* act) {
  using V = typename Team::Value;
  team.each(width, [&](auto i) {
    const V g = team.load(gate, i);
    team.store(act, i, (g * sigmoid(g)) * team.load(up, i));
  });
}

// One row: silu'(g) = s (1 + g (1 - s)), s = sigmoid(g). dgate and dup may be gate and up themselves.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void swiglu_backward(const Team& team, std::int64_t width, const T* gate, const T* up,
                                      const T* dact, T* dgate, T* dup) {
  using V = typename Team::Value;
  team.each(width, [&](auto i) {
    const V g = team.load(gate, i);
    const V u = team.load(up, i);
    const V d = team.load(dact, i);
    const V s = sigmoid(g);
    team.store(dgate, i, (d * u) * (s * fma(g, V(1) - s, V(1))));
    team.store(dup, i, d * (g * s));
  });
}

template <typename Team, typename T>
LAZYTRAIN_KERNEL void add(const Team& team, std::int64_t elements, const T* a, const T* b, T* out) {
  team.each(elements, [&](auto i) { team.store(out, i, team.load(a, i) + team.load(b, i)); });
}

template <typename Team, typename T, typename Sum>
LAZYTRAIN_KERNEL void round(const Team& team, std::int64_t elements, const Sum* x, T* out) {
  team.each(elements, [&](auto i) { team.store(out, i, team.load(x, i)); });
}

// dst = round(src); returns the sum of squares of the rounded values in double.
template <typename Team, typename T, typename Sum>
LAZYTRAIN_KERNEL double convert_and_square(const Team& team, std::int64_t elements, const Sum* src, T* dst) {
  return team.sum_of_squares(elements, [&](auto i) {
    const auto rounded = team.load(src, i).template rounded<T>();
    team.store(dst, i, rounded);
    return rounded;
  });
}

}  // namespace lazytrain::kernels
