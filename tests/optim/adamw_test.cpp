#include "optim/adamw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <vector>

#include "core/random.h"
#include "optim/clipping.h"

namespace lazytrain {
namespace {

constexpr std::array<InstructionSet, 3> kSets{InstructionSet::baseline, InstructionSet::avx2,
                                              InstructionSet::avx512};

std::vector<InstructionSet> available_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : kSets) {
    if (set <= best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

// One parameter, fp32, updated alone.
struct Parameter {
  float value = 0, exp_avg = 0, exp_avg_sq = 0;

  void update(float gradient, const AdamWStep& step, bool decay = true) {
    ThreadPool pool(1);
    const std::array<ParameterRange, 1> ranges{{{.begin = 0, .end = 1, .decay = decay}}};
    adamw_update(pool,
                 {.ranges = ranges,
                  .gradient_type = DataType::f32,
                  .gradient = &gradient,
                  .master = &value,
                  .exp_avg = &exp_avg,
                  .exp_avg_sq = &exp_avg_sq},
                 step);
  }
};

TEST(AdamW, OneStepByHand) {
  Parameter p{.value = 1.0F};
  p.update(0.5F, {.lr = 0.1, .weight_decay = 0.01});
  EXPECT_NEAR(p.value, 0.8990000020, 6e-8);
  EXPECT_NEAR(p.exp_avg, 0.05, 1e-8);
  EXPECT_NEAR(p.exp_avg_sq, 0.00025, 1e-10);
}

TEST(AdamW, DecayOnlyWhereTheTensorIsDecayed) {
  Parameter p{.value = 1.0F};
  p.update(0.5F, {.lr = 0.1, .weight_decay = 0.01}, false);
  EXPECT_NEAR(p.value, 0.9, 1e-7);
}

TEST(AdamW, RateZeroStillAdvancesTheMoments) {
  Parameter p{.value = 1.0F};
  p.update(0.5F, {.lr = 0.0, .weight_decay = 0.01});
  EXPECT_EQ(p.value, 1.0F);
  EXPECT_NEAR(p.exp_avg, 0.05, 1e-8);
}

TEST(AdamW, ClipFactorScalesTheGradient) {
  Parameter clipped{.value = 1.0F};
  Parameter scaled{.value = 1.0F};
  clipped.update(2.0F, {.lr = 0.1, .clip_factor = 0.25});
  scaled.update(0.5F, {.lr = 0.1});
  EXPECT_EQ(clipped.value, scaled.value);
  EXPECT_EQ(clipped.exp_avg_sq, scaled.exp_avg_sq);
}

TEST(AdamW, ZeroGradientDoesNotMoveAWeight) {
  Parameter p{.value = 0.75F};
  for (std::int64_t step = 1; step <= 500; ++step) p.update(0.0F, {.lr = 0.01, .step = step});
  EXPECT_EQ(p.value, 0.75F);
  EXPECT_EQ(p.exp_avg, 0.0F);
}

// bf16 weights of 1.0 cannot move by 6e-4: the fp32 master must.
TEST(AdamW, SmallUpdatesReachTheMaster) {
  float master = 1.0F;
  float exp_avg = 0;
  float exp_avg_sq = 0;
  bfloat16 weight = master_to_bfloat16(master, 0);
  const bfloat16 gradient = to_bfloat16(1.0F);
  const std::array<ParameterRange, 1> ranges{{{.begin = 0, .end = 1}}};
  ThreadPool pool(1);
  for (std::int64_t step = 1; step <= 100; ++step) {
    adamw_update(pool,
                 {.ranges = ranges,
                  .gradient_type = DataType::bf16,
                  .gradient = &gradient,
                  .master = &master,
                  .exp_avg = &exp_avg,
                  .exp_avg_sq = &exp_avg_sq,
                  .weight = &weight},
                 {.lr = 6e-4, .step = step});
  }
  EXPECT_NEAR(master, 0.94, 1e-5);
  EXPECT_EQ(weight, master_to_bfloat16(master, 0));
}

// Five steps that torch.optim.AdamW took, with gradients of an independent float64 backward.
TEST(AdamW, ReproducesTheTrajectoryGolden) {
  std::ifstream file(LAZYTRAIN_TESTS_DIR "/data/optim/trajectory.txt");
  std::vector<std::vector<double>> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream numbers(line);
    lines.emplace_back(std::istream_iterator<double>(numbers), std::istream_iterator<double>());
  }
  ASSERT_EQ(lines.size(), 2U + 64 + 192 + 128);
  const std::vector<double>& norms = lines[0];
  const std::vector<double>& rates = lines[1];
  for (std::size_t i = 2; i < lines.size(); ++i) {
    const std::vector<double>& line = lines[i];
    Parameter p{.value = static_cast<float>(line[1])};
    for (std::size_t step = 0; step < 5; ++step) {
      p.update(static_cast<float>(line[2 + step]),
               {.lr = rates[step],
                .weight_decay = 0.1,
                .clip_factor = clip_factor(norms[step], 1.0),
                .step = static_cast<std::int64_t>(step) + 1},
               line[0] != 0);
    }
    ASSERT_NEAR(p.value, line[7], 1e-6) << "line " << i;
    ASSERT_NEAR(p.exp_avg, line[8], 1e-7) << "line " << i;
    ASSERT_NEAR(p.exp_avg_sq, line[9], 1e-9) << "line " << i;
  }
}

// A group with gaps, odd sizes and every kind of value, for comparisons to the bit.
struct Group {
  static constexpr std::int64_t kElements = 100'000;
  static constexpr std::array<ParameterRange, 4> kRanges{{{.begin = 0, .end = 50'001},
                                                          {.begin = 50'048, .end = 50'049, .decay = false},
                                                          {.begin = 50'112, .end = 50'129},
                                                          {.begin = 50'176, .end = 99'999, .decay = false}}};
  std::vector<float> gradient = std::vector<float>(kElements);
  std::vector<bfloat16> gradient16 = std::vector<bfloat16>(kElements);
  std::vector<float> master = gradient, exp_avg = gradient, exp_avg_sq = gradient;
  std::vector<bfloat16> weight = gradient16;

  Group() {
    Random random(7);
    constexpr std::array<float, 8> kOdd{0.0F,
                                        -0.0F,
                                        std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::denorm_min(),
                                        std::numeric_limits<float>::max(),
                                        -std::numeric_limits<float>::max(),
                                        1e-30F,
                                        -3e38F};
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>(random.normal() * std::exp(8 * random.normal()));
      gradient16[i] = to_bfloat16(gradient[i]);
      master[i] = static_cast<float>(random.normal());
      exp_avg[i] = static_cast<float>(1e-3 * random.normal());
      exp_avg_sq[i] = static_cast<float>(1e-6 * random.uniform());
      if (i % 1009 == 0) gradient[i] = kOdd[i / 1009 % kOdd.size()];
      if (i % 1013 == 0) master[i] = kOdd[i / 1013 % kOdd.size()];
    }
  }
  AdamWGroup view(DataType type, bool with_weight) {
    return {.ranges = kRanges,
            .gradient_type = type,
            .gradient = type == DataType::f32 ? static_cast<const void*>(gradient.data()) : gradient16.data(),
            .master = master.data(),
            .exp_avg = exp_avg.data(),
            .exp_avg_sq = exp_avg_sq.data(),
            .weight = with_weight ? weight.data() : nullptr};
  }
  // Bits, but for the payload of NaN.
  static void expect_same(const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(a[i]), std::bit_cast<std::uint32_t>(b[i])) << i;
    }
  }
};

void expect_equal(const Group& a, const Group& b) {
  Group::expect_same(a.master, b.master);
  Group::expect_same(a.exp_avg, b.exp_avg);
  Group::expect_same(a.exp_avg_sq, b.exp_avg_sq);
}

constexpr AdamWStep kStep{.lr = 1e-3, .weight_decay = 0.01, .clip_factor = 0.37, .step = 3};

TEST(AdamW, SameBitsOnEveryInstructionSetAndThreadCount) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    for (const bool with_weight : {false, true}) {
      Group reference;
      ThreadPool one(1);
      adamw_update(one, reference.view(type, with_weight), kStep, InstructionSet::baseline);
      for (const InstructionSet set : available_sets()) {
        for (const int threads : {1, 2, 5}) {
          Group other;
          ThreadPool pool(threads);
          adamw_update(pool, other.view(type, with_weight), kStep, set);
          expect_equal(reference, other);
          EXPECT_EQ(reference.weight, other.weight);
        }
      }
    }
  }
}

TEST(AdamW, WeightIsTheRoundedMaster) {
  for (const InstructionSet set : available_sets()) {
    Group group;
    ThreadPool pool(2);
    adamw_update(pool, group.view(DataType::bf16, true), kStep, set);
    for (const ParameterRange& range : Group::kRanges) {
      for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
        const std::size_t index = i - static_cast<std::size_t>(range.begin);
        ASSERT_EQ(group.weight[i], master_to_bfloat16(group.master[i], index)) << i;
      }
    }
  }
}

TEST(AdamW, EveryUpperHalfOfAMasterIsRoundedAlike) {
  std::vector<float> master;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      master.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<float> zero(master.size());
  std::vector<float> exp_avg(master.size());
  std::vector<float> exp_avg_sq(master.size());
  std::vector<bfloat16> weight(master.size());
  const std::array<ParameterRange, 1> ranges{{{.begin = 0, .end = static_cast<std::int64_t>(master.size())}}};
  ThreadPool pool(2);
  for (const InstructionSet set : available_sets()) {
    std::fill(weight.begin(), weight.end(), bfloat16{0x1234});
    adamw_update(pool,
                 {.ranges = ranges,
                  .gradient_type = DataType::f32,
                  .gradient = zero.data(),
                  .master = master.data(),
                  .exp_avg = exp_avg.data(),
                  .exp_avg_sq = exp_avg_sq.data(),
                  .weight = weight.data()},
                 {.lr = 0}, set);
    for (std::size_t i = 0; i < master.size(); ++i)
      ASSERT_EQ(weight[i], master_to_bfloat16(master[i], i)) << i;
  }
}

TEST(AdamW, GapsAreLeftAlone) {
  Group before;
  Group after;
  ThreadPool pool(2);
  adamw_update(pool, after.view(DataType::f32, true), kStep);
  std::size_t position = 0;
  for (const ParameterRange& range : Group::kRanges) {
    for (; position < static_cast<std::size_t>(range.begin); ++position) {
      ASSERT_EQ(before.master[position], after.master[position]);
      ASSERT_EQ(before.exp_avg_sq[position], after.exp_avg_sq[position]);
      ASSERT_EQ(after.weight[position].bits, 0);
    }
    position = static_cast<std::size_t>(range.end);
  }
}

// The textbook in fp64 beside 50 steps in fp32.
TEST(AdamW, AgreesWithFloat64OverManySteps) {
  Parameter p{.value = 0.3F};
  double value = 0.3F;
  double m = 0;
  double v = 0;
  Random random(11);
  for (std::int64_t step = 1; step <= 50; ++step) {
    const auto gradient = static_cast<float>(random.normal());
    p.update(gradient, {.lr = 1e-3, .weight_decay = 0.1, .step = step});
    m = 0.9 * m + 0.1 * gradient;
    v = 0.999 * v + 0.001 * gradient * gradient;
    const auto t = static_cast<double>(step);
    value *= 1 - 1e-3 * 0.1;
    value -= 1e-3 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  }
  EXPECT_NEAR(p.value, value, 5e-7);
}

}  // namespace
}  // namespace lazytrain
