#include "optim/group_state.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace lazytrain {
namespace {

constexpr MomentPrecision k8 = MomentPrecision::eight_bit;
constexpr MomentPrecision k32 = MomentPrecision::fp32;

// A norm, a matrix, a small matrix, an embedding.
constexpr std::array<TensorShape, 4> kShapes{{{.elements = 8192, .one_dimensional = true},
                                              {.elements = 4096},
                                              {.elements = 4095},
                                              {.elements = 100'000, .embedding_or_head = true}}};

using Precisions = std::vector<MomentPrecision>;

TEST(MomentPrecisions, WithoutCodesAllIsFp32) {
  EXPECT_EQ(moment_precisions(kShapes, {.format = StateFormat::adamw_32bit, .embeddings = k8}),
            (Precisions{k32, k32, k32, k32}));
}

TEST(MomentPrecisions, VectorsSmallTensorsAndByOptionEmbeddingsStayFp32) {
  EXPECT_EQ(moment_precisions(kShapes, {.format = StateFormat::adamw_8bit}), (Precisions{k32, k8, k32, k32}));
  EXPECT_EQ(moment_precisions(kShapes, {.format = StateFormat::adamw_8bit, .embeddings = k8}),
            (Precisions{k32, k8, k32, k8}));
}

TEST(MomentPrecisions, HybridTakesEveryOtherOfEqualTensors) {
  const std::vector<TensorShape> tensors(6, {.elements = 5000});
  EXPECT_EQ(moment_precisions(tensors, {.format = StateFormat::adamw_hybrid, .hybrid_fraction = 0.5}),
            (Precisions{k8, k32, k8, k32, k8, k32}));
}

TEST(MomentPrecisions, HybridTracksTheFractionOverUnequalTensors) {
  std::vector<TensorShape> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back({.elements = 4096 + 997 * (i * i % 41)});
  for (const double fraction : {0.0, 0.1, 0.3, 0.7, 1.0}) {
    const Precisions chosen =
        moment_precisions(tensors, {.format = StateFormat::adamw_hybrid, .hybrid_fraction = fraction});
    double seen = 0;
    double taken = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      seen += static_cast<double>(tensors[i].elements);
      if (chosen[i] == k8) taken += static_cast<double>(tensors[i].elements);
      ASSERT_NEAR(taken, fraction * seen, 4096 + 997 * 40) << fraction << ' ' << i;
    }
  }
}

TEST(MomentPrecisions, HybridOfOneIsAll8BitAndOfZeroNone) {
  const MomentOptions all{.format = StateFormat::adamw_hybrid, .hybrid_fraction = 1.0};
  EXPECT_EQ(moment_precisions(kShapes, all), (Precisions{k32, k8, k32, k32}));
  const MomentOptions none{.format = StateFormat::adamw_hybrid, .hybrid_fraction = 0.0};
  EXPECT_EQ(moment_precisions(kShapes, none), (Precisions{k32, k32, k32, k32}));
}

TEST(GroupState, PartsFollowEachOtherOnCacheLines) {
  const std::array<TensorPrecision, 2> tensors{{{.range = {.begin = 0, .end = 257}, .precision = k8},
                                                {.range = {.begin = 320, .end = 330}, .precision = k32}}};
  const GroupStateLayout layout = group_state_layout(tensors, DataType::bf16);
  const TensorState& codes = layout.tensors[0];
  EXPECT_EQ(codes.residual.offset, Bytes{0});
  EXPECT_EQ(codes.residual.bytes, Bytes{514});
  EXPECT_EQ(codes.exp_avg.offset, Bytes{576});
  EXPECT_EQ(codes.exp_avg_sq.offset, Bytes{576 + 320});
  EXPECT_EQ(codes.exp_avg_sq.bytes, Bytes{257});
  EXPECT_EQ(codes.scales.offset, Bytes{576 + 640});
  EXPECT_EQ(codes.scales.bytes, Bytes{16});  // two blocks
  const TensorState& floats = layout.tensors[1];
  EXPECT_EQ(floats.residual.offset, Bytes{576 + 640 + 64});
  EXPECT_EQ(floats.exp_avg.bytes, Bytes{40});
  EXPECT_EQ(floats.scales.bytes, Bytes{0});
  EXPECT_EQ(layout.bytes, Bytes{kDiskAlignment});  // 1472 and padding
}

TEST(GroupState, Fp32WeightsAreTheirOwnMasters) {
  const std::array<TensorPrecision, 1> tensors{{{.range = {.begin = 0, .end = 64}}}};
  const GroupStateLayout layout = group_state_layout(tensors, DataType::f32);
  EXPECT_EQ(layout.tensors[0].residual.bytes, Bytes{0});
  EXPECT_EQ(layout.tensors[0].exp_avg_sq.offset, Bytes{256});
  EXPECT_EQ(layout.bytes, Bytes{kDiskAlignment});
}

TEST(GroupState, BytesPerParameter) {
  constexpr std::int64_t kElements = 4096LL * 4096;
  for (const DataType weights : {DataType::bf16, DataType::f32}) {
    for (const MomentPrecision precision : {k8, k32}) {
      const std::array<TensorPrecision, 1> tensors{
          {{.range = {.begin = 0, .end = kElements}, .precision = precision}}};
      EXPECT_EQ(static_cast<double>(group_state_layout(tensors, weights).bytes.value) / kElements,
                state_bytes_per_parameter(precision, weights));
    }
  }
  // With the weight's and the gradient's two bytes each: 8.03.
  EXPECT_EQ(state_bytes_per_parameter(k8, DataType::bf16), 4.03125);
  EXPECT_EQ(state_bytes_per_parameter(k32, DataType::bf16), 10.0);
}

TEST(GroupState, PiecesAreCutBetweenBlocksOnly) {
  // A piece of 1,024 elements has room for the first tensor and one block of the second.
  const std::array<TensorPrecision, 3> tensors{{{.range = {.begin = 0, .end = 700}, .precision = k8},
                                                {.range = {.begin = 704, .end = 704 + 1500}, .precision = k8},
                                                {.range = {.begin = 2240, .end = 2250}, .precision = k32}}};
  const GroupStateLayout layout = group_state_layout(tensors, DataType::bf16, 1024);
  ASSERT_EQ(layout.pieces.size(), 3U);
  ASSERT_EQ(layout.tensors.size(), 5U);
  EXPECT_EQ(layout.tensors[1].range.end, 704 + 256);
  EXPECT_EQ(layout.tensors[2].first, 256);
  EXPECT_EQ(layout.tensors[2].range.end, 704 + 256 + 1024);
  EXPECT_EQ(layout.tensors[3].first, 1280);
  EXPECT_EQ(layout.pieces[1].begin, 704 + 256);
  EXPECT_EQ(layout.pieces[2].end, 2250);
  Bytes end;
  for (const StatePiece& piece : layout.pieces) {
    EXPECT_EQ(piece.offset, end);
    EXPECT_EQ(piece.offset.value % kDiskAlignment, 0);
    EXPECT_EQ(piece.bytes.value % kDiskAlignment, 0);
    end = piece.offset + piece.bytes;
  }
  EXPECT_EQ(layout.bytes, end);
  const GroupStateLayout last = piece_layout(layout, layout.pieces[2]);
  EXPECT_EQ(last.bytes, layout.pieces[2].bytes);
  ASSERT_EQ(last.tensors.size(), 2U);
  EXPECT_EQ(last.tensors[0].residual.offset, Bytes{0});
  EXPECT_EQ(last.tensors[0].range.begin, 704 + 1280);
}

TEST(GroupState, OffsetsAre64Bit) {
  constexpr std::int64_t kElements = 3LL << 31;
  const std::array<TensorPrecision, 2> tensors{{{.range = {.begin = 0, .end = kElements}, .precision = k8},
                                                {.range = {.begin = kElements, .end = kElements + 1}}}};
  EXPECT_EQ(group_state_layout(tensors, DataType::bf16).tensors.back().residual.offset,
            Bytes{kElements * 4 + kElements / 256 * 8});
}

}  // namespace
}  // namespace lazytrain
