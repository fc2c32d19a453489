// RMSNorm and the bias gradient.
#include "device/kernels/rms_norm.h"

#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"

namespace lazytrain::test {
namespace {

constexpr double kEpsilon = 1e-5;

std::vector<double> naive_norm(std::int64_t width, const std::vector<double>& x,
                               const std::vector<double>& weight) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(width)) {
    double squares = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) squares += x[row + i] * x[row + i];
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (std::size_t i = 0; i < static_cast<std::size_t>(width); ++i) y[row + i] = x[row + i] * r * weight[i];
  }
  return y;
}

struct NormGradient {
  std::vector<double> dx, dweight;
};

NormGradient gradient_in_double(std::int64_t width, const std::vector<double>& x,
                                const std::vector<double>& weight, const std::vector<double>& dy,
                                const std::vector<double>& residual) {
  const DoubleTeam team;
  NormGradient g{std::vector<double>(x.size()), std::vector<double>(weight.size())};
  std::vector<double> inverse;
  for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(width)) {
    inverse.push_back(kernels::inverse_rms(team, width, kEpsilon, &x[at]));
    kernels::rms_norm_backward(team, width, inverse.back(), &x[at], weight.data(), &dy[at],
                               residual.empty() ? nullptr : &residual[at], &g.dx[at]);
  }
  kernels::rms_norm_weight_gradient(team, static_cast<std::int64_t>(inverse.size()), width, width, x.data(),
                                    dy.data(), inverse.data(), g.dweight.data());
  return g;
}

TEST(RmsNorm, ForwardInDoubleIsTheDefinition) {
  for (const std::int64_t width : {8, 16, 40, 130}) {
    const auto x = normals(3 * width, 1), weight = normals(width, 2);
    std::vector<double> y(x.size());
    for (std::int64_t row = 0; row < 3; ++row) {
      kernels::rms_norm_forward(DoubleTeam(), width, kEpsilon, &x[static_cast<std::size_t>(row * width)],
                                weight.data(), &y[static_cast<std::size_t>(row * width)]);
    }
    EXPECT_LT(relative_error(y, naive_norm(width, x, weight)), 1e-14);
  }
}

TEST(RmsNorm, BackwardInDoubleIsTheDerivative) {
  constexpr std::int64_t kWidth = 40;
  const auto x = normals(3 * kWidth, 1), weight = normals(kWidth, 2), dy = normals(3 * kWidth, 3);
  const NormGradient g = gradient_in_double(kWidth, x, weight, dy, {});
  EXPECT_LT(relative_error(
                g.dx, differences([&](const auto& v) { return dot(naive_norm(kWidth, v, weight), dy); }, x)),
            1e-8);
  EXPECT_LT(
      relative_error(g.dweight,
                     differences([&](const auto& v) { return dot(naive_norm(kWidth, x, v), dy); }, weight)),
      1e-8);
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const std::int64_t width : {8, 64, 100, 576}) {
    const std::int64_t rows = 60, slot_rows = 20;
    const auto x = stored<T>(normals(rows * width, 1, 3)), weight = stored<T>(normals(width, 2)),
               dy = stored<T>(normals(rows * width, 3)), residual = stored<T>(normals(rows * width, 4));
    std::vector<T> y(x.size());
    cpu::run(pool, RmsNormForward{TypeOf<T>::value, rows, width, 1e-5f, x.data(), weight.data(), y.data()});
    EXPECT_LT(relative_error(doubles(y), naive_norm(width, doubles(x), doubles(weight))), 2 * tolerance<T>());

    std::vector<T> dx = residual;  // in place, as the layers do
    std::vector<float> dweight(weight.size(), 0.5f);
    cpu::run(pool, RmsNormBackward{TypeOf<T>::value, rows, slot_rows, width, 1e-5f, x.data(), weight.data(),
                                   dy.data(), dx.data(), dx.data(), dweight.data()});
    NormGradient expected =
        gradient_in_double(width, doubles(x), doubles(weight), doubles(dy), doubles(residual));
    for (double& value : expected.dweight) value += 0.5;
    EXPECT_LT(relative_error(doubles(dx), expected.dx), tolerance<T>());
    // The double version does not round x / rms before it multiplies dy.
    EXPECT_LT(relative_error({dweight.begin(), dweight.end()}, expected.dweight), 2 * tolerance<T>());
  }
}
TEST(RmsNorm, InFp32IsNearDouble) {
  near_double<float>();
}
TEST(RmsNorm, InBf16IsNearDouble) {
  near_double<bfloat16>();
}

// x / rms is rounded before the weight multiplies it. With x = (1, 1.0078125), the normalised values are
// 0.99611 and 1.00389, which bf16 rounds to 0.99609375 and 1.0; times 3: 2.98828125 -> 2.984375 and 3.
TEST(RmsNorm, RoundsBeforeTheWeight) {
  ThreadPool pool(1);
  const auto x = stored<bfloat16>({1, 1.0078125}), weight = stored<bfloat16>({3, 3});
  std::vector<bfloat16> y(2);
  cpu::run(pool, RmsNormForward{DataType::bf16, 1, 2, 0, x.data(), weight.data(), y.data()});
  EXPECT_EQ(to_float(y[0]), 2.984375f);
  EXPECT_EQ(to_float(y[1]), 3.0f);
}

TEST(BiasGradient, AddsTheColumnSums) {
  ThreadPool pool(2);
  const auto dy = stored<bfloat16>({1, 2, 3, 10, 20, 30, 100, 200, 300, -1, -2, -3});
  std::vector<float> dbias{0.5f, 0, 0};
  cpu::run(pool, BiasGradient{DataType::bf16, 4, 2, 3, dy.data(), dbias.data()});
  EXPECT_EQ(dbias, (std::vector<float>{110.5f, 220, 330}));
}

}  // namespace
}  // namespace lazytrain::test
