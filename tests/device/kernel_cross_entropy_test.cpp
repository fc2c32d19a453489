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

// Blocks [first, end) of at most `block` tokens.
template <typename Work>
void in_blocks(std::int64_t vocab, std::int64_t block, const Work& work) {
  for (std::int64_t first = 0; first < vocab; first += block) work(first, std::min(block, vocab - first));
}

TEST(CrossEntropy, InDoubleIsTheDefinitionAndItsDerivative) {
  const DoubleTeam team;
  for (const std::int64_t vocab : {7, 64, 150}) {
    const auto logits = normals(vocab, 1, 4);
    std::vector<double> gradient(logits.size());
    double scores[3] = {};
    in_blocks(vocab, 50, [&](std::int64_t first, std::int64_t width) {
      kernels::softmax_scores(team, width, 3 - first, &logits[static_cast<std::size_t>(first)], first == 0,
                              scores);
    });
    in_blocks(vocab, 50, [&](std::int64_t first, std::int64_t width) {
      kernels::cross_entropy_gradient(team, width, 3 - first, 0.25, scores,
                                      &logits[static_cast<std::size_t>(first)],
                                      &gradient[static_cast<std::size_t>(first)]);
    });
    EXPECT_NEAR(kernels::cross_entropy_loss(team, scores), naive_loss(logits.data(), vocab, 3), 1e-13);
    EXPECT_LT(relative_error(
                  gradient,
                  differences([&](const auto& x) { return 0.25 * naive_loss(x.data(), vocab, 3); }, logits)),
              1e-8);
  }
}

// Loss and gradient of rows of logits, which lie block behind block: [rows, block] each.
template <typename T>
void cross_entropy(ThreadPool& pool, std::int64_t rows, std::int64_t vocab, std::int64_t block,
                   std::vector<T>& logits, const std::vector<std::int32_t>& target, float scale,
                   std::vector<float>& loss) {
  std::vector<float> scores(static_cast<std::size_t>(rows * kSoftmaxScores));
  in_blocks(vocab, block, [&](std::int64_t first, std::int64_t width) {
    cpu::run(pool, SoftmaxScores{TypeOf<T>::value, rows, first, width, logits.data() + rows * first,
                                 target.data(), scores.data(), first == 0});
  });
  cpu::run(pool, CrossEntropyLoss{rows, scores.data(), target.data(), loss.data()});
  in_blocks(vocab, block, [&](std::int64_t first, std::int64_t width) {
    T* part = logits.data() + rows * first;
    cpu::run(pool, CrossEntropyGradient{TypeOf<T>::value, rows, first, width, part, target.data(),
                                        scores.data(), scale, part});
  });
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const std::int64_t vocab : {8, 1000, 49152}) {
    const std::int64_t rows = 5;
    const std::int64_t block = std::max<std::int64_t>(4, vocab / 5);
    const auto in_rows = stored<T>(normals(rows * vocab, 1, 3));
    std::vector<T> logits(in_rows.size());
    // Position of a row's token among blocks.
    const auto at = [&](std::int64_t row, std::int64_t i) {
      const std::int64_t first = i / block * block;
      return static_cast<std::size_t>(rows * first + row * std::min(block, vocab - first) + i - first);
    };
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < vocab; ++i)
        logits[at(row, i)] = in_rows[static_cast<std::size_t>(row * vocab + i)];
    const std::vector<std::int32_t> target{0, static_cast<std::int32_t>(vocab - 1), -100, 5, 2};
    std::vector<double> loss_expected, gradient_expected(logits.size());
    const auto x = doubles(in_rows);
    for (std::int64_t row = 0; row < rows; ++row) {
      const double* in = &x[static_cast<std::size_t>(row * vocab)];
      const std::int64_t t = target[static_cast<std::size_t>(row)];
      loss_expected.push_back(t < 0 ? 0 : naive_loss(in, vocab, t));
      for (std::int64_t i = 0; i < vocab && t >= 0; ++i) {
        gradient_expected[at(row, i)] =
            (std::exp(in[i] - in[t] - loss_expected.back()) - (i == t ? 1 : 0)) * 0.125;
      }
    }
    std::vector<float> loss(rows);
    cross_entropy(pool, rows, vocab, block, logits, target, 0.125f, loss);
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

TEST(CrossEntropy, BlocksWithoutAFiniteLogitAddNothing) {
  ThreadPool pool(1);
  std::vector<float> logits{-INFINITY, -INFINITY, 1, 2, -INFINITY, -INFINITY};
  std::vector<float> loss(1);
  cross_entropy(pool, 1, 6, 2, logits, {3}, 1, loss);
  EXPECT_NEAR(loss[0], std::log(std::exp(1) + std::exp(2)) - 2, 1e-6);
  EXPECT_EQ(logits[0], 0.0f);
  EXPECT_EQ(logits[5], 0.0f);
}

TEST(CrossEntropy, HugeAndNonFiniteLogits) {
  ThreadPool pool(1);
  std::vector<float> loss(2);
  for (const std::int64_t block : {3, 1}) {
    // Two rows in one block, or three blocks of a token.
    std::vector<float> logits = block == 3 ? std::vector<float>{1e30f, -1e30f, 0, 0, NAN, 0}
                                           : std::vector<float>{1e30f, 0, -1e30f, NAN, 0, 0};
    cross_entropy(pool, 2, 3, block, logits, {0, 0}, 1, loss);
    EXPECT_EQ(loss[0], 0.0f);
    EXPECT_EQ(logits[0], 0.0f);
    EXPECT_TRUE(std::isnan(loss[1]));  // seen, never hidden
  }
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
