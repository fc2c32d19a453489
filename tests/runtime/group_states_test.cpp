// States of whole groups: masters in and out, and moments that change their precision.
#include "runtime/group_states.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/random.h"
#include "runtime/harness.h"

namespace lazytrain::test {
namespace {

constexpr MomentOptions kEightBit{.format = StateFormat::adamw_8bit,
                                  .embeddings = MomentPrecision::eight_bit};

struct Case {
  ParameterGroup group;
  GroupStateLayout fp32, eight_bit;
};

Case layer_of_tiny_model(DataType type) {
  const std::vector<ParameterGroup> groups = parameter_groups(tiny_architecture(true, 2));
  return {groups[1], state_layouts(groups, type, {})[1], state_layouts(groups, type, kEightBit)[1]};
}

std::vector<std::byte> zeros(Bytes bytes) {
  return std::vector<std::byte>(static_cast<std::size_t>(bytes.value));
}

TEST(GroupStates, MastersComeBackToTheBitInPieces) {
  for (const DataType type : {DataType::bf16, DataType::f32}) {
    const Case tiny = layer_of_tiny_model(type);
    std::vector<std::byte> weights = zeros({tiny.group.elements * size_of(type)});
    std::vector<std::byte> state = zeros(tiny.eight_bit.bytes);
    std::vector<float> masters(static_cast<std::size_t>(tiny.group.elements), 0.0F);
    Random random(3);
    for (const ParameterTensor& tensor : tiny.group.tensors)
      for (std::int64_t i = 0; i < tensor.elements; ++i)
        masters[static_cast<std::size_t>(tensor.offset + i)] = static_cast<float>(random.uniform() - 0.5);
    std::vector<float> found(masters.size());
    for (std::size_t begin = 0; begin < masters.size(); begin += 777) {
      const auto piece =
          std::span(masters).subspan(begin, std::min<std::size_t>(777, masters.size() - begin));
      write_masters(tiny.eight_bit, weights, state, static_cast<std::int64_t>(begin), piece);
    }
    for (std::size_t begin = 0; begin < masters.size(); begin += 1001) {
      const auto piece = std::span(found).subspan(begin, std::min<std::size_t>(1001, masters.size() - begin));
      read_masters(tiny.eight_bit, weights, state, static_cast<std::int64_t>(begin), piece);
    }
    EXPECT_EQ(std::memcmp(masters.data(), found.data(), masters.size() * 4), 0);
  }
}

TEST(GroupStates, MomentsKeepTheirValueWhenTheyChangePrecision) {
  const Case tiny = layer_of_tiny_model(DataType::bf16);
  std::vector<std::byte> fp32 = zeros(tiny.fp32.bytes);
  Random random(9);
  for (const TensorState& tensor : tiny.fp32.tensors) {
    auto* exp_avg = reinterpret_cast<float*>(fp32.data() + tensor.exp_avg.offset.value);
    auto* exp_avg_sq = reinterpret_cast<float*>(fp32.data() + tensor.exp_avg_sq.offset.value);
    for (std::int64_t i = 0; i < tensor.range.end - tensor.range.begin; ++i) {
      exp_avg[i] = static_cast<float>(random.uniform() - 0.5);
      exp_avg_sq[i] = static_cast<float>(1e-4 + random.uniform());
    }
  }
  std::vector<std::byte> eight_bit = zeros(tiny.eight_bit.bytes), back = zeros(tiny.fp32.bytes);
  convert_states(tiny.fp32, fp32, tiny.eight_bit, eight_bit);
  convert_states(tiny.eight_bit, eight_bit, tiny.fp32, back);
  EXPECT_LT(tiny.eight_bit.bytes.value, tiny.fp32.bytes.value / 2);
  for (const TensorState& tensor : tiny.fp32.tensors) {
    const auto value = [&](const std::vector<std::byte>& state, StatePart part, std::int64_t i) {
      return reinterpret_cast<const float*>(state.data() + part.offset.value)[i];
    };
    for (std::int64_t i = 0; i < tensor.range.end - tensor.range.begin; ++i) {
      const float exp_avg = value(fp32, tensor.exp_avg, i),
                  root = std::sqrt(value(fp32, tensor.exp_avg_sq, i));
      ASSERT_NEAR(value(back, tensor.exp_avg, i), exp_avg, 0.5 * 0.02);  // codes are 1.4 % apart near the top
      ASSERT_NEAR(std::sqrt(value(back, tensor.exp_avg_sq, i)), root, 1.0 * 0.01);
    }
  }
}

TEST(GroupStates, ConvertingToTheSameLayoutCopies) {
  const Case tiny = layer_of_tiny_model(DataType::bf16);
  std::vector<std::byte> fp32 = zeros(tiny.fp32.bytes), copy = zeros(tiny.fp32.bytes);
  for (const TensorState& tensor : tiny.fp32.tensors)
    for (const StatePart part : {tensor.residual, tensor.exp_avg, tensor.exp_avg_sq})
      std::memset(fp32.data() + part.offset.value, 0x3D, static_cast<std::size_t>(part.bytes.value));
  convert_states(tiny.fp32, fp32, tiny.fp32, copy);
  EXPECT_EQ(fp32, copy);
}

}  // namespace
}  // namespace lazytrain::test
