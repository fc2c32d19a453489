// What 8-bit moments may and may not do to a training: the size of single updates beside an outlier, the
// result of a small optimisation, and addresses beyond 2^31.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numbers>

#include "optim/adamw_states_support.h"
#include "optim/eight_bit_codes.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kSteps = 60;

// One block: element 0 has gradient 1, the others normal ones of size `ratio`.
float gradient_at(Random& random, std::size_t element, float ratio) {
  return element == 0 ? 1.0F : static_cast<float>(ratio * random.normal());
}

// The largest update of any element in units of the learning rate: fp32 moments give 1.004, at the first
// step.
double worst_update(std::uint64_t seed, float ratio) {
  StateGroup group = one_tensor(256, DataType::f32);
  Random random(seed);
  double worst = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    for (std::size_t i = 0; i < 256; ++i) group.set_gradient(i, gradient_at(random, i, ratio));
    const std::vector<float> before = group.weight32;
    group.update({.lr = 1e-3, .step = step});
    for (std::size_t i = 0; i < 256; ++i)
      worst = std::max(worst, std::abs(group.weight32[i] - before[i]) / 1e-3);
  }
  return worst;
}

// The same in fp64 with codes of v in place of r = sqrt(v), by the same map, nearest down to zero.
double worst_update_storing_v(std::uint64_t seed, float ratio) {
  std::array<double, 256> m = {};
  std::array<double, 256> v = {};
  Random random(seed);
  double worst = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const auto t = static_cast<double>(step);
    double largest_m = 0;
    double largest_v = 0;
    for (std::size_t i = 0; i < 256; ++i) {
      const double g = to_float(to_bfloat16(gradient_at(random, i, ratio)));
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      largest_m = std::max(largest_m, std::abs(m[i]));
      largest_v = std::max(largest_v, v[i]);
      const double root = std::sqrt(v[i] / (1 - std::pow(0.999, t)));
      worst = std::max(worst, std::abs(m[i]) / (1 - std::pow(0.9, t)) / (root + 1e-8));
    }
    for (std::size_t i = 0; i < 256; ++i) {
      m[i] = largest_m * decode_signed(encode_signed(static_cast<float>(m[i] / largest_m)));
      const double y = v[i] / largest_v;
      const bool zero = y < decode_unsigned(1) / 2.0;
      v[i] = zero ? 0 : largest_v * decode_unsigned(encode_unsigned(static_cast<float>(y)));
    }
  }
  return worst;
}

constexpr std::size_t kBlocks = 21;  // each with its own seed
std::vector<double> of_all_blocks(double (*worst)(std::uint64_t, float), float ratio) {
  std::vector<double> values;
  for (std::uint64_t seed = 0; seed < kBlocks; ++seed) values.push_back(worst(seed, ratio));
  std::sort(values.begin(), values.end());
  return values;
}

// The largest update in units of the learning rate: of the middle block and of the worst.
void print_row(const char* stored, float ratio, const std::vector<double>& worst) {
  std::printf("  %-8s ratio %-7g largest update / lr: %8.2f in the middle block, %8.2f in the worst of %zu\n",
              stored, static_cast<double>(ratio), worst[kBlocks / 2], worst.back(), kBlocks);
}

TEST(EightBitHazard, UpdatesBesideAnOutlierKeepTheSizeOfTheLearningRate) {
  for (const float ratio : {1e-1F, 1e-2F, 1e-3F, 3e-4F, 1e-4F}) {
    const std::vector<double> worst = of_all_blocks(worst_update, ratio);
    print_row("sqrt(v)", ratio, worst);
    EXPECT_LE(worst[kBlocks / 2], 1.3) << ratio;
    EXPECT_LE(worst.back(), 1.5) << ratio;
  }
}

// Where both moments are at the lower end of their maps: codes are far apart, but r is never zero.
TEST(EightBitHazard, UpdatesStayBoundedHoweverSmallTheGradient) {
  for (const float ratio : {1e-5F, 1e-6F, 3e-7F, 1e-7F, 1e-8F, 1e-12F})
    EXPECT_LE(of_all_blocks(worst_update, ratio).back(), 2) << ratio;
}

// Why r is stored, not v.
TEST(EightBitHazard, StoringTheSecondMomentItselfBlowsUp) {
  for (const float ratio : {1e-1F, 1e-2F, 1e-3F, 3e-4F, 1e-4F}) {
    const std::vector<double> worst = of_all_blocks(worst_update_storing_v, ratio);
    print_row("v itself", ratio, worst);
    if (ratio <= 1e-3F) {
      EXPECT_GT(worst.back(), 50) << ratio;
    }
    if (ratio == 1e-4F) {
      EXPECT_GT(worst[kBlocks / 2], 50);
    }
  }
}

// A quadratic with curvatures from 0.01 to 1, a little noise in its gradients, and a cosine schedule.
double final_loss(MomentPrecision precision) {
  constexpr std::size_t kElements = 1000;
  constexpr std::int64_t kLength = 400;
  StateGroup group = one_tensor(kElements, DataType::bf16, precision);
  group.draw_masters(21);
  Random random(22);
  double loss = 0;
  for (std::int64_t step = 1; step <= kLength; ++step) {
    loss = 0;
    for (std::size_t i = 0; i < kElements; ++i) {
      const double curvature = std::pow(10.0, -2.0 * static_cast<double>(i % 97) / 96);
      const double distance = group.master(i) - 0.05 * std::sin(static_cast<double>(i));
      loss += 0.5 * curvature * distance * distance / kElements;
      group.set_gradient(i, static_cast<float>(curvature * (distance + 0.01 * random.normal())));
    }
    const double progress = static_cast<double>(step) / kLength;
    group.update({.lr = 2e-3 * 0.5 * (1 + std::cos(std::numbers::pi * progress)), .step = step});
  }
  return loss;
}

TEST(EightBitConvergence, AQuadraticEndsWhereFp32MomentsEnd) {
  const double fp32 = final_loss(MomentPrecision::fp32);
  const double eight_bit = final_loss(MomentPrecision::eight_bit);
  EXPECT_LT(fp32, 4e-6);
  EXPECT_NEAR(eight_bit, fp32, 0.1 * fp32);
}

// A tensor behind element 2^31 of its group. Address space is reserved, and only the pages of the tensor
// exist.
TEST(AdamWStates, GroupsBeyondTwoToThe31ElementsAreAddressed) {
  constexpr std::int64_t kBegin = (1LL << 31) + 64;
  constexpr std::int64_t kEnd = kBegin + 300;
  const auto reserve = [](std::int64_t bytes) {
    void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  };
  const std::array<TensorPrecision, 1> tensors{
      {{.range = {.begin = kBegin, .end = kEnd}, .precision = MomentPrecision::eight_bit}}};
  const GroupStateLayout layout = group_state_layout(tensors, DataType::bf16);
  std::byte* gradient = reserve(2 * kEnd);
  std::byte* weight = reserve(2 * kEnd);
  StateGroup near = one_tensor(300);
  if (gradient == nullptr || weight == nullptr) GTEST_SKIP() << "no address space";
  near.draw_masters(1);
  near.draw_gradients(2);
  auto* far_gradient = reinterpret_cast<bfloat16*>(gradient) + kBegin;
  auto* far_weight = reinterpret_cast<bfloat16*>(weight) + kBegin;
  std::copy(near.gradient16.begin(), near.gradient16.end(), far_gradient);
  std::copy(near.weight16.begin(), near.weight16.end(), far_weight);
  StateGroup far = one_tensor(300);  // for its state
  far.draw_masters(1);
  ThreadPool pool(1);
  adamw_update(pool,
               {.layout = &layout,
                .gradient_type = DataType::bf16,
                .gradient = gradient,
                .weight = weight,
                .state = far.state.get()},
               {.lr = 1e-2});
  near.update({.lr = 1e-2});
  std::copy(far_weight, far_weight + 300, far.weight16.begin());
  far.weight32 = near.weight32;
  expect_same(near, far);
  munmap(gradient, static_cast<std::size_t>(2 * kEnd));
  munmap(weight, static_cast<std::size_t>(2 * kEnd));
}

}  // namespace
}  // namespace lazytrain
