// The sweep over split masters and 8-bit or fp32 moments: its arithmetic, its bits and its edges.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

#include "optim/adamw_states_support.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {
namespace {

constexpr MomentPrecision k8 = MomentPrecision::eight_bit;
constexpr MomentPrecision k32 = MomentPrecision::fp32;

// Gaps, ragged ends, both precisions, more than one slice, decayed and not.
std::vector<TensorPrecision> mixed_tensors() {
  return {{.range = {.begin = 0, .end = 50'001}, .precision = k8},
          {.range = {.begin = 50'048, .end = 50'049, .decay = false}, .precision = k8},
          {.range = {.begin = 50'112, .end = 50'129}, .precision = k32},
          {.range = {.begin = 50'176, .end = 90'000, .decay = false}, .precision = k32},
          {.range = {.begin = 90'112, .end = 99'999}, .precision = k8}};
}

AdamWStep numbered(std::int64_t step) {
  return {.lr = 1e-3, .weight_decay = 0.01, .clip_factor = 0.37, .step = step};
}

TEST(AdamWStates, SameBitsOnEveryInstructionSetAndThreadCount) {
  for (const DataType weights : {DataType::bf16, DataType::f32}) {
    for (const DataType gradients : {DataType::bf16, DataType::f32}) {
      const auto run = [&](int threads, InstructionSet set) {
        StateGroup group(mixed_tensors(), weights);
        group.draw_masters(3);
        for (std::int64_t step = 1; step <= 3; ++step) {
          group.draw_gradients(static_cast<std::uint64_t>(step));
          group.update(numbered(step), threads, set, gradients);
        }
        return group;
      };
      const StateGroup reference = run(1, InstructionSet::baseline);
      for (const InstructionSet set : available_instruction_sets()) {
        for (const int threads : {1, 2, 5}) expect_same(reference, run(threads, set));
      }
    }
  }
}

TEST(AdamWStates, Fp32MomentsAndSplitMastersHaveTheBitsOfFp32Masters) {
  constexpr std::int64_t kElements = 40'001;
  for (const InstructionSet set : available_instruction_sets()) {
    StateGroup split = one_tensor(kElements, DataType::bf16, k32);
    split.draw_masters(5);
    std::vector<float> master(split.elements());
    for (std::size_t i = 0; i < master.size(); ++i) master[i] = split.master(i);
    std::vector<float> exp_avg(master.size());
    std::vector<float> exp_avg_sq(master.size());
    std::vector<bfloat16> weight(master.size());
    const std::array<ParameterRange, 1> ranges{{{.begin = 0, .end = kElements}}};
    ThreadPool pool(2);
    for (std::int64_t step = 1; step <= 5; ++step) {
      split.draw_gradients(static_cast<std::uint64_t>(step));
      split.update(numbered(step), 2, set);
      adamw_update(pool,
                   {.ranges = ranges,
                    .gradient_type = DataType::bf16,
                    .gradient = split.gradient16.data(),
                    .master = master.data(),
                    .exp_avg = exp_avg.data(),
                    .exp_avg_sq = exp_avg_sq.data(),
                    .weight = weight.data()},
                   numbered(step), set);
    }
    const TensorState& tensor = split.layout.tensors[0];
    EXPECT_EQ(split.weight16, weight);
    for (std::size_t i = 0; i < master.size(); ++i) {
      ASSERT_EQ(split.master(i), master[i]) << i;
      ASSERT_EQ(split.part<float>(tensor.exp_avg)[i], exp_avg[i]) << i;
      ASSERT_EQ(split.part<float>(tensor.exp_avg_sq)[i], exp_avg_sq[i]) << i;
    }
  }
}

// Two steps on one block in fp64: moments of the first step are read back from codes, the update uses those
// of the second before they become codes.
TEST(AdamWStates, TheUpdateUsesMomentsBeforeTheyAreRounded) {
  StateGroup group = one_tensor(256);
  group.draw_masters(1);
  group.draw_gradients(2);
  const AdamWStep first{.lr = 1e-2, .step = 1};
  const AdamWStep second{.lr = 1e-2, .weight_decay = 0.1, .step = 2};
  group.update(first);
  const TensorState& tensor = group.layout.tensors[0];
  const auto* codes_m = group.part<std::uint8_t>(tensor.exp_avg);
  const auto* codes_r = group.part<std::uint8_t>(tensor.exp_avg_sq);
  const auto* scale = group.part<BlockScale>(tensor.scales);
  std::vector<double> expected(256);
  double largest_m = 0;
  double largest_r = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    const double g = group.gradient32[i];
    const double m = 0.9 * decode_signed(codes_m[i]) * scale->exp_avg + 0.1 * g;
    const double r = decode_unsigned(codes_r[i]) * static_cast<double>(scale->root);
    const double v = 0.999 * r * r + 0.001 * g * g;
    expected[i] = group.master(i) * (1 - 1e-2 * 0.1) -
                  1e-2 / (1 - 0.81) * m / (std::sqrt(v) / std::sqrt(1 - 0.999 * 0.999) + 1e-8);
    largest_m = std::max(largest_m, std::abs(m));
    largest_r = std::max(largest_r, std::sqrt(v));
  }
  group.update(second);
  for (std::size_t i = 0; i < 256; ++i) ASSERT_NEAR(group.master(i), expected[i], 1e-7) << i;
  EXPECT_NEAR(scale->exp_avg, largest_m, 1e-6 * largest_m);
  EXPECT_NEAR(scale->root, largest_r, 1e-6 * largest_r);
}

TEST(AdamWStates, TheWeightIsTheRoundedMaster) {
  StateGroup group = one_tensor(1000);
  group.draw_masters(1);
  group.draw_gradients(2);
  group.update(numbered(1));
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(group.weight16[i], master_to_bfloat16(group.master(i), i));
}

// bf16 weights of 1.0 cannot move by 6e-4, but weight and residual together do.
TEST(AdamWStates, SmallUpdatesReachTheMaster) {
  StateGroup group = one_tensor(1);
  group.set_masters({1.0F});
  group.set_gradient(0, 1.0F);
  for (std::int64_t step = 1; step <= 100; ++step) group.update({.lr = 6e-4, .step = step});
  EXPECT_NEAR(group.master(0), 0.94, 1e-5);
}

TEST(AdamWStates, AParameterWithoutGradientIsNeverMovedByItsNeighbours) {
  for (const DataType weights : {DataType::bf16, DataType::f32}) {
    StateGroup group = one_tensor(300, weights);
    group.draw_masters(1);
    const float before = group.master(100);
    const float before_ragged = group.master(299);
    for (std::int64_t step = 1; step <= 500; ++step) {
      group.draw_gradients(static_cast<std::uint64_t>(step));
      group.set_gradient(100, 0);
      group.set_gradient(299, 0);
      group.update({.lr = 1e-2, .step = step});
    }
    EXPECT_EQ(std::bit_cast<std::uint32_t>(group.master(100)), std::bit_cast<std::uint32_t>(before));
    EXPECT_EQ(std::bit_cast<std::uint32_t>(group.master(299)), std::bit_cast<std::uint32_t>(before_ragged));
    const TensorState& tensor = group.layout.tensors[0];
    EXPECT_EQ(group.part<std::uint8_t>(tensor.exp_avg)[100], kSignedZero);
    EXPECT_EQ(group.part<std::uint8_t>(tensor.exp_avg_sq)[100], 0);
    EXPECT_NE(group.master(101), before);
  }
}

TEST(AdamWStates, ABlockOfZerosStaysZero) {
  StateGroup group = one_tensor(512);
  group.draw_masters(1);
  StateGroup before = one_tensor(512);
  before.draw_masters(1);
  for (std::int64_t step = 1; step <= 3; ++step) group.update({.lr = 1e-2, .step = step});
  EXPECT_EQ(group.weight16, before.weight16);
  const auto* scales = group.part<BlockScale>(group.layout.tensors[0].scales);
  for (int block = 0; block < 2; ++block) {
    EXPECT_EQ(scales[block].exp_avg, 0.0F);
    EXPECT_EQ(scales[block].root, 0.0F);
  }
}

TEST(AdamWStates, AMomentThatFadesBelowNormalFloatsIsForgotten) {
  StateGroup group = one_tensor(256);
  group.set_gradient(7, 1.0F);
  group.update({.step = 1});
  group.set_gradient(7, 0.0F);
  const auto* scale = group.part<BlockScale>(group.layout.tensors[0].scales);
  for (std::int64_t step = 2; step <= 1000; ++step) group.update({.lr = 1e-3, .step = step});
  EXPECT_EQ(scale->exp_avg, 0.0F);
  EXPECT_GT(scale->root, 0.0F);
  EXPECT_TRUE(std::isfinite(group.master(7)));
}

// The outlier costs its block's others some precision, and nobody a finite value.
TEST(AdamWStates, AHugeOutlierSpoilsNothing) {
  for (const float outlier : {1e3F, 1e30F, 3e38F}) {
    StateGroup group = one_tensor(512);
    group.draw_masters(1);
    std::vector<float> before(512);
    for (std::size_t i = 0; i < 512; ++i) before[i] = group.master(i);
    for (std::int64_t step = 1; step <= 20; ++step) {
      for (std::size_t i = 0; i < 512; ++i) group.set_gradient(i, 0.5F);
      group.set_gradient(13, outlier);
      group.update({.lr = 1e-3, .step = step});
    }
    for (std::size_t i = 0; i < 512; ++i) {
      const float moved = before[i] - group.master(i);
      ASSERT_TRUE(std::isfinite(moved)) << i;
      ASSERT_LE(std::abs(moved), 20 * 1.3e-3) << i;
      if (i >= 256) {
        ASSERT_NEAR(moved, 20e-3, 1e-5) << i;
      }
    }
  }
}

TEST(AdamWStates, ARaggedTailIsUpdatedAsIfItsBlockWereFilledWithZeros) {
  StateGroup ragged = one_tensor(300);
  StateGroup filled = one_tensor(512);
  for (StateGroup* group : {&ragged, &filled}) {
    group->draw_masters(1);
    for (std::int64_t step = 1; step <= 4; ++step) {
      group->draw_gradients(static_cast<std::uint64_t>(step));
      for (std::size_t i = 300; i < group->elements(); ++i) group->set_gradient(i, 0);
      group->update(numbered(step));
    }
  }
  const TensorState& a = ragged.layout.tensors[0];
  const TensorState& b = filled.layout.tensors[0];
  for (std::size_t i = 0; i < 300; ++i) {
    ASSERT_EQ(ragged.master(i), filled.master(i)) << i;
    ASSERT_EQ(ragged.part<std::uint8_t>(a.exp_avg)[i], filled.part<std::uint8_t>(b.exp_avg)[i]) << i;
    ASSERT_EQ(ragged.part<std::uint8_t>(a.exp_avg_sq)[i], filled.part<std::uint8_t>(b.exp_avg_sq)[i]) << i;
  }
}

TEST(AdamWStates, GapsAndPaddingAreLeftAlone) {
  StateGroup group(mixed_tensors(), DataType::bf16);
  std::vector<bool> owned(static_cast<std::size_t>(group.layout.bytes.value));
  for (const TensorState& tensor : group.layout.tensors) {
    for (const StatePart& part : {tensor.residual, tensor.exp_avg, tensor.exp_avg_sq, tensor.scales})
      std::fill_n(owned.begin() + part.offset.value, part.bytes.value, true);
  }
  std::fill(group.weight16.begin(), group.weight16.end(), bfloat16{0x1234});
  for (std::size_t i = 0; i < owned.size(); ++i)
    if (!owned[i]) group.state.get()[i] = std::byte{0xAB};
  group.draw_gradients(1);
  group.update(numbered(1), 2);
  for (std::size_t i = 0; i < owned.size(); ++i)
    if (!owned[i]) {
      ASSERT_EQ(group.state.get()[i], std::byte{0xAB}) << i;
    }
  std::size_t position = 0;
  for (const TensorState& tensor : group.layout.tensors) {
    for (; position < static_cast<std::size_t>(tensor.range.begin); ++position)
      ASSERT_EQ(group.weight16[position], bfloat16{0x1234}) << position;
    position = static_cast<std::size_t>(tensor.range.end);
  }
}

TEST(AdamWStates, TrafficBytesAreReadAndWrittenOnce) {
  EXPECT_EQ(adamw_traffic_bytes(DataType::bf16, DataType::bf16, k8), 2 + 2 * (2 + 4.03125));
  EXPECT_EQ(adamw_traffic_bytes(DataType::bf16, DataType::bf16, k32), 2 + 2 * (2 + 10));
  EXPECT_EQ(adamw_traffic_bytes(DataType::f32, DataType::f32, k8), 4 + 2 * (4 + 2.03125));
}

}  // namespace
}  // namespace lazytrain
