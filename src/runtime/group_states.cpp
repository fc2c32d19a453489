#include "runtime/group_states.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/bfloat16.h"
#include "core/error.h"
#include "optim/block_codes.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {
namespace {

struct Moments {
  std::vector<float> exp_avg, exp_avg_sq;
};

Moments moments_of(const TensorState& tensor, std::span<const std::byte> state) {
  const auto elements = static_cast<std::size_t>(tensor.range.end - tensor.range.begin);
  Moments moments{std::vector<float>(elements), std::vector<float>(elements)};
  const std::byte* exp_avg = state.data() + tensor.exp_avg.offset.value;
  const std::byte* exp_avg_sq = state.data() + tensor.exp_avg_sq.offset.value;
  if (tensor.precision == MomentPrecision::fp32) {
    std::memcpy(moments.exp_avg.data(), exp_avg, elements * 4);
    std::memcpy(moments.exp_avg_sq.data(), exp_avg_sq, elements * 4);
    return moments;
  }
  const auto* scales = reinterpret_cast<const BlockScale*>(state.data() + tensor.scales.offset.value);
  for (std::size_t i = 0; i < elements; ++i) {
    const BlockScale scale = scales[i / kStateBlock];
    const float root = decode_unsigned(static_cast<std::uint8_t>(exp_avg_sq[i])) * scale.root;
    moments.exp_avg[i] = decode_signed(static_cast<std::uint8_t>(exp_avg[i])) * scale.exp_avg;
    moments.exp_avg_sq[i] = root * root;
  }
  return moments;
}

void store(const Moments& moments, const TensorState& tensor, std::span<std::byte> state) {
  const std::size_t elements = moments.exp_avg.size();
  std::byte* exp_avg = state.data() + tensor.exp_avg.offset.value;
  std::byte* exp_avg_sq = state.data() + tensor.exp_avg_sq.offset.value;
  if (tensor.precision == MomentPrecision::fp32) {
    std::memcpy(exp_avg, moments.exp_avg.data(), elements * 4);
    std::memcpy(exp_avg_sq, moments.exp_avg_sq.data(), elements * 4);
    return;
  }
  auto* scales = reinterpret_cast<BlockScale*>(state.data() + tensor.scales.offset.value);
  for (std::size_t begin = 0; begin < elements; begin += kStateBlock) {
    const std::size_t end = std::min(elements, begin + kStateBlock);
    BlockScale scale;
    for (std::size_t i = begin; i < end; ++i) {
      scale.exp_avg = std::max(scale.exp_avg, std::abs(moments.exp_avg[i]));
      scale.root = std::max(scale.root, std::sqrt(moments.exp_avg_sq[i]));
    }
    scales[begin / kStateBlock] = scale;
    const auto part = [](float value, float largest) { return largest > 0 ? value / largest : 0.0F; };
    for (std::size_t i = begin; i < end; ++i) {
      exp_avg[i] = std::byte{encode_signed(part(moments.exp_avg[i], scale.exp_avg))};
      exp_avg_sq[i] = std::byte{encode_unsigned(part(std::sqrt(moments.exp_avg_sq[i]), scale.root))};
    }
  }
}

// Calls f(part of a tensor, first element of the part, offset into the run, count) for the tensors that the
// run of elements first..first+count of the group touches.
template <typename F>
void each_part(const GroupStateLayout& layout, std::int64_t first, std::int64_t count, F f) {
  for (const TensorState& tensor : layout.tensors) {
    const std::int64_t begin = std::max(first, tensor.range.begin);
    const std::int64_t end = std::min(first + count, tensor.range.end);
    if (begin < end) f(tensor, begin - tensor.range.begin, begin - first, end - begin);
  }
}

}  // namespace

void read_masters(const GroupStateLayout& layout, std::span<const std::byte> weights,
                  std::span<const std::byte> state, std::int64_t first, std::span<float> out) {
  std::fill(out.begin(), out.end(), 0.0F);
  each_part(layout, first, std::ssize(out),
            [&](const TensorState& tensor, std::int64_t index, std::int64_t at, std::int64_t count) {
              float* to = out.data() + at;
              if (layout.weights == DataType::f32) {
                std::memcpy(to, reinterpret_cast<const float*>(weights.data()) + first + at,
                            static_cast<std::size_t>(count) * 4);
                return;
              }
              const auto* copies = reinterpret_cast<const bfloat16*>(weights.data()) + first + at;
              const auto* residuals =
                  reinterpret_cast<const std::uint16_t*>(state.data() + tensor.residual.offset.value) + index;
              for (std::int64_t i = 0; i < count; ++i)
                to[i] = join_master(copies[i], residuals[i],
                                    static_cast<std::uint64_t>(tensor.first + index + i));
            });
}

void write_masters(const GroupStateLayout& layout, std::span<std::byte> weights, std::span<std::byte> state,
                   std::int64_t first, std::span<const float> values) {
  each_part(layout, first, std::ssize(values),
            [&](const TensorState& tensor, std::int64_t index, std::int64_t at, std::int64_t count) {
              const float* from = values.data() + at;
              if (layout.weights == DataType::f32) {
                std::memcpy(reinterpret_cast<float*>(weights.data()) + first + at, from,
                            static_cast<std::size_t>(count) * 4);
                return;
              }
              auto* copies = reinterpret_cast<bfloat16*>(weights.data()) + first + at;
              auto* residuals =
                  reinterpret_cast<std::uint16_t*>(state.data() + tensor.residual.offset.value) + index;
              for (std::int64_t i = 0; i < count; ++i) {
                copies[i] = master_to_bfloat16(from[i], static_cast<std::uint64_t>(tensor.first + index + i));
                residuals[i] = master_residual(from[i]);
              }
            });
}

std::vector<GroupStateLayout> state_layouts(std::span<const ParameterGroup> groups, DataType weights,
                                            const MomentOptions& options) {
  std::vector<TensorShape> shapes;
  for (const ParameterGroup& group : groups)
    for (const ParameterTensor& tensor : group.tensors)
      shapes.push_back({.elements = tensor.elements,
                        .one_dimensional = tensor.shape.size() < 2,
                        .embedding_or_head = group.kind != GroupKind::layer});
  const std::vector<MomentPrecision> precisions = moment_precisions(shapes, options);
  std::vector<GroupStateLayout> layouts;
  std::size_t next = 0;
  for (const ParameterGroup& group : groups) {
    std::vector<TensorPrecision> tensors;
    for (const ParameterTensor& tensor : group.tensors)
      tensors.push_back(
          {.range = {.begin = tensor.offset, .end = tensor.offset + tensor.elements, .decay = tensor.decay},
           .precision = precisions[next++]});
    // Very large groups have larger pieces instead of ever more of them.
    constexpr std::int64_t kMostPieces = 256;
    const std::int64_t least = (group.elements / kMostPieces / kStateBlock + 1) * kStateBlock;
    layouts.push_back(group_state_layout(tensors, weights, std::max(options.piece_elements, least)));
  }
  return layouts;
}

std::vector<StatePieceSize> state_piece_sizes(const GroupStateLayout& layout) {
  std::vector<StatePieceSize> sizes;
  for (const StatePiece& piece : layout.pieces)
    sizes.push_back({.begin = piece.begin,
                     .end = piece.end,
                     .eight_bit_elements = elements_in_eight_bits(piece_layout(layout, piece)),
                     .bytes = piece.bytes});
  return sizes;
}

std::int64_t elements_in_eight_bits(const GroupStateLayout& layout) {
  std::int64_t sum = 0;
  for (const TensorState& tensor : layout.tensors)
    if (tensor.precision == MomentPrecision::eight_bit) sum += tensor.range.end - tensor.range.begin;
  return sum;
}

void convert_states(const GroupStateLayout& from_layout, std::span<const std::byte> from,
                    const GroupStateLayout& to_layout, std::span<std::byte> to) {
  check(from_layout.weights == to_layout.weights && from_layout.tensors.size() == to_layout.tensors.size(),
        "states of the same tensors and weights");
  check(from.size() == static_cast<std::size_t>(from_layout.bytes.value) &&
            to.size() == static_cast<std::size_t>(to_layout.bytes.value),
        "whole states");
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::size_t t = 0; t < to_layout.tensors.size(); ++t) {
    const TensorState &source = from_layout.tensors[t], &target = to_layout.tensors[t];
    std::memcpy(to.data() + target.residual.offset.value, from.data() + source.residual.offset.value,
                static_cast<std::size_t>(target.residual.bytes.value));
    store(moments_of(source, from), target, to);
  }
}

}  // namespace lazytrain
