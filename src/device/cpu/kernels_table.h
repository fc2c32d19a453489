// The kernels of one instruction set, as plain functions on pieces of an operation: a range of rows, of
// columns, one task. What they compute never depends on how an operation is cut into pieces. The pieces and
// the threads are the business of kernels_rows.cpp and kernels_attention.cpp.
#pragma once

#include <cstdint>

#include "device/operations.h"

namespace lazytrain::cpu {

struct KernelTable {
  // Columns [begin, end), all slots.
  void (*bias_gradient)(const BiasGradient& op, std::int64_t begin, std::int64_t end);
  void (*rms_norm_weight_gradient)(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                                   std::int64_t end);
  // Rows [begin, end).
  void (*rms_norm_forward)(const RmsNormForward& op, std::int64_t begin, std::int64_t end);
  void (*rms_norm_inverse)(const RmsNormBackward& op, float* inverse, std::int64_t begin, std::int64_t end);
  void (*rms_norm_backward)(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                            std::int64_t end);
  void (*head_norm_forward)(const HeadNormForward& op, std::int64_t begin, std::int64_t end);
  // sums[2][head_dim]: what these rows add to the gradients of the weights.
  void (*head_norm_backward)(const HeadNormBackward& op, std::int64_t begin, std::int64_t end, float* sums);
  void (*rope)(const Rope& op, std::int64_t begin, std::int64_t end);
  void (*swiglu_forward)(const SwigluForward& op, std::int64_t begin, std::int64_t end);
  void (*swiglu_backward)(const SwigluBackward& op, std::int64_t begin, std::int64_t end);
  void (*softmax_scores)(const SoftmaxScores& op, std::int64_t begin, std::int64_t end);
  void (*cross_entropy_loss)(const CrossEntropyLoss& op, std::int64_t begin, std::int64_t end);
  void (*cross_entropy_gradient)(const CrossEntropyGradient& op, std::int64_t begin, std::int64_t end);
  void (*arg_max)(const ArgMax& op, std::int64_t begin, std::int64_t end);
  // All of it: sums[slots][pieces][2][head_dim] of head_norm_backward.
  void (*head_norm_weight_gradient)(const HeadNormBackward& op, std::int64_t pieces, const float* sums);
  // Elements [begin, end).
  void (*round)(const Round& op, std::int64_t begin, std::int64_t end);
  void (*add)(const Add& op, std::int64_t begin, std::int64_t end);
  // One run of kNormChunk elements.
  void (*offload_gradient)(const OffloadGradient& op, std::int64_t chunk);
  // Attention; `scratch` is 64-byte aligned, sizes in device/kernels/attention_*.h.
  void (*attention_forward)(const AttentionForward& op, std::int64_t task, float* scratch);
  void (*attention_delta)(const AttentionBackward& op, std::int64_t begin, std::int64_t end);
  void (*attention_backward_whole)(const AttentionBackward& op, std::int64_t slot, std::int64_t kv_head,
                                   float* scratch);
  void (*attention_backward_keys)(const AttentionBackward& op, std::int64_t slot, std::int64_t kv_head,
                                  std::int64_t key_block, float* scratch);
  void (*attention_backward_queries)(const AttentionBackward& op, std::int64_t slot, std::int64_t head,
                                     std::int64_t query_block, float* scratch);
  void (*attention_decode)(const AttentionDecode& op, std::int64_t sequence, std::int64_t kv_head,
                           float* scratch);
};

}  // namespace lazytrain::cpu
