// The arguments of every operation a layer may ask of a device: the seam between `layers` and the
// backends. Each struct is a plain value that is copied into a stream's queue.
//
// Layout: row-major, contiguous. "Rows" are tokens, grouped in slots: rows = slots * slot_rows. What a
// row's result is must depend on its own slot only, never on how many slots one call carries, nor on
// the number of threads: every backend splits work into tiles whose shape depends on slot_rows and the
// layer's sizes alone. Sums over rows (weight gradients) run slot by slot, in slot order.
//
// Types: `type` is the storage type of activations and weights, f32 or bf16; void pointers have it.
// float pointers are always fp32. Inside, arithmetic is fp32; results are rounded once, to nearest even,
// where they are stored. Weight matrices are [out, in] as in checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bfloat16.h"
#include "core/units.h"

namespace lazytrain {

enum class DataType : std::uint8_t { f32, bf16 };
constexpr std::int64_t size_of(DataType type) {
  return type == DataType::f32 ? 4 : 2;
}

// y[rows, out] = x[rows, in] * weight[out, in]^T (+ bias[out]) (+ y where accumulate).
struct LinearForward {
  DataType type;
  std::int64_t rows, slot_rows, in, out;
  const void* x;
  const void* weight;
  const void* bias = nullptr;
  void* y;
  bool accumulate = false;  // adds in fp32 before the one rounding
};

// dx[rows, in] = dy[rows, out] * weight[out, in] (+ dx where accumulate). `result`: the type of dx, f32 for a
// sum over several products that is rounded once.
struct LinearInputGradient {
  DataType type;
  std::int64_t rows, slot_rows, in, out;
  const void* dy;
  const void* weight;
  void* dx;
  bool accumulate = false;
  DataType result = type;
};

// dweight[out, in] += dy[rows, out]^T * x[rows, in]; fp32 accumulator, one GEMM per slot, in slot order.
// Where not `accumulate`, the first slot's product replaces what is there: an accumulator need not be zeroed.
struct LinearWeightGradient {
  DataType type;
  std::int64_t rows, slot_rows, in, out;
  const void* dy;
  const void* x;
  float* dweight;
  bool accumulate = true;
};

// dbias[out] += column sums of dy[rows, out], slot by slot.
struct BiasGradient {
  DataType type;
  std::int64_t rows, slot_rows, out;
  const void* dy;
  float* dbias;
};

// y = round(x * rsqrt(mean(x^2) + eps)) * weight: fp32 inside, cast to `type`, then times the weight
// (Hugging Face LlamaRMSNorm's order of roundings).
struct RmsNormForward {
  DataType type;
  std::int64_t rows, width;
  float epsilon;
  const void* x;
  const void* weight;
  void* y;
};

// dx = residual + d(rmsnorm)/dx * dy, where `residual` may be null (zero) and may alias dx;
// dweight[width] += sum over rows, slot by slot.
struct RmsNormBackward {
  DataType type;
  std::int64_t rows, slot_rows, width;
  float epsilon;
  const void* x;
  const void* weight;
  const void* dy;
  const void* residual;
  void* dx;
  float* dweight;
};

// Every query head and every key head of qkv[rows, (heads + 2 kv_heads) * head_dim] normalised by itself, as
// RmsNormForward does with a row, with query_weight[head_dim] and key_weight[head_dim]; values are copied. y
// may be qkv.
struct HeadNormForward {
  DataType type;
  std::int64_t rows, heads, kv_heads, head_dim;
  float epsilon;
  const void* qkv;
  const void* query_weight;
  const void* key_weight;
  void* y;
};

// dqkv[rows, ...] holds the gradient of y on entry and that of qkv on return (that of values stays);
// dquery_weight[head_dim], dkey_weight[head_dim] += sums over rows and heads, slot by slot.
struct HeadNormBackward {
  DataType type;
  std::int64_t rows, slot_rows, heads, kv_heads, head_dim;
  float epsilon;
  const void* qkv;
  const void* query_weight;
  const void* key_weight;
  void* dqkv;
  float* dquery_weight;
  float* dkey_weight;
};

// Rotates the query and key heads of qkv[rows, (heads + 2 kv_heads) * head_dim] in place ("rotate half":
// element i pairs with i + head_dim/2). cosine/sine: fp32 tables [table_rows, head_dim/2] made by
// `layers`; positions[rows] index them. `inverse` is the backward: it rotates back. Tables may hold a factor
// (yarn's), which scales both ways.
struct Rope {
  DataType type;
  std::int64_t rows, heads, kv_heads, head_dim;
  const std::int32_t* positions;
  const float* cosine;
  const float* sine;
  bool inverse = false;
  void* qkv;
};

// Causal grouped-query attention inside documents. Query row i of a slot sees the keys
// document_start[i] .. i of the same slot (document_start is relative to the slot, one entry a row), and of
// these only the last `window`, its own included, where that is not 0.
// core[rows, heads * head_dim]; lse[rows, heads] = log-sum-exp of the scaled scores, fp32.
// No rows x rows matrix exists: keys are walked in blocks. Scale = 1/sqrt(head_dim).
struct AttentionForward {
  DataType type;
  std::int64_t rows, slot_rows, heads, kv_heads, head_dim;
  const void* qkv;
  const std::int32_t* document_start;
  void* core;
  float* lse;
  std::int64_t window = 0;
};

// dqkv from dcore, the forward's inputs and its core and lse. Every element of dqkv is written.
// workspace: attention_backward_workspace() bytes of the same tier.
struct AttentionBackward {
  DataType type;
  std::int64_t rows, slot_rows, heads, kv_heads, head_dim;
  const void* qkv;
  const std::int32_t* document_start;
  const void* core;
  const float* lse;
  const void* dcore;
  void* dqkv;
  float* workspace;  // [rows, heads]: row sums of dcore * core
  std::int64_t window = 0;
};
constexpr Bytes attention_backward_workspace(std::int64_t rows, std::int64_t heads) {
  return {rows * heads * 4};
}

// One new token per sequence against its key-value cache. qkv[sequences, (heads + 2 kv_heads) * head_dim],
// already rotated; the key and value are appended at index length[s] of sequence s, then query s attends
// to cache entries 0..length[s], or the last `window` of them. Cache: [sequences, capacity, 2, kv_heads *
// head_dim] (key, then value). Sequences with active[s] == 0 are skipped (core row zeroed).
struct AttentionDecode {
  DataType type;
  std::int64_t sequences, capacity, heads, kv_heads, head_dim;
  const void* qkv;
  const std::int32_t* length;
  const std::uint8_t* active;
  void* cache;
  void* core;
  std::int64_t window = 0;
};

// Copies the keys and values of a prefilled slot into a cache: row i of qkv[rows, ...] goes to entry
// cache_entry[i] of sequence cache_sequence[i]; rows with sequence < 0 are skipped.
struct CacheFill {
  DataType type;
  std::int64_t rows, capacity, heads, kv_heads, head_dim;
  const void* qkv;
  const std::int32_t* cache_sequence;
  const std::int32_t* cache_entry;
  void* cache;
};

// act[rows, width] = silu(gate) * up with gate_up[rows, 2 * width] = gate | up in one row.
struct SwigluForward {
  DataType type;
  std::int64_t rows, width;
  const void* gate_up;
  void* act;
};

// dgate_up from dact[rows, width] and gate_up; dgate_up may alias gate_up.
struct SwigluBackward {
  DataType type;
  std::int64_t rows, width;
  const void* gate_up;
  const void* dact;
  void* dgate_up;
};

// Softmax cross-entropy of rows whose logits come in blocks of the vocabulary, in three steps. Rows with
// target[row] < 0 count nothing: their loss and their gradient are 0.
//
// First every block of a row in turn: scores[rows, kSoftmaxScores] = the largest logit so far, the sum of
// exp(logit - largest), and the target's logit. logits[rows, width] are those of tokens first .. first +
// width.
inline constexpr std::int64_t kSoftmaxScores = 3;
struct SoftmaxScores {
  DataType type;
  std::int64_t rows, first, width;
  const void* logits;
  const std::int32_t* target;
  float* scores;
  bool fresh;  // the first block: `scores` holds nothing yet
};

// Then loss[rows] = log-sum-exp - logit of the target, fp32.
struct CrossEntropyLoss {
  std::int64_t rows;
  const float* scores;
  const std::int32_t* target;
  float* loss;
};

// And of any block dlogits[rows, width] (may be logits) = (softmax - onehot) * scale, rounded to `type`.
struct CrossEntropyGradient {
  DataType type;
  std::int64_t rows, first, width;
  const void* logits;
  const std::int32_t* target;
  const float* scores;
  float scale;
  void* dlogits;
};

// out[i] = index of the largest element of row i; the lowest index among equals.
struct ArgMax {
  DataType type;
  std::int64_t rows, width;
  const void* x;
  std::int32_t* out;
};

// Gather: out[i] = x[index[i] - first], i < count (a negative index gives a row of zeros). In a d2h stream
// `out` is on the host.
struct GatherRows {
  DataType type;
  std::int64_t count, width;
  const void* x;
  const std::int32_t* index;
  void* out;
  std::int64_t first = 0;
};

// Scatter: zeroes out[rows], then out[index[i]] = x[i] for i < count with index[i] >= 0 (indices are
// distinct).
struct ScatterRows {
  DataType type;
  std::int64_t count, rows, width;
  const void* x;
  const std::int32_t* index;
  void* out;
};

// out = round(x), elementwise.
struct Round {
  DataType type;
  std::int64_t elements;
  const float* x;
  void* out;
};

// out = round(a + b), elementwise.
struct Add {
  DataType type;
  std::int64_t elements;
  const void* a;
  const void* b;
  void* out;
};

// A gradient leaves the device: dst (`type`, host) = round(src), and partial[k] = sum of squares of the
// *rounded* values of the k-th run of kNormChunk elements, in fp64, in element order of fixed lanes.
// The global norm is the sum of all partials in chunk order, so it depends on nothing but the values. No sums
// where `partial` is null.
inline constexpr std::int64_t kNormChunk = 65536;
constexpr std::int64_t norm_chunks(std::int64_t elements) {
  return (elements + kNormChunk - 1) / kNormChunk;
}
struct OffloadGradient {
  DataType type;
  std::int64_t elements;
  const float* src;
  void* dst;
  double* partial;  // host, norm_chunks(elements)
};

}  // namespace lazytrain
