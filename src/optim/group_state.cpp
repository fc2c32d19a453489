#include "optim/group_state.h"

#include "core/error.h"
#include "optim/block_codes.h"

namespace lazytrain {

const char* to_string(StateFormat format) {
  switch (format) {
    case StateFormat::adamw_32bit:
      return "adamw_32bit";
    case StateFormat::adamw_8bit:
      return "adamw_8bit";
    case StateFormat::adamw_hybrid:
      return "adamw_hybrid";
  }
  return "?";
}

const char* to_string(MomentPrecision precision) {
  switch (precision) {
    case MomentPrecision::fp32:
      return "fp32";
    case MomentPrecision::eight_bit:
      return "eight_bit";
  }
  return "?";
}

std::vector<MomentPrecision> moment_precisions(std::span<const TensorShape> tensors,
                                               const MomentOptions& options) {
  std::vector<MomentPrecision> precisions;
  precisions.reserve(tensors.size());
  double seen = 0;
  double taken = 0;
  for (const TensorShape& tensor : tensors) {
    const auto elements = static_cast<double>(tensor.elements);
    seen += elements;
    bool eight_bit = options.format != StateFormat::adamw_32bit && !tensor.one_dimensional &&
                     tensor.elements >= kLeastEightBitElements &&
                     (!tensor.embedding_or_head || options.embeddings == MomentPrecision::eight_bit);
    if (options.format == StateFormat::adamw_hybrid) {
      eight_bit = eight_bit && options.hybrid_fraction * seen - taken >= elements / 2;
    }
    if (eight_bit) taken += elements;
    precisions.push_back(eight_bit ? MomentPrecision::eight_bit : MomentPrecision::fp32);
  }
  return precisions;
}

GroupStateLayout group_state_layout(std::span<const TensorPrecision> tensors, DataType weights) {
  check(weights == DataType::bf16 || weights == DataType::f32, "weights are bf16 or fp32");
  GroupStateLayout layout{.weights = weights};
  const auto part = [&layout](std::int64_t bytes) {
    const StatePart placed{.offset = layout.bytes, .bytes = {bytes}};
    layout.bytes += align_up(placed.bytes, kBufferAlignment);
    return placed;
  };
  for (const TensorPrecision& tensor : tensors) {
    const std::int64_t elements = tensor.range.end - tensor.range.begin;
    check(elements >= 0, "a tensor ends where it begins or later");
    TensorState state{.range = tensor.range, .precision = tensor.precision};
    if (weights == DataType::bf16) state.residual = part(2 * elements);
    if (tensor.precision == MomentPrecision::fp32) {
      state.exp_avg = part(4 * elements);
      state.exp_avg_sq = part(4 * elements);
    } else {
      state.exp_avg = part(elements);
      state.exp_avg_sq = part(elements);
      const std::int64_t blocks = (elements + kStateBlock - 1) / kStateBlock;
      state.scales = part(blocks * static_cast<std::int64_t>(sizeof(BlockScale)));
    }
    layout.tensors.push_back(state);
  }
  return layout;
}

double state_bytes_per_parameter(MomentPrecision precision, DataType weights) {
  const double moments =
      precision == MomentPrecision::fp32 ? 8.0 : 2.0 + static_cast<double>(sizeof(BlockScale)) / kStateBlock;
  return moments + (weights == DataType::bf16 ? 2.0 : 0.0);
}

}  // namespace lazytrain
