// Attention forward and decoding for one instruction set.
#include "device/kernels/attention_forward.h"

#include "device/cpu/isa/isa_kernels.h"
#include "device/cpu/isa/lanes.h"
#include "device/kernels/attention_decode.h"

namespace lazytrain::LAZYTRAIN_ISA {
namespace {

template <typename T>
void forward_of(const AttentionForward& op, std::int64_t task, float* scratch) {
  const kernels::AttentionShape shape{op.slot_rows, op.heads, op.kv_heads, op.head_dim, op.window};
  kernels::attention_forward<FloatLanes>(shape, op.rows / op.slot_rows, task, static_cast<const T*>(op.qkv),
                                         op.document_start, static_cast<T*>(op.core), op.lse, scratch);
}

template <typename T>
void decode_of(const AttentionDecode& op, std::int64_t sequence, std::int64_t kv_head, float* scratch) {
  const kernels::AttentionShape shape{0, op.heads, op.kv_heads, op.head_dim, op.window};
  const T* query = static_cast<const T*>(op.qkv) + sequence * shape.row();
  const T* cache = static_cast<const T*>(op.cache) + sequence * op.capacity * 2 * op.kv_heads * op.head_dim;
  T* core = static_cast<T*>(op.core) + sequence * op.heads * op.head_dim;
  kernels::attention_decode<FloatLanes>(shape, kv_head, op.length[sequence], query, cache, core, scratch);
}

}  // namespace

void attention_forward(const AttentionForward& op, std::int64_t task, float* scratch) {
  op.type == DataType::bf16 ? forward_of<bfloat16>(op, task, scratch) : forward_of<float>(op, task, scratch);
}
void attention_decode(const AttentionDecode& op, std::int64_t sequence, std::int64_t kv_head,
                      float* scratch) {
  op.type == DataType::bf16 ? decode_of<bfloat16>(op, sequence, kv_head, scratch)
                            : decode_of<float>(op, sequence, kv_head, scratch);
}

}  // namespace lazytrain::LAZYTRAIN_ISA
