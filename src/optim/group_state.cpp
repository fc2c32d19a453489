#include "optim/group_state.h"

#include <algorithm>

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

namespace {

// Gives a part of a tensor its place behind `end`, which moves on.
TensorState place(const TensorPrecision& tensor, std::int64_t first, std::int64_t elements, DataType weights,
                  Bytes& end) {
  const auto part = [&end](std::int64_t bytes) {
    const StatePart placed{.offset = end, .bytes = {bytes}};
    end += align_up(placed.bytes, kBufferAlignment);
    return placed;
  };
  const std::int64_t begin = tensor.range.begin + first;
  TensorState state{.range = {.begin = begin, .end = begin + elements, .decay = tensor.range.decay},
                    .first = first,
                    .precision = tensor.precision};
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
  return state;
}

}  // namespace

GroupStateLayout group_state_layout(std::span<const TensorPrecision> tensors, DataType weights,
                                    std::int64_t piece_elements) {
  check(weights == DataType::bf16 || weights == DataType::f32, "weights are bf16 or fp32");
  check(piece_elements > 0 && piece_elements % kStateBlock == 0, "pieces are cut between blocks");
  GroupStateLayout layout{.weights = weights};
  std::int64_t room = piece_elements;  // in the open piece
  const auto close = [&] {
    if (layout.pieces.empty()) return;
    layout.bytes = align_up(layout.bytes, kDiskAlignment);
    layout.pieces.back().bytes = layout.bytes - layout.pieces.back().offset;
  };
  for (const TensorPrecision& tensor : tensors) {
    const std::int64_t elements = tensor.range.end - tensor.range.begin;
    check(elements >= 0, "a tensor ends where it begins or later");
    std::int64_t first = 0;
    do {
      const std::int64_t rest = elements - first;
      // A tensor is cut only between its blocks.
      std::int64_t count = rest <= room ? rest : room / kStateBlock * kStateBlock;
      if (layout.pieces.empty() || (count == 0 && rest > 0)) {
        close();
        room = piece_elements;
        count = std::min(rest, room);
        layout.pieces.push_back({.begin = tensor.range.begin + first,
                                 .end = tensor.range.begin + first,
                                 .first = layout.tensors.size(),
                                 .tensors = 0,
                                 .offset = layout.bytes,
                                 .bytes = {}});
      }
      layout.tensors.push_back(place(tensor, first, count, weights, layout.bytes));
      StatePiece& piece = layout.pieces.back();
      ++piece.tensors;
      piece.end = layout.tensors.back().range.end;
      room -= count;
      first += count;
    } while (first < elements);
  }
  close();
  return layout;
}

GroupStateLayout piece_layout(const GroupStateLayout& layout, const StatePiece& piece) {
  GroupStateLayout alone{.weights = layout.weights, .tensors = {}, .pieces = {piece}, .bytes = piece.bytes};
  alone.pieces.front().first = 0;
  alone.pieces.front().offset = Bytes{0};
  for (std::size_t t = piece.first; t < piece.first + piece.tensors; ++t) {
    TensorState tensor = layout.tensors[t];
    for (StatePart* part : {&tensor.residual, &tensor.exp_avg, &tensor.exp_avg_sq, &tensor.scales})
      if (part->bytes.value > 0) part->offset -= piece.offset;
    alone.tensors.push_back(tensor);
  }
  return alone;
}

double state_bytes_per_parameter(MomentPrecision precision, DataType weights) {
  const double moments =
      precision == MomentPrecision::fp32 ? 8.0 : 2.0 + static_cast<double>(sizeof(BlockScale)) / kStateBlock;
  return moments + (weights == DataType::bf16 ? 2.0 : 0.0);
}

}  // namespace lazytrain
