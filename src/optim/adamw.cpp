#include "optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "core/error.h"
#include "device/cpu/instruction_set.h"
#include "optim/adamw_block_avx512.h"
#include "optim/adamw_sweep.h"

namespace lazytrain {
namespace {

// Elements per task: 28 bytes each, so that a task's memory is a few hundred kB and its start is free.
constexpr std::int64_t kSlice = 16384;

AdamWScalars scalars(const AdamWStep& step, bool decay) {
  const auto t = static_cast<double>(step.step);
  const double c1 = 1.0 - std::pow(step.beta1, t);
  const double c2 = 1.0 - std::pow(step.beta2, t);
  return {.clip = static_cast<float>(step.clip_factor),
          .keep = decay ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F,
          .one_minus_beta1 = static_cast<float>(1.0 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - step.beta2),
          .root_c2 = static_cast<float>(std::sqrt(c2)),
          .inverse_root_c2 = static_cast<float>(1.0 / std::sqrt(c2)),
          .eps = static_cast<float>(step.eps),
          .negative_step = static_cast<float>(-(step.lr / c1))};
}

template <typename Gradient, bool kHasWeight>
void sweep_baseline(std::int64_t count, const Gradient* gradient, float* master, float* exp_avg,
                    float* exp_avg_sq, bfloat16* weight, std::int64_t first, const AdamWScalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
[[gnu::target("avx2")]] void sweep_avx2(std::int64_t count, const Gradient* gradient, float* master,
                                        float* exp_avg, float* exp_avg_sq, bfloat16* weight,
                                        std::int64_t first, const AdamWScalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void sweep_avx512(
    std::int64_t count, const Gradient* gradient, float* master, float* exp_avg, float* exp_avg_sq,
    bfloat16* weight, std::int64_t first, const AdamWScalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
void sweep(InstructionSet set, std::int64_t begin, std::int64_t count, std::int64_t first,
           const AdamWGroup& group, const AdamWScalars& s) {
  const auto* gradient = static_cast<const Gradient*>(group.gradient) + begin;
  bfloat16* weight = kHasWeight ? group.weight + begin : nullptr;
  const auto run = [&](auto* function) {
    function(count, gradient, group.master + begin, group.exp_avg + begin, group.exp_avg_sq + begin, weight,
             first, s);
  };
  switch (set) {
    case InstructionSet::baseline:
      return run(sweep_baseline<Gradient, kHasWeight>);
    case InstructionSet::avx2:
      return run(sweep_avx2<Gradient, kHasWeight>);
    case InstructionSet::avx512:
      return run(sweep_avx512<Gradient, kHasWeight>);
  }
}

template <typename Gradient, typename Weight>
void block_baseline(const BlockView<Gradient, Weight, std::uint8_t>& block, BlockScale& scale,
                    std::int64_t first, const AdamWScalars& k) {
  eight_bit_block(block, scale, first, k, decode_block_baseline, encode_block_baseline);
}

template <typename Gradient, typename Weight>
[[gnu::target("avx2")]] void block_avx2(const BlockView<Gradient, Weight, std::uint8_t>& block,
                                        BlockScale& scale, std::int64_t first, const AdamWScalars& k) {
  eight_bit_block(block, scale, first, k, decode_block_avx2, encode_block_avx2);
}

template <typename Gradient, typename Weight>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void block_avx512(
    const BlockView<Gradient, Weight, std::uint8_t>& block, BlockScale& scale, std::int64_t first,
    const AdamWScalars& k) {
  if constexpr (std::is_same_v<Weight, bfloat16>) {
    BlockMoments moments;
    const BlockCodes codes{.exp_avg = block.exp_avg, .root = block.second};
    prefetch_block(block.weight);
    prefetch_block(block.residual);
    const BlockScale largest = moments_block_avx512(block.gradient, codes, scale, k, moments);
    if (std::isinf(largest.root)) {
      weights_body(block.weight, block.residual, moments.exp_avg, moments.denominator, first, k);
      scale = stored_scale(cut_infinite(moments.exp_avg, moments.root));
      encode_block_avx512(moments.exp_avg, moments.root, inverse(scale), codes);
      return;
    }
    scale = stored_scale(largest);
    prefetch_block(block.gradient + kStateBlock);
    prefetch_block(codes.exp_avg + kStateBlock);
    prefetch_block(codes.root + kStateBlock);
    weights_block_avx512(moments, inverse(scale), codes, block.weight, block.residual, first, k);
  } else {
    eight_bit_block(block, scale, first, k, decode_block_avx512, encode_block_avx512);
  }
}

template <typename Gradient, typename Weight, bool kEightBit>
void slice_baseline(const TensorSlice& slice, const AdamWScalars& s) {
  slice_body<Gradient, Weight, kEightBit>(slice, s, block_baseline<Gradient, Weight>);
}

template <typename Gradient, typename Weight, bool kEightBit>
[[gnu::target("avx2")]] void slice_avx2(const TensorSlice& slice, const AdamWScalars& s) {
  slice_body<Gradient, Weight, kEightBit>(slice, s, block_avx2<Gradient, Weight>);
}

template <typename Gradient, typename Weight, bool kEightBit>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void slice_avx512(
    const TensorSlice& slice, const AdamWScalars& s) {
  slice_body<Gradient, Weight, kEightBit>(slice, s, block_avx512<Gradient, Weight>);
}

using SliceFunction = void (*)(const TensorSlice&, const AdamWScalars&);

template <typename Gradient, typename Weight, bool kEightBit>
SliceFunction slice_function(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return slice_baseline<Gradient, Weight, kEightBit>;
    case InstructionSet::avx2:
      return slice_avx2<Gradient, Weight, kEightBit>;
    case InstructionSet::avx512:
      return slice_avx512<Gradient, Weight, kEightBit>;
  }
  return nullptr;
}

template <typename Gradient, typename Weight>
SliceFunction slice_function(InstructionSet set, MomentPrecision precision) {
  return precision == MomentPrecision::eight_bit ? slice_function<Gradient, Weight, true>(set)
                                                 : slice_function<Gradient, Weight, false>(set);
}

SliceFunction slice_function(InstructionSet set, DataType gradient, DataType weight,
                             MomentPrecision precision) {
  if (weight == DataType::f32) {
    return gradient == DataType::f32 ? slice_function<float, float>(set, precision)
                                     : slice_function<bfloat16, float>(set, precision);
  }
  return gradient == DataType::f32 ? slice_function<float, bfloat16>(set, precision)
                                   : slice_function<bfloat16, bfloat16>(set, precision);
}

// Elements first..first + kSlice of a tensor's part, as far as it goes.
TensorSlice tensor_slice(const AdamWStateGroup& group, const TensorState& tensor, std::int64_t first) {
  const std::int64_t element = tensor.range.begin + first;
  const auto part = [&](const StatePart& at, std::int64_t offset) -> std::byte* {
    return at.bytes.value == 0 ? nullptr : group.state + at.offset.value + offset;
  };
  const std::int64_t moment = tensor.precision == MomentPrecision::eight_bit ? 1 : 4;
  constexpr std::int64_t kScale = sizeof(BlockScale);
  return {.gradient = static_cast<const std::byte*>(group.gradient) +
                      (element - group.gradient_first) * size_of(group.gradient_type),
          .weight = static_cast<std::byte*>(group.weight) + element * size_of(group.layout->weights),
          .residual = reinterpret_cast<std::uint16_t*>(part(tensor.residual, first * 2)),
          .exp_avg = part(tensor.exp_avg, first * moment),
          .exp_avg_sq = part(tensor.exp_avg_sq, first * moment),
          .scales = reinterpret_cast<BlockScale*>(part(tensor.scales, first / kStateBlock * kScale)),
          .first = tensor.first + first,
          .count = std::min(kSlice, tensor.range.end - element)};
}
static_assert(kSlice % kStateBlock == 0);

bool supported(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return true;
    case InstructionSet::avx2:
      return __builtin_cpu_supports("avx2") != 0;
    case InstructionSet::avx512:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  }
  return false;
}

std::int64_t slices(const ParameterRange& range) {
  return (range.end - range.begin + kSlice - 1) / kSlice;
}

}  // namespace

const char* to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::baseline:
      return "baseline x86-64";
    case InstructionSet::avx2:
      return "AVX2";
    case InstructionSet::avx512:
      return "AVX-512";
  }
  return "?";
}

InstructionSet best_instruction_set() {
  switch (cpu::instruction_set()) {
    case cpu::InstructionSet::avx512_bf16:
    case cpu::InstructionSet::avx512:
      return InstructionSet::avx512;
    case cpu::InstructionSet::avx2:
      return InstructionSet::avx2;
    case cpu::InstructionSet::baseline:
      break;
  }
  return InstructionSet::baseline;
}

void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step) {
  adamw_update(pool, group, step, best_instruction_set());
}

void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step, InstructionSet set) {
  check(step.step >= 1, "optimizer steps count from 1");
  check(supported(set), "the processor has the instruction set asked for");
  const AdamWScalars decayed = scalars(step, true);
  const AdamWScalars plain = scalars(step, false);
  std::int64_t total = 0;
  for (const ParameterRange& range : group.ranges) total += slices(range);

  // A slice is found by walking the ranges: a group has a dozen of them.
  pool.parallel_for(total, [&](std::int64_t slice) {
    for (const ParameterRange& range : group.ranges) {
      const std::int64_t here = slices(range);
      if (slice >= here) {
        slice -= here;
        continue;
      }
      const std::int64_t begin = range.begin + slice * kSlice;
      const std::int64_t count = std::min(kSlice, range.end - begin);
      const AdamWScalars& s = range.decay ? decayed : plain;
      if (group.gradient_type == DataType::f32) {
        group.weight == nullptr ? sweep<float, false>(set, begin, count, slice * kSlice, group, s)
                                : sweep<float, true>(set, begin, count, slice * kSlice, group, s);
      } else {
        group.weight == nullptr ? sweep<bfloat16, false>(set, begin, count, slice * kSlice, group, s)
                                : sweep<bfloat16, true>(set, begin, count, slice * kSlice, group, s);
      }
      return;
    }
  });
}

void adamw_update(ThreadPool& pool, const AdamWStateGroup& group, const AdamWStep& step) {
  adamw_update(pool, group, step, best_instruction_set());
}

void adamw_update(ThreadPool& pool, const AdamWStateGroup& group, const AdamWStep& step, InstructionSet set) {
  check(step.step >= 1, "optimizer steps count from 1");
  check(supported(set), "the processor has the instruction set asked for");
  check(reinterpret_cast<std::uintptr_t>(group.state) % kBufferAlignment == 0, "states are aligned");
  const AdamWScalars decayed = scalars(step, true);
  const AdamWScalars plain = scalars(step, false);
  std::int64_t total = 0;
  for (const TensorState& tensor : group.layout->tensors) total += slices(tensor.range);

  const auto update = [&](std::int64_t slice) {
    for (const TensorState& tensor : group.layout->tensors) {
      const std::int64_t here = slices(tensor.range);
      if (slice >= here) {
        slice -= here;
        continue;
      }
      slice_function(set, group.gradient_type, group.layout->weights, tensor.precision)(
          tensor_slice(group, tensor, slice * kSlice), tensor.range.decay ? decayed : plain);
      return;
    }
  };
  pool.parallel_for(total, std::ref(update));  // by reference: a std::function of it would allocate
}

double adamw_traffic_bytes(DataType gradient_type, DataType weights, MomentPrecision precision) {
  return static_cast<double>(size_of(gradient_type)) + 2.0 * static_cast<double>(size_of(weights)) +
         2.0 * state_bytes_per_parameter(precision, weights);
}

std::int64_t adamw_traffic_bytes(DataType gradient_type, bool separate_weight) {
  return size_of(gradient_type) + 3 * 2 * 4 + (separate_weight ? 2 : 0);
}

}  // namespace lazytrain
