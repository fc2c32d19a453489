// Attention forward with online softmax (M. Milakov, N. Gimelshein, "Online normalizer calculation for
// softmax", 2018; T. Dao et al., "FlashAttention", 2022): keys are walked in blocks, each query keeps its
// running maximum, its sum and its output, which are rescaled when the maximum grows.
#pragma once

#include "device/kernels/attention_block.h"

namespace lazytrain::kernels {

// The running state of one head's block of queries.
template <typename Real>
struct QueryState {
  Real* query;    // [padded][lanes], scaled, transposed
  Real* output;   // [lanes][padded]
  Real* largest;  // [lanes]
  Real* total;    // [lanes]
};

// A finite stand-in for minus infinity: differences of it are numbers.
inline constexpr float kNoScore = -0x1p120f;

// Sixteen queries against the keys [keys.begin, keys.end): scores become probabilities relative to the new
// maximum; the state's maximum and sum move on; rescale = what the old output must be multiplied with.
template <typename V, bool kMasked, typename Real>
LAZYTRAIN_KERNEL void softmax_lanes(Range keys, std::int64_t key0, const Real* first, const Real* last,
                                    Real* scores, std::int64_t score_row, Real* largest, Real* total,
                                    Real* rescale) {
  const V before = V::load(largest);
  V now = before;
  if constexpr (kMasked) {
    const V low = V::load(first), high = V::load(last);
    const V hidden(static_cast<Real>(-__builtin_inff()));
    for (std::int64_t k = keys.begin; k < keys.end; ++k) {
      const V position(static_cast<Real>(key0 + k));
      const V score = select_between(low, position, high, V::load(scores + k * score_row), hidden);
      score.store(scores + k * score_row);
      now = larger_of(score, now);
    }
  } else {
    for (std::int64_t k = keys.begin; k < keys.end; ++k)
      now = larger_of(V::load(scores + k * score_row), now);
  }
  const V factor = exp2(before - now);
  V sum(0);
  for (std::int64_t k = keys.begin; k < keys.end; ++k) {
    const V p = exp2(V::load(scores + k * score_row) - now);
    p.store(scores + k * score_row);
    sum = sum + p;
  }
  fma(V::load(total), factor, sum).store(total);
  now.store(largest);
  factor.store(rescale);
}

// One block of queries of one head against one block of keys.
template <typename V, bool kMasked, typename Real>
LAZYTRAIN_KERNEL void attend_block(const BlockView<Real>& view, std::int64_t key0, std::int64_t padded,
                                   const Real* keys, const Real* values, const QueryState<Real>& state,
                                   Real* scores) {
  Real rescale[kBlock];
  for (std::int64_t q = 0; q < kBlock; q += kQueryGroup) {
    const Range seen = kMasked ? view.keys_of(q, kQueryGroup, key0) : Range{0, kBlock};
    if (seen.empty()) continue;
    matrix_product<V, Start::zero>(seen.end - seen.begin, kQueryGroup, padded, keys + seen.begin * padded,
                                   padded, 1, state.query + q, kBlock, scores + seen.begin * kBlock + q,
                                   kBlock);
    for (std::int64_t l = q; l < q + kQueryGroup; l += V::kLanes) {
      softmax_lanes<V, kMasked>(seen, key0, view.first_lane + l, view.last_lane + l, scores + l, kBlock,
                                state.largest + l, state.total + l, rescale + l);
    }
    for (std::int64_t row = q; row < q + kQueryGroup; row += kSkipRows) {
      const Range used = kMasked ? view.keys_of(row, kSkipRows, key0) : seen;
      if (used.empty()) continue;  // these queries' maximum did not move either
      matrix_product<V, Start::scale>(
          kSkipRows, padded, used.end - used.begin, scores + used.begin * kBlock + row, 1, kBlock,
          values + used.begin * padded, padded, state.output + row * padded, padded, rescale + row);
    }
  }
}

// Numbers of fp32 scratch that attention_forward needs.
LAZYTRAIN_KERNEL std::int64_t attention_forward_scratch(const AttentionShape& shape) {
  const std::int64_t block = kBlock * shape.padded();
  return 2 * block + kBlock * kBlock + kHeadsTogether * (2 * block + 2 * kBlock);
}
LAZYTRAIN_KERNEL std::int64_t attention_forward_tasks(const AttentionShape& shape, std::int64_t slots) {
  return slots * shape.kv_heads * shape.head_chunks() * shape.blocks();
}

// Task = (query block, slot, key-value head, chunk of its query heads); the long ones (late blocks) come
// first. Pointers are those of the whole call. scratch: 64-byte aligned.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_forward(const AttentionShape& shape, std::int64_t slots, std::int64_t task,
                                        const T* qkv, const std::int32_t* document_start, T* core, Real* lse,
                                        Real* scratch) {
  const std::int64_t chunk = task % shape.head_chunks();
  task /= shape.head_chunks();
  const std::int64_t kv_head = task % shape.kv_heads;
  task /= shape.kv_heads;
  const std::int64_t slot = task % slots;
  const std::int64_t query_block = shape.blocks() - 1 - task / slots;

  const std::int64_t padded = shape.padded(), dim = shape.head_dim, stride = shape.row();
  const std::int64_t row0 = slot * shape.slot_rows;
  const std::int64_t first_head = kv_head * shape.group() + chunk * kHeadsTogether;
  const std::int64_t heads = smaller(kHeadsTogether, (kv_head + 1) * shape.group() - first_head);
  BlockView<Real> view;
  view.set(query_block, shape, document_start + row0);

  Real* keys = scratch;
  Real* values = keys + kBlock * padded;
  Real* scores = values + kBlock * padded;
  Real* next = scores + kBlock * kBlock;
  QueryState<Real> state[kHeadsTogether];
  const T* queries = qkv + (row0 + view.query0) * stride;
  for (std::int64_t h = 0; h < heads; ++h) {
    state[h] = {next, next + padded * kBlock, next + 2 * padded * kBlock, next + (2 * padded + 1) * kBlock};
    next += (2 * padded + 2) * kBlock;
    load_rows<V>(queries + shape.query(first_head + h), stride, view.count, dim, query_scale<Real>(dim),
                 state[h].output);
    transpose_block(state[h].output, padded, state[h].query);
    fill<V>(state[h].output, kBlock * padded, 0);
    fill<V>(state[h].largest, kBlock, kNoScore);
    fill<V>(state[h].total, kBlock, 0);
  }
  for (std::int64_t key_block = view.least_first / kBlock; key_block <= query_block; ++key_block) {
    const std::int64_t key0 = key_block * kBlock;
    const std::int64_t count = smaller(kBlock, shape.slot_rows - key0);
    const T* rows = qkv + (row0 + key0) * stride;
    load_rows<V>(rows + shape.key(kv_head), stride, count, dim, Real(1), keys);
    load_rows<V>(rows + shape.value(kv_head), stride, count, dim, Real(1), values);
    for (std::int64_t h = 0; h < heads; ++h) {
      if (view.sees_all(key0)) {
        attend_block<V, false>(view, key0, padded, keys, values, state[h], scores);
      } else {
        attend_block<V, true>(view, key0, padded, keys, values, state[h], scores);
      }
    }
  }
  const std::int64_t out_row = shape.heads * dim;
  for (std::int64_t h = 0; h < heads; ++h) {
    const std::int64_t head = first_head + h;
    Real log_sum[kBlock];
    for (std::int64_t l = 0; l < kBlock; l += V::kLanes) {
      const V total = V::load(state[h].total + l);
      fma(V::load(state[h].largest + l), V(static_cast<Real>(kLn2)), log(total)).store(log_sum + l);
      (V(1) / total).store(state[h].total + l);
    }
    for (std::int64_t i = 0; i < view.count; ++i) {
      const std::int64_t row = row0 + view.query0 + i;
      store_rows<V>(state[h].output + i * padded, 1, dim, state[h].total[i],
                    core + row * out_row + head * dim, out_row);
      lse[row * shape.heads + head] = log_sum[i];
    }
  }
}

}  // namespace lazytrain::kernels
