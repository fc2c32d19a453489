// Attention backward. With P = exp(S - lse), S = scale Q K^T, delta = rowsum(dO O):
//   dV = P^T dO,  dS = P (dO V^T - delta),  dQ = scale dS K,  dK = scale dS^T Q.
// P is made again block by block. Two ways to share the work give the same bits, because every element is
// one chain of additions in the same order (queries and keys ascending, heads of a group ascending):
//   whole:  one task per (slot, key-value head) makes dQ, dK and dV; five products a block;
//   split:  one task per key block makes dK and dV, one per query block makes dQ; seven products, more tasks.
#pragma once

#include "device/kernels/attention_block.h"
#include "device/kernels/lane_team.h"

namespace lazytrain::kernels {

template <typename Real>
struct BackwardQuery {
  Real* query;                // [kBlock][padded], scaled
  Real* query_transposed;     // [padded][kBlock]
  Real* d_output;             // [kBlock][padded]
  Real* d_output_transposed;  // [padded][kBlock]
  Real* lse;                  // [kBlock], in units of log 2
  Real* delta;                // [kBlock]
};

// P and dS of one block, [key][query]; what no query sees is zero.
template <typename V, bool kMasked, typename Real>
LAZYTRAIN_KERNEL void score_gradients(const BlockView<Real>& view, std::int64_t key0, std::int64_t padded,
                                      const Real* keys, const Real* values, const BackwardQuery<Real>& query,
                                      Real* p, Real* ds) {
  for (std::int64_t q = 0; q < kBlock; q += kQueryGroup) {
    Range seen{0, kBlock};
    if constexpr (kMasked) {
      seen = view.keys_of(q, kQueryGroup, key0);
      for (std::int64_t k = 0; k < kBlock; ++k) {
        if (k >= seen.begin && k < seen.end) continue;
        fill<V>(p + k * kBlock + q, kQueryGroup, 0);
        fill<V>(ds + k * kBlock + q, kQueryGroup, 0);
      }
      if (seen.empty()) continue;
    }
    const std::int64_t at = seen.begin * kBlock + q;
    matrix_product<V, Start::zero>(seen.end - seen.begin, kQueryGroup, padded, keys + seen.begin * padded,
                                   padded, 1, query.query_transposed + q, kBlock, p + at, kBlock);
    matrix_product<V, Start::zero>(seen.end - seen.begin, kQueryGroup, padded, values + seen.begin * padded,
                                   padded, 1, query.d_output_transposed + q, kBlock, ds + at, kBlock);
    for (std::int64_t l = q; l < q + kQueryGroup; l += V::kLanes) {
      const V lse = V::load(query.lse + l), delta = V::load(query.delta + l);
      const V low = V::load(view.first_lane + l), high = V::load(view.last_lane + l);
      for (std::int64_t k = seen.begin; k < seen.end; ++k) {
        V probability = exp2(V::load(p + k * kBlock + l) - lse);
        if constexpr (kMasked) {
          probability = select_between(low, V(static_cast<Real>(key0 + k)), high, probability, V(0));
        }
        const V gradient = probability * (V::load(ds + k * kBlock + l) - delta);
        probability.store(p + k * kBlock + l);
        gradient.store(ds + k * kBlock + l);
      }
    }
  }
}

// Adds a block's part to dK and dV of its keys.
template <typename V, bool kMasked, typename Real>
LAZYTRAIN_KERNEL void add_key_gradients(const BlockView<Real>& view, std::int64_t key0, std::int64_t padded,
                                        const BackwardQuery<Real>& query, const Real* p, const Real* ds,
                                        Real* dk, Real* dv) {
  for (std::int64_t k = 0; k < kBlock; k += kSkipRows) {
    const Range seen = kMasked ? view.queries_of(k, kSkipRows, key0) : Range{0, kBlock};
    if (seen.empty()) continue;
    matrix_product<V, Start::keep>(kSkipRows, padded, seen.end - seen.begin, p + k * kBlock + seen.begin,
                                   kBlock, 1, query.d_output + seen.begin * padded, padded, dv + k * padded,
                                   padded);
    matrix_product<V, Start::keep>(kSkipRows, padded, seen.end - seen.begin, ds + k * kBlock + seen.begin,
                                   kBlock, 1, query.query + seen.begin * padded, padded, dk + k * padded,
                                   padded);
  }
}

// Adds a block's part to dQ of its queries.
template <typename V, bool kMasked, typename Real>
LAZYTRAIN_KERNEL void add_query_gradients(const BlockView<Real>& view, std::int64_t key0, std::int64_t padded,
                                          const Real* keys, const Real* ds, Real* dq) {
  for (std::int64_t q = 0; q < kBlock; q += kSkipRows) {
    const Range seen = kMasked ? view.keys_of(q, kSkipRows, key0) : Range{0, kBlock};
    if (seen.empty()) continue;
    matrix_product<V, Start::keep>(kSkipRows, padded, seen.end - seen.begin, ds + seen.begin * kBlock + q, 1,
                                   kBlock, keys + seen.begin * padded, padded, dq + q * padded, padded);
  }
}

// The arguments of one call, typed.
template <typename T, typename Real>
struct BackwardCall {
  AttentionShape shape;
  std::int64_t slots;
  const T* qkv;
  const std::int32_t* document_start;
  const T* core;
  const Real* lse;
  const T* d_core;
  T* d_qkv;
  Real* delta;  // [rows, heads]
};

// Fills delta for the rows [begin, end).
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_delta(const BackwardCall<T, Real>& call, std::int64_t begin,
                                      std::int64_t end) {
  const LaneTeam<V> team;
  const std::int64_t dim = call.shape.head_dim;
  for (std::int64_t i = begin * call.shape.heads; i < end * call.shape.heads; ++i) {
    const T* a = call.core + i * dim;
    const T* b = call.d_core + i * dim;
    call.delta[i] = team.sum(dim, [&](auto j) { return team.load(a, j) * team.load(b, j); });
  }
}

template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void load_backward_query(const BackwardCall<T, Real>& call, const BlockView<Real>& view,
                                          std::int64_t row0, std::int64_t head,
                                          const BackwardQuery<Real>& query) {
  const AttentionShape& shape = call.shape;
  const std::int64_t dim = shape.head_dim, padded = shape.padded(), row = row0 + view.query0;
  load_rows<V>(call.qkv + row * shape.row() + shape.query(head), shape.row(), view.count, dim,
               query_scale<Real>(dim), query.query);
  load_rows<V>(call.d_core + (row * shape.heads + head) * dim, shape.heads * dim, view.count, dim, Real(1),
               query.d_output);
  transpose_block(query.query, padded, query.query_transposed);
  transpose_block(query.d_output, padded, query.d_output_transposed);
  for (std::int64_t i = 0; i < kBlock; ++i) {
    const std::int64_t at = (row + i) * shape.heads + head;
    query.lse[i] = i < view.count ? call.lse[at] * static_cast<Real>(kLog2E) : 0;
    query.delta[i] = i < view.count ? call.delta[at] : 0;
  }
}

template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void load_key_block(const BackwardCall<T, Real>& call, std::int64_t row0,
                                     std::int64_t kv_head, std::int64_t key_block, Real* keys, Real* values) {
  const AttentionShape& shape = call.shape;
  const std::int64_t key0 = key_block * kBlock, count = smaller(kBlock, shape.slot_rows - key0);
  const T* rows = call.qkv + (row0 + key0) * shape.row();
  load_rows<V>(rows + shape.key(kv_head), shape.row(), count, shape.head_dim, Real(1), keys);
  load_rows<V>(rows + shape.value(kv_head), shape.row(), count, shape.head_dim, Real(1), values);
}

template <typename Real>
LAZYTRAIN_KERNEL BackwardQuery<Real> place_backward_query(std::int64_t padded, Real*& next) {
  const std::int64_t block = kBlock * padded;
  BackwardQuery<Real> query{
      next, next + block, next + 2 * block, next + 3 * block, next + 4 * block, next + 4 * block + kBlock};
  next += 4 * block + 2 * kBlock;
  return query;
}

// Numbers of scratch: `whole` keeps keys, values and their gradients of a whole slot.
LAZYTRAIN_KERNEL std::int64_t attention_backward_whole_scratch(const AttentionShape& shape) {
  return (4 * shape.blocks() + 5) * kBlock * shape.padded() + 2 * kBlock + 2 * kBlock * kBlock;
}
LAZYTRAIN_KERNEL std::int64_t attention_backward_split_scratch(const AttentionShape& shape) {
  return 8 * kBlock * shape.padded() + 2 * kBlock + 2 * kBlock * kBlock;
}

// `whole`: dQ of the group's heads, dK and dV of one key-value head of one slot.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_backward_whole(const BackwardCall<T, Real>& call, std::int64_t slot,
                                               std::int64_t kv_head, Real* scratch) {
  const AttentionShape& shape = call.shape;
  const std::int64_t padded = shape.padded(), dim = shape.head_dim, block = kBlock * padded;
  const std::int64_t row0 = slot * shape.slot_rows, blocks = shape.blocks();
  Real* keys = scratch;
  Real* values = keys + blocks * block;
  Real* dk = values + blocks * block;
  Real* dv = dk + blocks * block;
  Real* next = dv + blocks * block;
  const BackwardQuery<Real> query = place_backward_query(padded, next);
  Real* dq = next;
  Real* p = dq + block;
  Real* ds = p + kBlock * kBlock;

  for (std::int64_t b = 0; b < blocks; ++b) {
    load_key_block<V>(call, row0, kv_head, b, keys + b * block, values + b * block);
  }
  fill<V>(dk, blocks * block, 0);
  fill<V>(dv, blocks * block, 0);
  BlockView<Real> view;
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t query_block = 0; query_block < blocks; ++query_block) {
      view.set(query_block, shape, call.document_start + row0);
      load_backward_query<V>(call, view, row0, head, query);
      fill<V>(dq, block, 0);
      for (std::int64_t b = view.least_first / kBlock; b <= query_block; ++b) {
        const std::int64_t key0 = b * kBlock, at = b * block;
        if (view.sees_all(key0)) {
          score_gradients<V, false>(view, key0, padded, keys + at, values + at, query, p, ds);
          add_key_gradients<V, false>(view, key0, padded, query, p, ds, dk + at, dv + at);
          add_query_gradients<V, false>(view, key0, padded, keys + at, ds, dq);
        } else {
          score_gradients<V, true>(view, key0, padded, keys + at, values + at, query, p, ds);
          add_key_gradients<V, true>(view, key0, padded, query, p, ds, dk + at, dv + at);
          add_query_gradients<V, true>(view, key0, padded, keys + at, ds, dq);
        }
      }
      const std::int64_t row = row0 + view.query0;
      store_rows<V>(dq, view.count, dim, static_cast<Real>(1 / __builtin_sqrt(static_cast<double>(dim))),
                    call.d_qkv + row * shape.row() + shape.query(head), shape.row());
    }
  }
  T* rows = call.d_qkv + row0 * shape.row();
  store_rows<V>(dk, shape.slot_rows, dim, static_cast<Real>(kLn2), rows + shape.key(kv_head), shape.row());
  store_rows<V>(dv, shape.slot_rows, dim, Real(1), rows + shape.value(kv_head), shape.row());
}

// `split`, first kind: dK and dV of one block of keys.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_backward_keys(const BackwardCall<T, Real>& call, std::int64_t slot,
                                              std::int64_t kv_head, std::int64_t key_block, Real* scratch) {
  const AttentionShape& shape = call.shape;
  const std::int64_t padded = shape.padded(), dim = shape.head_dim, block = kBlock * padded;
  const std::int64_t row0 = slot * shape.slot_rows, blocks = shape.blocks(), key0 = key_block * kBlock;
  Real* keys = scratch;
  Real* values = keys + block;
  Real* dk = values + block;
  Real* dv = dk + block;
  Real* next = dv + block;
  const BackwardQuery<Real> query = place_backward_query(padded, next);
  Real* p = next;
  Real* ds = p + kBlock * kBlock;

  load_key_block<V>(call, row0, kv_head, key_block, keys, values);
  fill<V>(dk, block, 0);
  fill<V>(dv, block, 0);
  BlockView<Real> view;
  for (std::int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (std::int64_t query_block = key_block; query_block < blocks; ++query_block) {
      view.set(query_block, shape, call.document_start + row0);
      if (view.least_first >= key0 + kBlock) continue;
      load_backward_query<V>(call, view, row0, head, query);
      if (view.sees_all(key0)) {
        score_gradients<V, false>(view, key0, padded, keys, values, query, p, ds);
        add_key_gradients<V, false>(view, key0, padded, query, p, ds, dk, dv);
      } else {
        score_gradients<V, true>(view, key0, padded, keys, values, query, p, ds);
        add_key_gradients<V, true>(view, key0, padded, query, p, ds, dk, dv);
      }
    }
  }
  const std::int64_t count = smaller(kBlock, shape.slot_rows - key0);
  T* rows = call.d_qkv + (row0 + key0) * shape.row();
  store_rows<V>(dk, count, dim, static_cast<Real>(kLn2), rows + shape.key(kv_head), shape.row());
  store_rows<V>(dv, count, dim, Real(1), rows + shape.value(kv_head), shape.row());
}

// `split`, second kind: dQ of one block of queries of one head.
template <typename V, typename T, typename Real>
LAZYTRAIN_KERNEL void attention_backward_queries(const BackwardCall<T, Real>& call, std::int64_t slot,
                                                 std::int64_t head, std::int64_t query_block, Real* scratch) {
  const AttentionShape& shape = call.shape;
  const std::int64_t padded = shape.padded(), dim = shape.head_dim, block = kBlock * padded;
  const std::int64_t row0 = slot * shape.slot_rows;
  Real* keys = scratch;
  Real* values = keys + block;
  Real* dq = values + block;
  Real* next = dq + block;
  const BackwardQuery<Real> query = place_backward_query(padded, next);
  Real* p = next;
  Real* ds = p + kBlock * kBlock;

  BlockView<Real> view;
  view.set(query_block, shape, call.document_start + row0);
  load_backward_query<V>(call, view, row0, head, query);
  fill<V>(dq, block, 0);
  for (std::int64_t b = view.least_first / kBlock; b <= query_block; ++b) {
    const std::int64_t key0 = b * kBlock;
    load_key_block<V>(call, row0, head / shape.group(), b, keys, values);
    if (view.sees_all(key0)) {
      score_gradients<V, false>(view, key0, padded, keys, values, query, p, ds);
      add_query_gradients<V, false>(view, key0, padded, keys, ds, dq);
    } else {
      score_gradients<V, true>(view, key0, padded, keys, values, query, p, ds);
      add_query_gradients<V, true>(view, key0, padded, keys, ds, dq);
    }
  }
  const std::int64_t row = row0 + view.query0;
  store_rows<V>(dq, view.count, dim, static_cast<Real>(1 / __builtin_sqrt(static_cast<double>(dim))),
                call.d_qkv + row * shape.row() + shape.query(head), shape.row());
}

}  // namespace lazytrain::kernels
