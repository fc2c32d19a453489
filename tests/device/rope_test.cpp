// Rotary position embedding.
#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"
#include "device/kernels/elementwise.h"

namespace lazytrain::test {
namespace {

// One token of one query head, one key head, one value head of four numbers, a quarter turn and no turn.
TEST(Rope, RotatesPairsHalfAHeadApart) {
  ThreadPool pool(1);
  std::vector<float> qkv{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> cosine{1, 1, 0, 1}, sine{0, 0, 1, 0};
  const std::vector<std::int32_t> positions{1};
  Rope op{DataType::f32, 1, 1, 1, 4, positions.data(), cosine.data(), sine.data(), false, qkv.data()};
  cpu::run(pool, op);
  EXPECT_EQ(qkv, (std::vector<float>{-3, 2, 1, 4, -7, 6, 5, 8, 9, 10, 11, 12}));
  op.inverse = true;
  cpu::run(pool, op);
  EXPECT_EQ(qkv, (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

// The gradient of a rotation is the rotation back.
TEST(Rope, BackwardInDoubleIsTheDerivative) {
  constexpr std::int64_t kHalf = 20;
  std::vector<double> cosine, sine;
  for (int i = 0; i < kHalf; ++i) {
    cosine.push_back(std::cos(i * 0.7));
    sine.push_back(std::sin(i * 0.7));
  }
  auto rotated = [&](std::vector<double> x, double sign) {
    kernels::rope(DoubleTeam(), kHalf, sign, cosine.data(), sine.data(), x.data());
    return x;
  };
  const auto x = normals(2 * kHalf, 1), dy = normals(2 * kHalf, 2);
  EXPECT_LT(
      relative_error(rotated(dy, -1), differences([&](const auto& v) { return dot(rotated(v, 1), dy); }, x)),
      1e-9);
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const std::int64_t head_dim : {8, 24, 64, 128}) {
    const std::int64_t rows = 50, heads = 3, kv_heads = 1, half = head_dim / 2;
    std::vector<float> cosine, sine;
    for (std::int64_t i = 0; i < 70 * half; ++i) {
      const double angle = static_cast<double>(i / half) *
                           std::pow(10000.0, -static_cast<double>(i % half) / static_cast<double>(half));
      cosine.push_back(static_cast<float>(std::cos(angle)));
      sine.push_back(static_cast<float>(std::sin(angle)));
    }
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < rows; ++i) positions.push_back((i * 7) % 70);
    const auto before = stored<T>(normals(rows * (heads + 2 * kv_heads) * head_dim, 1));
    auto after = before;
    cpu::run(pool, Rope{TypeOf<T>::value, rows, heads, kv_heads, head_dim, positions.data(), cosine.data(),
                        sine.data(), false, after.data()});
    auto expected = doubles(before);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t head = 0; head < heads + kv_heads; ++head) {
        double* x = &expected[static_cast<std::size_t>((row * (heads + 2 * kv_heads) + head) * head_dim)];
        for (std::int64_t i = 0; i < half; ++i) {
          const auto t = static_cast<std::size_t>(positions[static_cast<std::size_t>(row)] * half + i);
          const double a = x[i], b = x[i + half], c = cosine[t], s = sine[t];
          x[i] = a * c - b * s;
          x[i + half] = b * c + a * s;
        }
      }
    }
    EXPECT_LT(relative_error(doubles(after), expected), tolerance<T>());
  }
}
TEST(Rope, InFp32IsNearDouble) {
  near_double<float>();
}
TEST(Rope, InBf16IsNearDouble) {
  near_double<bfloat16>();
}

}  // namespace
}  // namespace lazytrain::test
