// What attention's forward, backward and decoding share: sizes of blocks, which keys a query sees, and
// moving rows of heads into fp32 blocks.
//
// Attention works on blocks of 64 queries by 64 keys. Scores are kept transposed, [key, query]: sixteen
// queries to a vector, so that softmax needs no sums across lanes, and keys and values are used as they
// lie in memory. Scores are in units of log 2: queries are scaled by log2(e)/sqrt(head_dim), and exp2 is
// taken.
#pragma once

#include "device/kernels/kernel.h"
#include "device/kernels/math.h"
#include "device/kernels/matrix_tile.h"

namespace lazytrain::kernels {

inline constexpr std::int64_t kBlock = 64;       // queries and keys of one block
inline constexpr std::int64_t kQueryGroup = 32;  // queries whose scores are computed (or skipped) together
inline constexpr std::int64_t kSkipRows = 8;     // rows of products whose depth is cut to what they see
inline constexpr double kLog2E = 1.4426950408889634;
inline constexpr double kLn2 = 0.6931471805599453;

// Query heads of one key-value head that are worked on together, so that keys are converted once for them.
inline constexpr std::int64_t kHeadsTogether = 4;

struct AttentionShape {
  std::int64_t slot_rows, heads, kv_heads, head_dim;
  std::int64_t window = 0;  // keys that a query sees at most, with its own; 0 = all of its document

  // The first key that the query in `row` sees, where its document begins at `start`.
  LAZYTRAIN_KERNEL std::int64_t first_key(std::int64_t row, std::int64_t start) const {
    return window > 0 ? larger(start, row + 1 - window) : start;
  }
  LAZYTRAIN_KERNEL std::int64_t group() const { return heads / kv_heads; }
  LAZYTRAIN_KERNEL std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  LAZYTRAIN_KERNEL std::int64_t query(std::int64_t head) const { return head * head_dim; }
  LAZYTRAIN_KERNEL std::int64_t key(std::int64_t kv_head) const { return (heads + kv_head) * head_dim; }
  LAZYTRAIN_KERNEL std::int64_t value(std::int64_t kv_head) const {
    return (heads + kv_heads + kv_head) * head_dim;
  }
  // Width of a head in fp32 blocks: whole vectors, the rest zeros.
  LAZYTRAIN_KERNEL std::int64_t padded() const { return round_up(head_dim, 16); }
  LAZYTRAIN_KERNEL std::int64_t blocks() const { return (slot_rows + kBlock - 1) / kBlock; }
  LAZYTRAIN_KERNEL std::int64_t head_chunks() const {
    return (group() + kHeadsTogether - 1) / kHeadsTogether;
  }
};

// A half-open range.
struct Range {
  std::int64_t begin, end;
  LAZYTRAIN_KERNEL bool empty() const { return begin >= end; }
};

// The keys that each query of a block sees: first..last, rows of the slot. Lanes without a query see none.
template <typename Real>
struct BlockView {
  std::int32_t first[kBlock];
  std::int32_t last[kBlock];
  Real first_lane[kBlock];  // the same as numbers to compare with, exact up to 2^24
  Real last_lane[kBlock];
  std::int64_t query0;
  std::int64_t count;
  std::int64_t least_first, greatest_first;

  LAZYTRAIN_KERNEL void set(std::int64_t query_block, const AttentionShape& shape,
                            const std::int32_t* document_start) {
    query0 = query_block * kBlock;
    count = smaller(kBlock, shape.slot_rows - query0);
    least_first = shape.slot_rows;
    greatest_first = 0;
    for (std::int64_t i = 0; i < kBlock; ++i) {
      first[i] = 1;
      last[i] = -1;
      if (i < count) {
        const std::int64_t row = query0 + i;
        const std::int64_t start = shape.first_key(row, smaller(larger(document_start[row], 0), row));
        first[i] = static_cast<std::int32_t>(start);
        last[i] = static_cast<std::int32_t>(row);
        least_first = smaller(least_first, start);
        greatest_first = larger(greatest_first, start);
      }
      first_lane[i] = static_cast<Real>(first[i]);
      last_lane[i] = static_cast<Real>(last[i]);
    }
  }
  // Every query sees every key of the block that starts at key0.
  LAZYTRAIN_KERNEL bool sees_all(std::int64_t key0) const {
    return count == kBlock && greatest_first <= key0 && key0 + kBlock <= query0 + 1;
  }
  // The keys of the block at key0, counted from key0, that some query of [begin, begin + n) sees, as a
  // range of whole kSkipRows.
  LAZYTRAIN_KERNEL Range keys_of(std::int64_t begin, std::int64_t n, std::int64_t key0) const {
    std::int64_t low = kBlock, high = 0;
    for (std::int64_t i = begin; i < begin + n; ++i) {
      if (last[i] < key0 || first[i] >= key0 + kBlock || last[i] < first[i]) continue;
      low = smaller(low, larger(first[i] - key0, 0));
      high = larger(high, smaller(last[i] + 1 - key0, kBlock));
    }
    return {low / kSkipRows * kSkipRows, round_up(high, kSkipRows)};
  }
  // The queries of this block that see some of the keys [begin, begin + n) of the block at key0.
  LAZYTRAIN_KERNEL Range queries_of(std::int64_t begin, std::int64_t n, std::int64_t key0) const {
    std::int64_t low = kBlock, high = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      if (last[i] < key0 + begin || first[i] >= key0 + begin + n) continue;
      low = smaller(low, i);
      high = larger(high, i + 1);
    }
    return {low, high};
  }
};

// Rows of a head lie far apart (a whole qkv row or cache entry), which the processor does not foresee: they
// are asked for this many rows ahead. Past the end of the array that does no harm.
inline constexpr std::int64_t kPrefetchRows = 16;

// block[kBlock][padded] = rows of one head times `scale`; rows beyond count and columns beyond head_dim are
// 0.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void load_rows(const T* src, std::int64_t stride, std::int64_t count, std::int64_t head_dim,
                                Real scale, Real* block) {
  const std::int64_t padded = round_up(head_dim, 16);
  const V factor(scale);
  for (std::int64_t i = 0; i < kBlock; ++i) {
    Real* out = block + i * padded;
    std::int64_t d = 0;
    if (i < count) {
      const T* in = src + i * stride;
      for (std::int64_t line = 0; line < head_dim; line += 64 / static_cast<std::int64_t>(sizeof(T))) {
        __builtin_prefetch(in + kPrefetchRows * stride + line);
      }
      for (; d + V::kLanes <= head_dim; d += V::kLanes) (V::load(in + d) * factor).store(out + d);
      if (d < head_dim) (V::load(in + d, static_cast<int>(head_dim - d)) * factor).store(out + d);
    } else {
      for (; d < padded; d += V::kLanes) V(0).store(out + d);
    }
  }
}

// dst = rows of a block times `scale`.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void store_rows(const Real* block, std::int64_t count, std::int64_t head_dim, Real scale,
                                 T* dst, std::int64_t stride) {
  const std::int64_t padded = round_up(head_dim, 16);
  const V factor(scale);
  for (std::int64_t i = 0; i < count; ++i) {
    const Real* in = block + i * padded;
    T* out = dst + i * stride;
    std::int64_t d = 0;
    for (; d + V::kLanes <= head_dim; d += V::kLanes) (V::load(in + d) * factor).store(out + d);
    if (d < head_dim) (V::load(in + d) * factor).store(out + d, static_cast<int>(head_dim - d));
  }
}

// out[padded][kBlock] = transpose of block[kBlock][padded].
template <typename Real>
LAZYTRAIN_KERNEL void transpose_block(const Real* block, std::int64_t padded, Real* out) {
  for (std::int64_t d = 0; d < padded; ++d) {
    for (std::int64_t i = 0; i < kBlock; ++i) out[d * kBlock + i] = block[i * padded + d];
  }
}

template <typename V>
LAZYTRAIN_KERNEL void fill(typename V::Real* p, std::int64_t n, typename V::Real x) {
  for (std::int64_t i = 0; i < n; i += V::kLanes) V(x).store(p + i);
}

template <typename Real>
LAZYTRAIN_KERNEL Real query_scale(std::int64_t head_dim) {
  return static_cast<Real>(kLog2E / __builtin_sqrt(static_cast<double>(head_dim)));
}

}  // namespace lazytrain::kernels
