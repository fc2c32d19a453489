// SwiGLU.
#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"
#include "device/kernels/elementwise.h"

namespace lazytrain::test {
namespace {

double silu(double x) {
  return x / (1 + std::exp(-x));
}

TEST(Swiglu, InDoubleIsTheDefinitionAndItsDerivative) {
  constexpr std::int64_t kWidth = 37;
  const auto gate_up = normals(2 * kWidth, 1, 2), dact = normals(kWidth, 2);
  auto naive = [&](const std::vector<double>& x) {
    std::vector<double> act;
    for (std::size_t i = 0; i < kWidth; ++i) act.push_back(silu(x[i]) * x[i + kWidth]);
    return act;
  };
  std::vector<double> act(kWidth), gradient(2 * kWidth);
  kernels::swiglu_forward(DoubleTeam(), kWidth, gate_up.data(), gate_up.data() + kWidth, act.data());
  EXPECT_LT(relative_error(act, naive(gate_up)), 1e-14);
  kernels::swiglu_backward(DoubleTeam(), kWidth, gate_up.data(), gate_up.data() + kWidth, dact.data(),
                           gradient.data(), gradient.data() + kWidth);
  EXPECT_LT(
      relative_error(gradient, differences([&](const auto& x) { return dot(naive(x), dact); }, gate_up)),
      1e-8);
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const std::int64_t width : {8, 90, 1536}) {
    const std::int64_t rows = 50;
    auto gate_up = stored<T>(normals(rows * 2 * width, 1, 3));
    const auto dact = stored<T>(normals(rows * width, 2));
    std::vector<T> act(dact.size());
    cpu::run(pool, SwigluForward{TypeOf<T>::value, rows, width, gate_up.data(), act.data()});
    std::vector<double> expected(act.size()), d_expected(gate_up.size());
    const auto x = doubles(gate_up), dy = doubles(dact);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < width; ++i) {
        const auto gate = static_cast<std::size_t>(2 * row * width + i),
                   up = gate + static_cast<std::size_t>(width),
                   out = static_cast<std::size_t>(row * width + i);
        const double s = 1 / (1 + std::exp(-x[gate]));
        expected[out] = silu(x[gate]) * x[up];
        d_expected[gate] = dy[out] * x[up] * s * (1 + x[gate] * (1 - s));
        d_expected[up] = dy[out] * silu(x[gate]);
      }
    }
    EXPECT_LT(relative_error(doubles(act), expected), tolerance<T>());
    cpu::run(pool,
             SwigluBackward{TypeOf<T>::value, rows, width, gate_up.data(), dact.data(), gate_up.data()});
    EXPECT_LT(relative_error(doubles(gate_up), d_expected), tolerance<T>());
  }
}
TEST(Swiglu, InFp32IsNearDouble) {
  near_double<float>();
}
TEST(Swiglu, InBf16IsNearDouble) {
  near_double<bfloat16>();
}

TEST(Swiglu, LargeGatesGiveNoNaN) {
  ThreadPool pool(1);
  const std::vector<float> gate_up{200, -200, 3e38f, -3e38f, 1, 1, 1, 1};
  std::vector<float> act(4), gradient(8);
  cpu::run(pool, SwigluForward{DataType::f32, 1, 4, gate_up.data(), act.data()});
  EXPECT_EQ(act, (std::vector<float>{200, 0, 3e38f, 0}));
  const std::vector<float> dact{1, 1, 1, 1};
  cpu::run(pool, SwigluBackward{DataType::f32, 1, 4, gate_up.data(), dact.data(), gradient.data()});
  EXPECT_EQ(gradient, (std::vector<float>{1, 0, 1, 0, 200, 0, 3e38f, 0}));
}

}  // namespace
}  // namespace lazytrain::test
