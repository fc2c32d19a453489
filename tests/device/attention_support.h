// Attention written down plainly in double: the reference of the attention tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"
#include "device/kernels/attention_backward.h"
#include "device/kernels/attention_forward.h"

namespace lazytrain::test {

struct Attention {
  std::int64_t slots, slot_rows, heads, kv_heads, head_dim;
  std::vector<std::int32_t> document_start;  // [rows], relative to the slot
  std::int64_t window = 0;

  [[nodiscard]] std::int64_t rows() const { return slots * slot_rows; }
  [[nodiscard]] std::int64_t row() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] kernels::AttentionShape shape() const {
    return {slot_rows, heads, kv_heads, head_dim, window};
  }
};

// Documents of these lengths, repeated until every slot is full; a document ends where its slot ends.
inline Attention packed(std::int64_t slots, std::int64_t slot_rows, std::int64_t heads, std::int64_t kv_heads,
                        std::int64_t head_dim, const std::vector<std::int64_t>& lengths) {
  Attention a{slots, slot_rows, heads, kv_heads, head_dim, {}, 0};
  std::size_t next = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    for (std::int64_t row = 0; row < slot_rows;) {
      const std::int64_t length = std::min(lengths[next++ % lengths.size()], slot_rows - row);
      a.document_start.insert(a.document_start.end(), static_cast<std::size_t>(length),
                              static_cast<std::int32_t>(row));
      row += length;
    }
  }
  return a;
}

inline Attention windowed(Attention a, std::int64_t window) {
  a.window = window;
  return a;
}

struct AttentionResult {
  std::vector<double> core;  // [rows, heads * head_dim]
  std::vector<double> lse;   // [rows, heads]
};

inline AttentionResult naive_attention(const Attention& a, const std::vector<double>& qkv) {
  AttentionResult result{std::vector<double>(static_cast<std::size_t>(a.rows() * a.heads * a.head_dim)),
                         std::vector<double>(static_cast<std::size_t>(a.rows() * a.heads))};
  auto at = [&](std::int64_t row, std::int64_t head) {
    return &qkv[static_cast<std::size_t>(row * a.row() + head * a.head_dim)];
  };
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    const std::int64_t slot0 = row / a.slot_rows * a.slot_rows;
    std::int64_t first = slot0 + a.document_start[static_cast<std::size_t>(row)];
    if (a.window > 0) first = std::max(first, row - a.window + 1);
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const std::int64_t kv = head / (a.heads / a.kv_heads);
      std::vector<double> score;
      for (std::int64_t key = first; key <= row; ++key) {
        double sum = 0;
        for (std::int64_t d = 0; d < a.head_dim; ++d) sum += at(row, head)[d] * at(key, a.heads + kv)[d];
        score.push_back(sum / std::sqrt(static_cast<double>(a.head_dim)));
      }
      const double largest = *std::max_element(score.begin(), score.end());
      double total = 0;
      for (double& s : score) total += s = std::exp(s - largest);
      double* out = &result.core[static_cast<std::size_t>((row * a.heads + head) * a.head_dim)];
      for (std::int64_t key = first; key <= row; ++key) {
        const double p = score[static_cast<std::size_t>(key - first)] / total;
        for (std::int64_t d = 0; d < a.head_dim; ++d) out[d] += p * at(key, a.heads + a.kv_heads + kv)[d];
      }
      result.lse[static_cast<std::size_t>(row * a.heads + head)] = largest + std::log(total);
    }
  }
  return result;
}

// The shared bodies in double.
inline AttentionResult attention_in_double(const Attention& a, const std::vector<double>& qkv) {
  AttentionResult result{std::vector<double>(static_cast<std::size_t>(a.rows() * a.heads * a.head_dim)),
                         std::vector<double>(static_cast<std::size_t>(a.rows() * a.heads))};
  std::vector<double> scratch(static_cast<std::size_t>(kernels::attention_forward_scratch(a.shape())));
  for (std::int64_t task = 0; task < kernels::attention_forward_tasks(a.shape(), a.slots); ++task) {
    kernels::attention_forward<DoubleLanes>(a.shape(), a.slots, task, qkv.data(), a.document_start.data(),
                                            result.core.data(), result.lse.data(), scratch.data());
  }
  return result;
}

inline std::vector<double> attention_gradient_in_double(const Attention& a, const std::vector<double>& qkv,
                                                        const AttentionResult& forward,
                                                        const std::vector<double>& d_core) {
  std::vector<double> d_qkv(qkv.size()), delta(forward.lse.size());
  const kernels::BackwardCall<double, double> call{a.shape(),           a.slots,
                                                   qkv.data(),          a.document_start.data(),
                                                   forward.core.data(), forward.lse.data(),
                                                   d_core.data(),       d_qkv.data(),
                                                   delta.data()};
  kernels::attention_delta<DoubleLanes>(call, 0, a.rows());
  std::vector<double> scratch(static_cast<std::size_t>(kernels::attention_backward_whole_scratch(a.shape())));
  for (std::int64_t slot = 0; slot < a.slots; ++slot) {
    for (std::int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      kernels::attention_backward_whole<DoubleLanes>(call, slot, kv_head, scratch.data());
    }
  }
  return d_qkv;
}

// The CPU's operations.
template <typename T>
struct StoredAttention {
  std::vector<T> core;
  std::vector<float> lse;
};

template <typename T>
StoredAttention<T> run_forward(ThreadPool& pool, const Attention& a, const std::vector<T>& qkv) {
  StoredAttention<T> out{std::vector<T>(static_cast<std::size_t>(a.rows() * a.heads * a.head_dim)),
                         std::vector<float>(static_cast<std::size_t>(a.rows() * a.heads))};
  cpu::run(pool, AttentionForward{.type = TypeOf<T>::value,
                                  .rows = a.rows(),
                                  .slot_rows = a.slot_rows,
                                  .heads = a.heads,
                                  .kv_heads = a.kv_heads,
                                  .head_dim = a.head_dim,
                                  .qkv = qkv.data(),
                                  .document_start = a.document_start.data(),
                                  .core = out.core.data(),
                                  .lse = out.lse.data(),
                                  .window = a.window});
  return out;
}

template <typename T>
std::vector<T> run_backward(ThreadPool& pool, const Attention& a, const std::vector<T>& qkv,
                            const StoredAttention<T>& forward, const std::vector<T>& d_core) {
  std::vector<T> d_qkv(qkv.size(), from_float<T>(NAN));
  std::vector<float> workspace(
      static_cast<std::size_t>(attention_backward_workspace(a.rows(), a.heads).value / 4));
  cpu::run(pool, AttentionBackward{.type = TypeOf<T>::value,
                                   .rows = a.rows(),
                                   .slot_rows = a.slot_rows,
                                   .heads = a.heads,
                                   .kv_heads = a.kv_heads,
                                   .head_dim = a.head_dim,
                                   .qkv = qkv.data(),
                                   .document_start = a.document_start.data(),
                                   .core = forward.core.data(),
                                   .lse = forward.lse.data(),
                                   .dcore = d_core.data(),
                                   .dqkv = d_qkv.data(),
                                   .workspace = workspace.data(),
                                   .window = a.window});
  return d_qkv;
}

}  // namespace lazytrain::test
