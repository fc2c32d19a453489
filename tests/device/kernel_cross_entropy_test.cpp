// Softmax cross-entropy and argmax.
#include "device/kernels/cross_entropy.h"

#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"

namespace lazytrain::test {
namespace {

double naive_loss(const double* x, std::int64_t vocab, std::int64_t target) {
  const double largest = *std::max_element(x, x + vocab);
  double total = 0;
  for (std::int64_t i = 0; i < vocab; ++i) total += std::exp(x[i] - largest);
  return std::log(total) + largest - x[target];
}

TEST(CrossEntropy, InDoubleIsTheDefinitionAndItsDerivative) {
  for (const std::int64_t vocab : {7, 64, 150}) {
    const auto logits = normals(vocab, 1, 4);
    std::vector<double> gradient(logits.size());
    const double loss = kernels::cross_entropy(DoubleTeam(), vocab, 3, 0.25, logits.data(), gradient.data());
    EXPECT_NEAR(loss, naive_loss(logits.data(), vocab, 3), 1e-13);
    EXPECT_LT(relative_error(
                  gradient,
                  differences([&](const auto& x) { return 0.25 * naive_loss(x.data(), vocab, 3); }, logits)),
              1e-8);
  }
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const std::int64_t vocab : {8, 1000, 49152}) {
    const std::int64_t rows = 5;
    auto logits = stored<T>(normals(rows * vocab, 1, 3));
    const std::vector<std::int32_t> target{0, static_cast<std::int32_t>(vocab - 1), -100, 5, 2};
    std::vector<double> loss_expected, gradient_expected(logits.size());
    const auto x = doubles(logits);
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* in = &x[static_cast<std::size_t>(row * vocab)];
      const std::int64_t t = target[static_cast<std::size_t>(row)];
      loss_expected.push_back(t < 0 ? 0 : naive_loss(in, vocab, t));
      for (std::int64_t i = 0; i < vocab && t >= 0; ++i) {
        gradient_expected[static_cast<std::size_t>(row * vocab + i)] =
            (std::exp(in[i] - in[t] - loss_expected.back()) - (i == t ? 1 : 0)) * 0.125;
      }
    }
    std::vector<float> loss(rows);
    cpu::run(pool, CrossEntropy{TypeOf<T>::value, rows, vocab, logits.data(), target.data(), 0.125f,
                                loss.data(), logits.data()});
    for (std::size_t row = 0; row < 5; ++row)
      EXPECT_NEAR(loss[row], loss_expected[row], 2e-6 * (1 + loss_expected[row]));
    EXPECT_LT(relative_error(doubles(logits), gradient_expected), tolerance<T>());
  }
}
TEST(CrossEntropy, InFp32IsNearDouble) {
  near_double<float>();
}
TEST(CrossEntropy, InBf16IsNearDouble) {
  near_double<bfloat16>();
}

TEST(CrossEntropy, WithoutGradientTheLogitsStay) {
  ThreadPool pool(1);
  const std::vector<float> logits{1, 2, 3, 4};
  const std::vector<std::int32_t> target{1};
  float loss = 0;
  cpu::run(pool, CrossEntropy{DataType::f32, 1, 4, logits.data(), target.data(), 1, &loss});
  EXPECT_NEAR(loss, std::log(std::exp(1) + std::exp(2) + std::exp(3) + std::exp(4)) - 2, 1e-6);
}

TEST(CrossEntropy, HugeAndNonFiniteLogits) {
  ThreadPool pool(1);
  const std::vector<float> logits{1e30f, -1e30f, 0, 0, NAN, 0};
  const std::vector<std::int32_t> target{0, 0};
  std::vector<float> loss(2), gradient(6);
  cpu::run(pool,
           CrossEntropy{DataType::f32, 2, 3, logits.data(), target.data(), 1, loss.data(), gradient.data()});
  EXPECT_EQ(loss[0], 0.0f);
  EXPECT_EQ(gradient[0], 0.0f);
  EXPECT_TRUE(std::isnan(loss[1]));  // seen, never hidden
}

TEST(ArgMax, LowestIndexAmongEquals) {
  ThreadPool pool(2);
  std::vector<double> x(3 * 100, -5);
  x[17] = x[40] = 2;
  x[100 + 99] = 1;
  const auto rows = stored<bfloat16>(x);
  std::vector<std::int32_t> out(3, -1);
  cpu::run(pool, ArgMax{DataType::bf16, 3, 100, rows.data(), out.data()});
  EXPECT_EQ(out, (std::vector<std::int32_t>{17, 99, 0}));
}

}  // namespace
}  // namespace lazytrain::test
