// Moving, adding and converting rows.
#include <bit>
#include <limits>

#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"

namespace lazytrain::test {
namespace {

TEST(GatherRows, CopiesRowsAndZeroesForNegativeIndices) {
  ThreadPool pool(2);
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> index{2, -1, 0, 2};
  std::vector<float> out(8, 9);
  cpu::run(pool, GatherRows{DataType::f32, 4, 2, x.data(), index.data(), out.data()});
  EXPECT_EQ(out, (std::vector<float>{5, 6, 0, 0, 1, 2, 5, 6}));
}

TEST(ScatterRows, ZeroesTheRest) {
  ThreadPool pool(2);
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> index{3, -1, 0};
  std::vector<float> out(8, 9);
  cpu::run(pool, ScatterRows{DataType::f32, 3, 4, 2, x.data(), index.data(), out.data()});
  EXPECT_EQ(out, (std::vector<float>{5, 6, 0, 0, 0, 0, 1, 2}));
}

TEST(Add, RoundsOnceToNearestEven) {
  ThreadPool pool(1);
  for (const auto set : instruction_sets()) {
    const UseKernels use(set);
    // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7; 1 + 3 2^-8 halfway between odd and even.
    const auto a = stored<bfloat16>({1, 1, 3e38, NAN}),
               b = stored<bfloat16>({0.00390625, 0.01171875, 3e38, 1});
    std::vector<bfloat16> out(4);
    cpu::run(pool, Add{DataType::bf16, 4, a.data(), b.data(), out.data()});
    EXPECT_EQ(to_float(out[0]), 1.0f);
    EXPECT_EQ(to_float(out[1]), 1.015625f);
    EXPECT_EQ(to_float(out[2]), INFINITY);
    EXPECT_TRUE(std::isnan(to_float(out[3])));
  }
}

// Every upper half, with lower halves around the rounding points, as core/bfloat16.h rounds.
TEST(OffloadGradient, RoundsEveryFloatAsCoreDoes) {
  ThreadPool pool(2);
  std::vector<float> src;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      src.push_back(std::bit_cast<float>((high << 16) | low));
    }
  }
  const auto n = static_cast<std::int64_t>(src.size());
  for (const auto set : instruction_sets()) {
    const UseKernels use(set);
    std::vector<bfloat16> dst(src.size());
    std::vector<double> partial(static_cast<std::size_t>(norm_chunks(n)));
    cpu::run(pool, OffloadGradient{DataType::bf16, n, src.data(), dst.data(), partial.data()});
    for (std::size_t i = 0; i < src.size(); ++i) ASSERT_EQ(dst[i].bits, to_bfloat16(src[i]).bits) << i;
  }
}

TEST(OffloadGradient, RoundsWithoutSumsWhereNoneAreAskedFor) {
  ThreadPool pool(2);
  const std::int64_t n = kNormChunk + 5;
  const auto src = stored<float>(normals(n, 1));
  std::vector<bfloat16> dst(src.size());
  cpu::run(pool, OffloadGradient{DataType::bf16, n, src.data(), dst.data(), nullptr});
  for (std::size_t i = 0; i < src.size(); ++i) ASSERT_EQ(dst[i].bits, to_bfloat16(src[i]).bits) << i;
}

TEST(OffloadGradient, SumsSquaresOfTheRoundedValuesByChunk) {
  ThreadPool pool(2);
  const std::int64_t n = 2 * kNormChunk + 5;
  const auto values = normals(n, 1);
  const auto src = stored<float>(values);
  std::vector<bfloat16> dst(src.size());
  std::vector<double> partial(3);
  cpu::run(pool, OffloadGradient{DataType::bf16, n, src.data(), dst.data(), partial.data()});
  for (std::int64_t chunk = 0; chunk < 3; ++chunk) {
    double expected = 0;
    for (std::int64_t i = chunk * kNormChunk; i < std::min(n, (chunk + 1) * kNormChunk); ++i) {
      const double x = to_float(to_bfloat16(src[static_cast<std::size_t>(i)]));
      expected += x * x;
    }
    EXPECT_NEAR(partial[static_cast<std::size_t>(chunk)], expected, 1e-12 * expected);
  }
}

}  // namespace
}  // namespace lazytrain::test
