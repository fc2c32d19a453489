// The arithmetic of the AdamW sweeps, as templates that adamw.cpp inlines into one function per instruction
// set. Plain loops that compilers turn into vectors; the file that includes this is compiled without
// math-errno, or square roots would not be.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/bfloat16.h"
#include "optim/block_codes.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {

// The scalars of a step as the sweep uses them.
struct AdamWScalars {
  float clip, keep, one_minus_beta1, beta2, one_minus_beta2, root_c2, inverse_root_c2, eps, negative_step;
};

// master_to_bfloat16 with masks in place of selections: compilers turn those into far longer vector code.
[[gnu::always_inline]] inline std::uint16_t rounded_master(float x, std::uint32_t offset) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const auto not_a_number = static_cast<std::uint32_t>((0x7F800000 - (bits & 0x7FFFFFFF)) >> 31);  // or 0
  const std::uint32_t code = static_cast<std::uint32_t>(bits) + (offset & ~not_a_number);
  return static_cast<std::uint16_t>((code | (not_a_number & 0x400000U)) >> 16);
}

// With separate masters and moments.
template <typename Gradient, bool kHasWeight>
[[gnu::always_inline]] inline void sweep_body(std::int64_t count, const Gradient* __restrict gradient,
                                              float* __restrict master, float* __restrict exp_avg,
                                              float* __restrict exp_avg_sq, bfloat16* __restrict weight,
                                              std::int64_t first, const AdamWScalars& s) {
  const AdamWScalars k = s;
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

// One block of 256. Moments are floats here in either precision: `second` is v, or r = sqrt(v) where they
// come from codes; then the block's largest |m| and r are returned. The work is cut in two loops because one
// body with a square root and a division behind each other is longer than processors look ahead.
template <typename Gradient, bool kEightBit>
[[gnu::always_inline]] inline BlockScale moments_body(const Gradient* __restrict gradient,
                                                      float* __restrict exp_avg, float* __restrict second,
                                                      float* __restrict denominator, const AdamWScalars& k) {
  std::int32_t largest_m = 0;  // bits: floats without a sign are ordered like integers
  std::int32_t largest_r = 0;
  for (std::int64_t i = 0; i < kStateBlock; ++i) {
    const float g = to_float(gradient[i]) * k.clip;
    const float m = exp_avg[i] + k.one_minus_beta1 * (g - exp_avg[i]);
    exp_avg[i] = m;
    if constexpr (kEightBit) {
      const float r = std::sqrt(second[i] * second[i] * k.beta2 + k.one_minus_beta2 * g * g);
      second[i] = r;
      denominator[i] = r * k.inverse_root_c2 + k.eps;
      largest_m = std::max(largest_m, std::bit_cast<std::int32_t>(m) & 0x7FFFFFFF);
      largest_r = std::max(largest_r, std::bit_cast<std::int32_t>(r));
    } else {
      const float v = second[i] * k.beta2 + k.one_minus_beta2 * g * g;
      second[i] = v;
      denominator[i] = std::sqrt(v) / k.root_c2 + k.eps;
    }
  }
  return {.exp_avg = std::bit_cast<float>(largest_m), .root = std::bit_cast<float>(largest_r)};
}
template <typename Weight>
[[gnu::always_inline]] inline void weights_body(Weight* __restrict weight, std::uint16_t* __restrict residual,
                                                const float* __restrict exp_avg,
                                                const float* __restrict denominator, std::int64_t first,
                                                const AdamWScalars& k) {
  std::uint32_t dither = static_cast<std::uint32_t>(first) * kRoundingStride;
  for (std::int64_t i = 0; i < kStateBlock; ++i) {
    const float change = k.negative_step * exp_avg[i] / denominator[i];
    if constexpr (std::is_same_v<Weight, bfloat16>) {
      const std::uint32_t offset = dither >> 16;
      dither += kRoundingStride;
      const std::uint32_t lower = (residual[i] + offset) & 0xFFFFU;  // join_master
      const std::uint32_t master = (static_cast<std::uint32_t>(weight[i].bits) << 16 | lower) - offset;
      const float p = std::bit_cast<float>(master) * k.keep + change;
      weight[i].bits = rounded_master(p, offset);
      residual[i] = master_residual(p);
    } else {
      weight[i] = weight[i] * k.keep + change;
    }
  }
}
template <typename Gradient, typename Weight, bool kEightBit>
[[gnu::always_inline]] inline BlockScale block_body(const Gradient* __restrict gradient,
                                                    Weight* __restrict weight,
                                                    std::uint16_t* __restrict residual,
                                                    float* __restrict exp_avg, float* __restrict second,
                                                    std::int64_t first, const AdamWScalars& k) {
  alignas(64) float denominator[kStateBlock];
  const BlockScale largest = moments_body<Gradient, kEightBit>(gradient, exp_avg, second, denominator, k);
  weights_body(weight, residual, exp_avg, denominator, first, k);
  return largest;
}

// A run of a tensor's elements; all pointers at its start, which is a multiple of 256 elements from the
// tensor's.
struct TensorSlice {
  const void* gradient = nullptr;
  void* weight = nullptr;
  std::uint16_t* residual = nullptr;
  void* exp_avg = nullptr;  // float or codes
  void* exp_avg_sq = nullptr;
  BlockScale* scales = nullptr;
  std::int64_t first = 0;  // index in the tensor
  std::int64_t count = 0;
};

using DecodeBlock = void(BlockCodes, BlockScale, float*, float*);
using EncodeBlock = void(const float*, const float*, BlockScale, BlockCodes);

// For a block with a second moment beyond the floats (a gradient of 1e19 and more): elements that have one
// did not move in this step; their moments are kept at 2^62, so that the block's scales stay finite.
[[gnu::noinline]] inline BlockScale cut_infinite(float* exp_avg, float* root) {
  constexpr float kLargest = 0x1p62F;
  BlockScale largest;
  for (std::int64_t i = 0; i < kStateBlock; ++i) {
    if (root[i] > kLargest) {
      root[i] = kLargest;
      exp_avg[i] = std::clamp(exp_avg[i], -kLargest, kLargest);
    }
    largest.exp_avg = std::max(largest.exp_avg, std::abs(exp_avg[i]));
    largest.root = std::max(largest.root, root[i]);
  }
  return largest;
}

// Below the normal floats an inverse could be infinite, and nothing is lost.
[[gnu::always_inline]] inline BlockScale stored_scale(BlockScale largest) {
  constexpr float kLeast = std::numeric_limits<float>::min();
  return {.exp_avg = largest.exp_avg < kLeast ? 0.0F : largest.exp_avg,
          .root = largest.root < kLeast ? 0.0F : largest.root};
}
[[gnu::always_inline]] inline BlockScale inverse(BlockScale scale) {
  return {.exp_avg = scale.exp_avg == 0.0F ? 0.0F : 1.0F / scale.exp_avg,
          .root = scale.root == 0.0F ? 0.0F : 1.0F / scale.root};
}

// The arrays of one block.
template <typename Gradient, typename Weight, typename Moment>
struct BlockView {
  const Gradient* gradient;
  Weight* weight;
  std::uint16_t* residual;  // null with fp32 weights
  Moment* exp_avg;
  Moment* second;
};

// A tensor's ragged last block is worked on in copies that are filled up with zeros, which add nothing to its
// scales.
template <typename Gradient, typename Weight, typename Moment>
struct BlockCopies {
  using View = BlockView<Gradient, Weight, Moment>;
  alignas(64) Gradient gradient[kStateBlock];
  alignas(64) Weight weight[kStateBlock];
  alignas(64) std::uint16_t residual[kStateBlock];
  alignas(64) Moment exp_avg[kStateBlock];
  alignas(64) Moment second[kStateBlock];

  View fill(const View& from, std::size_t count) {
    std::memset(static_cast<void*>(this), 0, sizeof *this);
    std::memcpy(gradient, from.gradient, count * sizeof(Gradient));
    std::memcpy(weight, from.weight, count * sizeof(Weight));
    if (from.residual != nullptr) std::memcpy(residual, from.residual, count * sizeof(std::uint16_t));
    if (sizeof(Moment) == 1) std::memset(exp_avg, kSignedZero, sizeof exp_avg);
    std::memcpy(exp_avg, from.exp_avg, count * sizeof(Moment));
    std::memcpy(second, from.second, count * sizeof(Moment));
    return {gradient, weight, residual, exp_avg, second};
  }
  void write_back(const View& to, std::size_t count) const {
    std::memcpy(to.weight, weight, count * sizeof(Weight));
    if (to.residual != nullptr) std::memcpy(to.residual, residual, count * sizeof(std::uint16_t));
    std::memcpy(to.exp_avg, exp_avg, count * sizeof(Moment));
    std::memcpy(to.second, second, count * sizeof(Moment));
  }
};

// A block with 8-bit moments, from codes to codes of a new scale.
template <typename Gradient, typename Weight>
[[gnu::always_inline]] inline void eight_bit_block(const BlockView<Gradient, Weight, std::uint8_t>& block,
                                                   BlockScale& scale, std::int64_t first,
                                                   const AdamWScalars& k, DecodeBlock* decode,
                                                   EncodeBlock* encode) {
  alignas(64) float exp_avg[kStateBlock];
  alignas(64) float root[kStateBlock];
  const BlockCodes codes{.exp_avg = block.exp_avg, .root = block.second};
  decode(codes, scale, exp_avg, root);
  BlockScale largest = block_body<Gradient, Weight, true>(block.gradient, block.weight, block.residual,
                                                          exp_avg, root, first, k);
  if (std::isinf(largest.root)) largest = cut_infinite(exp_avg, root);
  scale = stored_scale(largest);
  encode(exp_avg, root, inverse(scale), codes);
}

// A block with 8-bit moments: itself, its scale, the index of its first element, the step's scalars.
template <typename Gradient, typename Weight>
using UpdateBlock = void(const BlockView<Gradient, Weight, std::uint8_t>&, BlockScale&, std::int64_t,
                         const AdamWScalars&);

template <typename Gradient, typename Weight, bool kEightBit>
[[gnu::always_inline]] inline void slice_body(const TensorSlice& slice, const AdamWScalars& s,
                                              UpdateBlock<Gradient, Weight>* update_block) {
  using Moment = std::conditional_t<kEightBit, std::uint8_t, float>;
  const AdamWScalars k = s;
  BlockCopies<Gradient, Weight, Moment> copies;
  for (std::int64_t start = 0; start < slice.count; start += kStateBlock) {
    const auto count = static_cast<std::size_t>(std::min(kStateBlock, slice.count - start));
    const BlockView<Gradient, Weight, Moment> whole{
        static_cast<const Gradient*>(slice.gradient) + start, static_cast<Weight*>(slice.weight) + start,
        slice.residual == nullptr ? nullptr : slice.residual + start,
        static_cast<Moment*>(slice.exp_avg) + start, static_cast<Moment*>(slice.exp_avg_sq) + start};
    const bool ragged = count < kStateBlock;
    const BlockView<Gradient, Weight, Moment> block = ragged ? copies.fill(whole, count) : whole;
    const std::int64_t first = slice.first + start;
    if constexpr (kEightBit) {
      update_block(block, slice.scales[start / kStateBlock], first, k);
    } else {
      block_body<Gradient, Weight, false>(block.gradient, block.weight, block.residual, block.exp_avg,
                                          block.second, first, k);
    }
    if (ragged) copies.write_back(whole, count);
  }
}

}  // namespace lazytrain
