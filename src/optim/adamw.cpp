#include "optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace lazytrain {
namespace {

// Elements per task: 28 bytes each, so that a task's memory is a few hundred kB and its start is free.
constexpr std::int64_t kSlice = 16384;

// The scalars of a step as the sweep uses them.
struct Scalars {
  float clip, keep, one_minus_beta1, beta2, one_minus_beta2, root_c2, eps, negative_step;
};

Scalars scalars(const AdamWStep& step, bool decay) {
  const auto t = static_cast<double>(step.step);
  const double c1 = 1.0 - std::pow(step.beta1, t);
  const double c2 = 1.0 - std::pow(step.beta2, t);
  return {.clip = static_cast<float>(step.clip_factor),
          .keep = decay ? static_cast<float>(1.0 - step.lr * step.weight_decay) : 1.0F,
          .one_minus_beta1 = static_cast<float>(1.0 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1.0 - step.beta2),
          .root_c2 = static_cast<float>(std::sqrt(c2)),
          .eps = static_cast<float>(step.eps),
          .negative_step = static_cast<float>(-(step.lr / c1))};
}

// master_to_bfloat16 with masks in place of selections: compilers turn those into far longer vector code.
[[gnu::always_inline]] inline std::uint16_t rounded_master(float x, std::uint32_t offset) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const auto not_a_number = static_cast<std::uint32_t>((0x7F800000 - (bits & 0x7FFFFFFF)) >> 31);  // or 0
  const std::uint32_t code = static_cast<std::uint32_t>(bits) + (offset & ~not_a_number);
  return static_cast<std::uint16_t>((code | (not_a_number & 0x400000U)) >> 16);
}

// The one body; it is inlined into a function per instruction set below.
template <typename Gradient, bool kHasWeight>
[[gnu::always_inline]] inline void sweep_body(std::int64_t count, const Gradient* __restrict gradient,
                                              float* __restrict master, float* __restrict exp_avg,
                                              float* __restrict exp_avg_sq, bfloat16* __restrict weight,
                                              std::int64_t first, const Scalars& s) {
  const Scalars k = s;
  std::uint32_t dither = static_cast<std::uint32_t>(first) * kRoundingStride;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = to_float(gradient[i]) * k.clip;
    const float m = exp_avg[i] + k.one_minus_beta1 * (g - exp_avg[i]);
    const float v = exp_avg_sq[i] * k.beta2 + k.one_minus_beta2 * g * g;
    const float denominator = std::sqrt(v) / k.root_c2 + k.eps;
    const float p = master[i] * k.keep + k.negative_step * m / denominator;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    master[i] = p;
    if constexpr (kHasWeight) weight[i].bits = rounded_master(p, dither >> 16);
    dither += kRoundingStride;
  }
}

template <typename Gradient, bool kHasWeight>
void sweep_baseline(std::int64_t count, const Gradient* gradient, float* master, float* exp_avg,
                    float* exp_avg_sq, bfloat16* weight, std::int64_t first, const Scalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
[[gnu::target("avx2")]] void sweep_avx2(std::int64_t count, const Gradient* gradient, float* master,
                                        float* exp_avg, float* exp_avg_sq, bfloat16* weight,
                                        std::int64_t first, const Scalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]] void sweep_avx512(
    std::int64_t count, const Gradient* gradient, float* master, float* exp_avg, float* exp_avg_sq,
    bfloat16* weight, std::int64_t first, const Scalars& s) {
  sweep_body<Gradient, kHasWeight>(count, gradient, master, exp_avg, exp_avg_sq, weight, first, s);
}

template <typename Gradient, bool kHasWeight>
void sweep(InstructionSet set, std::int64_t begin, std::int64_t count, std::int64_t first,
           const AdamWGroup& group, const Scalars& s) {
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
  const char* wish = std::getenv("LAZYTRAIN_ISA");
  const std::string_view limit = wish == nullptr ? "" : wish;
  if (limit == "baseline") return InstructionSet::baseline;
  if (limit != "avx2" && supported(InstructionSet::avx512)) return InstructionSet::avx512;
  return supported(InstructionSet::avx2) ? InstructionSet::avx2 : InstructionSet::baseline;
}

void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step) {
  adamw_update(pool, group, step, best_instruction_set());
}

void adamw_update(ThreadPool& pool, const AdamWGroup& group, const AdamWStep& step, InstructionSet set) {
  check(step.step >= 1, "optimizer steps count from 1");
  check(supported(set), "the processor has the instruction set asked for");
  const Scalars decayed = scalars(step, true);
  const Scalars plain = scalars(step, false);
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
      const Scalars& s = range.decay ? decayed : plain;
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

std::int64_t adamw_traffic_bytes(DataType gradient_type, bool separate_weight) {
  return size_of(gradient_type) + 3 * 2 * 4 + (separate_weight ? 2 : 0);
}

}  // namespace lazytrain
