// Attention backward for one instruction set.
#include "device/kernels/attention_backward.h"

#include "device/cpu/isa/isa_kernels.h"
#include "device/cpu/isa/lanes.h"

namespace lazytrain::LAZYTRAIN_ISA {
namespace {

template <typename T>
LAZYTRAIN_KERNEL kernels::BackwardCall<T, float> typed(const AttentionBackward& op) {
  return {.shape = {op.slot_rows, op.heads, op.kv_heads, op.head_dim, op.window},
          .slots = op.rows / op.slot_rows,
          .qkv = static_cast<const T*>(op.qkv),
          .document_start = op.document_start,
          .core = static_cast<const T*>(op.core),
          .lse = op.lse,
          .d_core = static_cast<const T*>(op.dcore),
          .d_qkv = static_cast<T*>(op.dqkv),
          .delta = op.workspace};
}

}  // namespace

void attention_delta(const AttentionBackward& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? kernels::attention_delta<FloatLanes>(typed<bfloat16>(op), begin, end)
                            : kernels::attention_delta<FloatLanes>(typed<float>(op), begin, end);
}
void attention_backward_whole(const AttentionBackward& op, std::int64_t slot, std::int64_t kv_head,
                              float* scratch) {
  op.type == DataType::bf16
      ? kernels::attention_backward_whole<FloatLanes>(typed<bfloat16>(op), slot, kv_head, scratch)
      : kernels::attention_backward_whole<FloatLanes>(typed<float>(op), slot, kv_head, scratch);
}
void attention_backward_keys(const AttentionBackward& op, std::int64_t slot, std::int64_t kv_head,
                             std::int64_t key_block, float* scratch) {
  op.type == DataType::bf16
      ? kernels::attention_backward_keys<FloatLanes>(typed<bfloat16>(op), slot, kv_head, key_block, scratch)
      : kernels::attention_backward_keys<FloatLanes>(typed<float>(op), slot, kv_head, key_block, scratch);
}
void attention_backward_queries(const AttentionBackward& op, std::int64_t slot, std::int64_t head,
                                std::int64_t query_block, float* scratch) {
  op.type == DataType::bf16
      ? kernels::attention_backward_queries<FloatLanes>(typed<bfloat16>(op), slot, head, query_block, scratch)
      : kernels::attention_backward_queries<FloatLanes>(typed<float>(op), slot, head, query_block, scratch);
}

}  // namespace lazytrain::LAZYTRAIN_ISA
