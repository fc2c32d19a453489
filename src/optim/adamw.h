// AdamW on host cores: one sweep over a parameter group. Masters are fp32, apart or split into the bf16
// weight and 16 bits more; moments are fp32 or 8-bit codes (optim/group_state.h).
//
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization"; the order of operations and of
// roundings is that of torch.optim.AdamW (single tensor, fp32):
//   g = gradient * clip_factor
//   p = p * (1 - lr * weight_decay)               where the tensor is decayed
//   m = m + (1 - beta1) * (g - m)
//   v = v * beta2 + (1 - beta2) * g * g
//   p = p - (lr / c1) * m / (sqrt(v) / sqrt(c2) + eps)      c1 = 1 - beta1^step, c2 = 1 - beta2^step
// Scalars are made in fp64 and rounded to fp32 once. Every element is independent and no multiply-add is
// fused, so the bits depend neither on the instruction set nor on the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/bfloat16.h"
#include "core/threads.h"
#include "device/operations.h"
#include "optim/group_state.h"

namespace lazytrain {

// What one optimizer step is about, the same for all groups.
struct AdamWStep {
  double lr = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double clip_factor = 1.0;  // optim/clipping.h
  std::int64_t step = 1;     // 1-based number of this update; a skipped step is not counted
};

// One group's buffers, all with the same element index.
struct AdamWGroup {
  std::span<const ParameterRange> ranges;  // disjoint
  DataType gradient_type = DataType::bf16;
  const void* gradient = nullptr;
  float* master = nullptr;
  float* exp_avg = nullptr;
  float* exp_avg_sq = nullptr;
  bfloat16* weight = nullptr;  // receives master_to_bfloat16(master, index in its range); null where the
                               // master is the weight
};

enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };
[[nodiscard]] const char* to_string(InstructionSet set);
// The best that this processor has, lowered by LAZYTRAIN_ISA (device/cpu/instruction_set.h).
[[nodiscard]] InstructionSet best_instruction_set();

// Updates a group in place on all threads of `pool`. Allocates nothing. All values finite or not are
// processed alike: whether a step is taken is the caller's decision (optim/clipping.h).
void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step);
void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step, InstructionSet set);

// One group, or one piece of it, whose states are laid out by group_state_layout or piece_layout. Weights
// have the group's element index; what no tensor of the layout covers is left alone.
struct AdamWStateGroup {
  const GroupStateLayout* layout = nullptr;
  DataType gradient_type = DataType::bf16;  // or f32
  const void* gradient = nullptr;
  std::int64_t gradient_first = 0;  // the group's element at which `gradient` begins
  void* weight = nullptr;           // layout->weights. bf16: master_to_bfloat16(master, index in its tensor)
  std::byte* state = nullptr;       // layout->bytes, aligned to kBufferAlignment
};

// The same update with masters split into weight and residual (or fp32 weights, their own masters), and
// moments in fp32 or in 8-bit codes. Tensors with fp32 moments get the bits of the update above. Those with
// codes store r = sqrt(v) in place of v, and
//   v = r * r * beta2 + (1 - beta2) * g * g
//   p = p - (lr / c1) * m / (sqrt(v) * (1 / sqrt(c2)) + eps)
// use the new m and v before they are rounded to codes. Why r: the codes of v would turn to zero below 4e-4
// of the block's largest gradient, and an update divided by that would be a hundred times the learning rate;
// r reaches down to 3e-7, and no r but zero becomes zero (tests/optim/eight_bit_hazard_test.cpp).
// A block of 256 whose largest |m| is below the normal floats forgets its m. Where v overflows (|g| > 1e19)
// the parameter does not move, as with fp32 moments, and both its moments are kept at no more than 2^62.
// Allocates nothing; the bits depend neither on the instruction set nor on the number of threads. Gradients
// must be finite: one that is not would spoil its whole block (optim/clipping.h tells before the update).
void adamw_update(ThreadPool& pool, const AdamWStateGroup& group, const AdamWStep& step);
void adamw_update(ThreadPool& pool, const AdamWStateGroup& group, const AdamWStep& step, InstructionSet set);

// Memory traffic of an update, read and written, per parameter of a tensor with these states.
[[nodiscard]] double adamw_traffic_bytes(DataType gradient_type, DataType weights, MomentPrecision precision);

// Memory traffic of an update, read and written, per parameter: for speed reports.
[[nodiscard]] std::int64_t adamw_traffic_bytes(DataType gradient_type, bool separate_weight);

}  // namespace lazytrain
