// Attention of one new token against a key-value cache. The heads of a group take the place of the queries
// of a block, and keys are walked in the same blocks in the same order as in the full forward, so a decoded
// token has the bits of the last row of a forward over the same tokens.
#pragma once

#include "device/kernels/attention_forward.h"

namespace lazytrain::kernels {

// Numbers of scratch for one task.
LAZYTRAIN_KERNEL std::int64_t attention_decode_scratch(const AttentionShape& shape) {
  constexpr std::int64_t kLanes = 16;
  return 2 * kBlock * shape.padded() + kBlock * kLanes + 2 * kLanes * shape.padded() + 3 * kLanes;
}

// One key-value head of one sequence. query: the token's qkv row; cache: the sequence's [capacity, 2,
// kv_heads * head_dim], in which the token's own key and value stand at entry `length` already; core: the
// token's row of output. shape.slot_rows is not used. Of a window's first block only the keys inside it
// count, but the block begins where the forward's does.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_decode(const AttentionShape& shape, std::int64_t kv_head, std::int64_t length,
                                       const T* query, const T* cache, T* core, Real* scratch) {
  const std::int64_t padded = shape.padded(), dim = shape.head_dim;
  const std::int64_t entry = 2 * shape.kv_heads * dim;
  Real* keys = scratch;
  Real* values = keys + kBlock * padded;
  Real* scores = values + kBlock * padded;
  Real* queries = scores + kBlock * V::kLanes;
  Real* output = queries + V::kLanes * padded;
  Real* largest = output + V::kLanes * padded;
  Real* total = largest + V::kLanes;
  Real* rescale = total + V::kLanes;

  for (std::int64_t head0 = 0; head0 < shape.group(); head0 += V::kLanes) {
    const std::int64_t heads = smaller(V::kLanes, shape.group() - head0);
    const std::int64_t first_head = kv_head * shape.group() + head0;
    fill<V>(queries, V::kLanes * padded, 0);
    const auto scale = query_scale<Real>(dim);
    for (std::int64_t h = 0; h < heads; ++h) {
      const T* q = query + shape.query(first_head + h);
      for (std::int64_t d = 0; d < dim; ++d) queries[d * V::kLanes + h] = widen(q[d]) * scale;
    }
    fill<V>(output, V::kLanes * padded, 0);
    fill<V>(largest, V::kLanes, kNoScore);
    fill<V>(total, V::kLanes, 0);
    const std::int64_t first = shape.first_key(length, 0);
    for (std::int64_t key0 = first / kBlock * kBlock; key0 <= length; key0 += kBlock) {
      const std::int64_t begin = larger(first - key0, 0);
      const std::int64_t count = smaller(kBlock, length + 1 - key0);
      const T* rows = cache + key0 * entry + kv_head * dim;
      load_rows<V>(rows, entry, count, dim, Real(1), keys);
      load_rows<V>(rows + shape.kv_heads * dim, entry, count, dim, Real(1), values);
      matrix_product<V, Start::zero>(round_up(count, V::kTileRows), V::kLanes, padded, keys, padded, 1,
                                     queries, V::kLanes, scores, V::kLanes);
      softmax_lanes<V, false, Real>({begin, count}, key0, nullptr, nullptr, scores, V::kLanes, largest, total,
                                    rescale);
      matrix_product<V, Start::scale>(round_up(heads, V::kTileRows), padded, count - begin,
                                      scores + begin * V::kLanes, 1, V::kLanes, values + begin * padded,
                                      padded, output, padded, rescale);
    }
    (V(1) / V::load(total)).store(total);
    for (std::int64_t h = 0; h < heads; ++h) {
      store_rows<V>(output + h * padded, 1, dim, total[h], core + (first_head + h) * dim, dim);
    }
  }
}

}  // namespace lazytrain::kernels
