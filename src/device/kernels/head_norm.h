// RMSNorm of every query head and every key head of a row of qkv by itself (Qwen3's q_norm and k_norm): the
// formulas and roundings of device/kernels/rms_norm.h with head_dim in the place of the width.
#pragma once

#include "device/kernels/rms_norm.h"

namespace lazytrain::kernels {

struct HeadNormShape {
  std::int64_t heads, kv_heads, head_dim;

  LAZYTRAIN_KERNEL std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  // Of all query heads; those of the keys follow.
  LAZYTRAIN_KERNEL std::int64_t values() const { return (heads + kv_heads) * head_dim; }
};

// One row. y may be x.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void head_norm_forward(const Team& team, const HeadNormShape& shape,
                                        typename Team::Real epsilon, const T* x, const T* query_weight,
                                        const T* key_weight, T* y) {
  const std::int64_t dim = shape.head_dim;
  for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head)
    rms_norm_forward(team, dim, epsilon, x + head * dim, head < shape.heads ? query_weight : key_weight,
                     y + head * dim);
  if (y == x) return;
  const T* values = x + shape.values();
  T* out = y + shape.values();
  team.each(shape.kv_heads * dim, [&](auto i) { team.store(out, i, team.load(values, i)); });
}

// `rows` rows of one slot: the gradient d_x of y becomes that of x, in place. sums[2][head_dim]: what these
// rows add to the gradients of the two weights, rows and heads ascending.
template <typename Team, typename T, typename Sum>
LAZYTRAIN_KERNEL void head_norm_backward(const Team& team, const HeadNormShape& shape, std::int64_t rows,
                                         typename Team::Real epsilon, const T* x, const T* query_weight,
                                         const T* key_weight, T* d_x, Sum* sums) {
  using V = typename Team::Value;
  const std::int64_t dim = shape.head_dim;
  team.each(2 * dim, [&](auto i) { team.store(sums, i, V(0)); });
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {
      const bool query = head < shape.heads;
      const T* in = x + row * shape.row() + head * dim;
      T* gradient = d_x + row * shape.row() + head * dim;
      Sum* sum = query ? sums : sums + dim;
      const auto inverse = inverse_rms(team, dim, epsilon, in);
      rms_norm_weight_gradient(team, 1, dim, dim, in, gradient, &inverse, sum);
      rms_norm_backward(team, dim, inverse, in, query ? query_weight : key_weight, gradient,
                        static_cast<const T*>(nullptr), gradient);
    }
  }
}

// Adds the sums of one slot's pieces, in order, to d_weight, for `columns` neighbouring columns; `stride` is
// the distance between the pieces' sums.
template <typename Team, typename Sum>
LAZYTRAIN_KERNEL void add_piece_sums(const Team& team, std::int64_t pieces, std::int64_t columns,
                                     std::int64_t stride, const Sum* sums, Sum* d_weight) {
  using V = typename Team::Value;
  team.each(columns, [&](auto c) {
    V total(0);
    for (std::int64_t piece = 0; piece < pieces; ++piece) total = total + team.load(sums + piece * stride, c);
    team.store(d_weight, c, team.load(d_weight, c) + total);
  });
}

}  // namespace lazytrain::kernels
