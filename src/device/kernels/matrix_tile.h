// The matrix product inside attention: small blocks in fast memory, one register tile of accumulators at a
// time. Every element of C is one chain of fused multiply-adds in the order of the depth, so neither the
// shape of the register tile nor the split of the depth into calls changes a bit.
#pragma once

#include "device/kernels/kernel.h"

namespace lazytrain::kernels {

// Where the accumulators start: at zero, at C, or at C with each row scaled.
enum class Start { zero, keep, scale };

// C[rows, lanes * vectors] = start + A[rows, depth] * B[depth, lanes * vectors].
// A is addressed by (row, depth) strides, so it may be transposed; B and C are rows of contiguous lanes.
template <typename V, Start kStart, int kRows, int kVectors, typename Real>
LAZYTRAIN_KERNEL void matrix_tile(std::int64_t depth, const Real* a, std::int64_t a_row, std::int64_t a_depth,
                                  const Real* b, std::int64_t b_row, Real* c, std::int64_t c_row,
                                  const Real* row_scale = nullptr) {
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kStart == Start::zero) {
        sum[r][v] = V(0);
      } else {
        sum[r][v] = V::load(c + r * c_row + v * V::kLanes);
        if constexpr (kStart == Start::scale) sum[r][v] = sum[r][v] * V(row_scale[r]);
      }
    }
  }
  for (std::int64_t d = 0; d < depth; ++d) {
    V right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) right[v] = V::load(b + d * b_row + v * V::kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V left(a[r * a_row + d * a_depth]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v].store(c + r * c_row + v * V::kLanes);
  }
}

// The same for any number of rows and columns: rows a multiple of V::kTileRows, columns of V::kLanes.
// Not inlined: it has a dozen callers, and is one function per V and so per instruction set.
template <typename V, Start kStart, typename Real>
[[gnu::noinline]] void matrix_product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                      const Real* a, std::int64_t a_row, std::int64_t a_depth, const Real* b,
                                      std::int64_t b_row, Real* c, std::int64_t c_row,
                                      const Real* row_scale = nullptr) {
  constexpr int kWide = V::kTileVectors * V::kLanes;
  for (std::int64_t r = 0; r < rows; r += V::kTileRows) {
    const Real* left = a + r * a_row;
    const Real* scale = kStart == Start::scale ? row_scale + r : nullptr;
    std::int64_t column = 0;
    for (; column + kWide <= columns; column += kWide) {
      matrix_tile<V, kStart, V::kTileRows, V::kTileVectors>(depth, left, a_row, a_depth, b + column, b_row,
                                                            c + r * c_row + column, c_row, scale);
    }
    if constexpr (V::kTileVectors > 1) {
      for (; column < columns; column += V::kLanes) {
        matrix_tile<V, kStart, V::kTileRows, 1>(depth, left, a_row, a_depth, b + column, b_row,
                                                c + r * c_row + column, c_row, scale);
      }
    }
  }
}

}  // namespace lazytrain::kernels
