// The three products of a linear layer: right to a rounding, and the same bits however they are run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "device/cpu/cpu_device.h"

namespace lazytrain {
namespace {

std::unique_ptr<CpuDevice> device_of(int threads) {
  return make_cpu_device({.compute_threads = threads});
}

// A tensor of either storage type that also knows its values.
struct Tensor {
  Tensor(DataType type_, std::int64_t elements, std::uint64_t seed)
      : type(type_), bytes(static_cast<std::size_t>(elements * size_of(type_))) {
    Random random(seed);
    for (std::int64_t i = 0; i < elements; ++i) set(i, static_cast<float>(random.normal()));
  }
  void set(std::int64_t i, float x) {
    if (type == DataType::f32) {
      reinterpret_cast<float*>(bytes.data())[i] = x;
    } else {
      reinterpret_cast<bfloat16*>(bytes.data())[i] = to_bfloat16(x);
    }
  }
  [[nodiscard]] double at(std::int64_t i) const {
    return type == DataType::f32 ? reinterpret_cast<const float*>(bytes.data())[i]
                                 : to_float(reinterpret_cast<const bfloat16*>(bytes.data())[i]);
  }
  DataType type;
  std::vector<std::byte> bytes;
};

// The step between neighbours of the storage type at x.
double ulp(DataType type, double x) {
  return std::ldexp(1.0, std::ilogb(std::max(std::abs(x), 1e-30)) - (type == DataType::f32 ? 23 : 7));
}

// `expected` was summed in fp64 over `depth` products of values about 1. What may differ: the fp32 sums
// (an error that grows like the root of the depth) and the one rounding, half a step, or a whole step where
// the sum lies between two values of the storage type.
void expect_near(DataType type, double expected, double got, std::int64_t depth) {
  const double sums = 1e-6 * std::sqrt(static_cast<double>(depth)) * 8;
  const double rounding = type == DataType::bf16 ? ulp(type, expected) / 2 : 0;
  ASSERT_NEAR(expected, got, sums + rounding * 1.0001);
}

struct Sizes {
  std::int64_t rows, slot_rows, in, out;
};

std::vector<std::byte> forward(int threads, DataType type, const Sizes& s, bool bias, bool accumulate,
                               std::int64_t slots_per_call = 0) {
  const Tensor x(type, s.rows * s.in, 1);
  const Tensor weight(type, s.out * s.in, 2);
  const Tensor b(type, s.out, 3);
  Tensor y(type, s.rows * s.out, 4);
  const auto device = device_of(threads);
  const auto stream = device->create_stream(StreamKind::compute);
  const std::int64_t rows = slots_per_call == 0 ? s.rows : slots_per_call * s.slot_rows;
  for (std::int64_t row = 0; row < s.rows; row += rows) {
    device->run(*stream, LinearForward{.type = type,
                                       .rows = std::min(rows, s.rows - row),
                                       .slot_rows = s.slot_rows,
                                       .in = s.in,
                                       .out = s.out,
                                       .x = x.bytes.data() + row * s.in * size_of(type),
                                       .weight = weight.bytes.data(),
                                       .bias = bias ? b.bytes.data() : nullptr,
                                       .y = y.bytes.data() + row * s.out * size_of(type),
                                       .accumulate = accumulate});
  }
  device->synchronize(*stream);
  return y.bytes;
}

std::vector<std::byte> input_gradient(int threads, DataType type, const Sizes& s, bool accumulate,
                                      std::int64_t slots_per_call = 0) {
  const Tensor dy(type, s.rows * s.out, 1);
  const Tensor weight(type, s.out * s.in, 2);
  Tensor dx(type, s.rows * s.in, 4);
  const auto device = device_of(threads);
  const auto stream = device->create_stream(StreamKind::compute);
  const std::int64_t rows = slots_per_call == 0 ? s.rows : slots_per_call * s.slot_rows;
  for (std::int64_t row = 0; row < s.rows; row += rows) {
    device->run(*stream, LinearInputGradient{.type = type,
                                             .rows = std::min(rows, s.rows - row),
                                             .slot_rows = s.slot_rows,
                                             .in = s.in,
                                             .out = s.out,
                                             .dy = dy.bytes.data() + row * s.out * size_of(type),
                                             .weight = weight.bytes.data(),
                                             .dx = dx.bytes.data() + row * s.in * size_of(type),
                                             .accumulate = accumulate});
  }
  device->synchronize(*stream);
  return dx.bytes;
}

std::vector<std::byte> weight_gradient(int threads, DataType type, const Sizes& s,
                                       std::int64_t slots_per_call = 0) {
  const Tensor dy(type, s.rows * s.out, 1);
  const Tensor x(type, s.rows * s.in, 2);
  Tensor dweight(DataType::f32, s.out * s.in, 4);
  const auto device = device_of(threads);
  const auto stream = device->create_stream(StreamKind::compute);
  const std::int64_t rows = slots_per_call == 0 ? s.rows : slots_per_call * s.slot_rows;
  for (std::int64_t row = 0; row < s.rows; row += rows) {
    device->run(*stream, LinearWeightGradient{.type = type,
                                              .rows = std::min(rows, s.rows - row),
                                              .slot_rows = s.slot_rows,
                                              .in = s.in,
                                              .out = s.out,
                                              .dy = dy.bytes.data() + row * s.out * size_of(type),
                                              .x = x.bytes.data() + row * s.in * size_of(type),
                                              .dweight = reinterpret_cast<float*>(dweight.bytes.data())});
  }
  device->synchronize(*stream);
  return dweight.bytes;
}

// Several tiles in both directions, a ragged last slot, sizes that are no multiple of a vector.
constexpr Sizes kRagged{.rows = 333, .slot_rows = 140, .in = 70, .out = 1100};
constexpr Sizes kSmall{.rows = 5, .slot_rows = 8, .in = 3, .out = 1};
constexpr Sizes kDeep{.rows = 20, .slot_rows = 20, .in = 3072, .out = 40};
constexpr Sizes kFourSlots{.rows = 512, .slot_rows = 128, .in = 192, .out = 320};

class Matmul : public testing::TestWithParam<DataType> {};
INSTANTIATE_TEST_SUITE_P(Types, Matmul, testing::Values(DataType::f32, DataType::bf16),
                         [](const auto& of) { return of.param == DataType::f32 ? "f32" : "bf16"; });

TEST_P(Matmul, ForwardIsTheFp64SumRoundedOnce) {
  const DataType type = GetParam();
  for (const Sizes& s : {kRagged, kSmall, kDeep}) {
    const Tensor x(type, s.rows * s.in, 1);
    const Tensor weight(type, s.out * s.in, 2);
    const Tensor b(type, s.out, 3);
    const Tensor y(type, s.rows * s.out, 4);
    for (const bool bias : {false, true}) {
      for (const bool accumulate : {false, true}) {
        Tensor got(type, s.rows * s.out, 0);
        got.bytes = forward(2, type, s, bias, accumulate);
        for (std::int64_t i = 0; i < s.rows; ++i) {
          for (std::int64_t j = 0; j < s.out; ++j) {
            double sum = (bias ? b.at(j) : 0) + (accumulate ? y.at(i * s.out + j) : 0);
            for (std::int64_t k = 0; k < s.in; ++k) sum += x.at(i * s.in + k) * weight.at(j * s.in + k);
            expect_near(type, sum, got.at(i * s.out + j), s.in);
          }
        }
      }
    }
  }
}

TEST_P(Matmul, InputGradientIsTheFp64SumRoundedOnce) {
  const DataType type = GetParam();
  for (const Sizes& s : {kRagged, kSmall, kDeep}) {
    const Tensor dy(type, s.rows * s.out, 1);
    const Tensor weight(type, s.out * s.in, 2);
    const Tensor dx(type, s.rows * s.in, 4);
    for (const bool accumulate : {false, true}) {
      Tensor got(type, s.rows * s.in, 0);
      got.bytes = input_gradient(2, type, s, accumulate);
      for (std::int64_t i = 0; i < s.rows; ++i) {
        for (std::int64_t j = 0; j < s.in; ++j) {
          double sum = accumulate ? dx.at(i * s.in + j) : 0;
          for (std::int64_t k = 0; k < s.out; ++k) sum += dy.at(i * s.out + k) * weight.at(k * s.in + j);
          expect_near(type, sum, got.at(i * s.in + j), s.out);
        }
      }
    }
  }
}

TEST_P(Matmul, WeightGradientAddsTheFp64Sum) {
  const DataType type = GetParam();
  for (const Sizes& s : {kRagged, kSmall, kDeep}) {
    const Tensor dy(type, s.rows * s.out, 1);
    const Tensor x(type, s.rows * s.in, 2);
    const Tensor dweight(DataType::f32, s.out * s.in, 4);
    Tensor got(DataType::f32, s.out * s.in, 0);
    got.bytes = weight_gradient(2, type, s);
    for (std::int64_t i = 0; i < s.out; ++i) {
      for (std::int64_t j = 0; j < s.in; ++j) {
        double sum = dweight.at(i * s.in + j);
        for (std::int64_t k = 0; k < s.rows; ++k) sum += dy.at(k * s.out + i) * x.at(k * s.in + j);
        expect_near(DataType::f32, sum, got.at(i * s.in + j), s.rows);
      }
    }
  }
}

// Sums that fp32 holds exactly but bf16 does not: two roundings (to bf16 and again after the addition of y)
// would give 256 and 258 where one gives 258 and 256.
TEST(MatmulEdges, AccumulatingIntoBf16RoundsOnce) {
  // y = 256 (bf16 step there: 2); the product is 1.5: 257.5 rounds to 258. Product rounded first: same. The
  // product 1 + 2^-9 is 1 in bf16, 257 is a tie and goes to the even 256; the true 257.002 goes to 258.
  const std::vector<bfloat16> x{to_bfloat16(1), to_bfloat16(std::ldexp(1.0F, -9))};
  const std::vector<bfloat16> weight{to_bfloat16(1), to_bfloat16(1)};
  std::vector<bfloat16> y{to_bfloat16(256)};
  const auto device = device_of(1);
  const auto stream = device->create_stream(StreamKind::compute);
  device->run(*stream, LinearForward{.type = DataType::bf16,
                                     .rows = 1,
                                     .slot_rows = 1,
                                     .in = 2,
                                     .out = 1,
                                     .x = x.data(),
                                     .weight = weight.data(),
                                     .y = y.data(),
                                     .accumulate = true});
  device->synchronize(*stream);
  EXPECT_EQ(to_float(y[0]), 258);
  // The same in the input gradient: dx[1, 1] = dy[1, 2] * weight[2, 1] + dx.
  y[0] = to_bfloat16(256);
  device->run(*stream, LinearInputGradient{.type = DataType::bf16,
                                           .rows = 1,
                                           .slot_rows = 1,
                                           .in = 1,
                                           .out = 2,
                                           .dy = x.data(),
                                           .weight = weight.data(),
                                           .dx = y.data(),
                                           .accumulate = true});
  device->synchronize(*stream);
  EXPECT_EQ(to_float(y[0]), 258);
}

TEST_P(Matmul, ThreadsDoNotChangeABit) {
  const DataType type = GetParam();
  for (const Sizes& s : {kRagged, kFourSlots}) {
    const auto y = forward(1, type, s, true, true);
    const auto dx = input_gradient(1, type, s, true);
    const auto dweight = weight_gradient(1, type, s);
    for (const int threads : {2, 3}) {
      EXPECT_EQ(y, forward(threads, type, s, true, true));
      EXPECT_EQ(dx, input_gradient(threads, type, s, true));
      EXPECT_EQ(dweight, weight_gradient(threads, type, s));
    }
  }
}

TEST_P(Matmul, SlotsPerCallDoNotChangeABit) {
  const DataType type = GetParam();
  const Sizes& s = kFourSlots;
  const auto y = forward(2, type, s, true, false);
  const auto dx = input_gradient(2, type, s, false);
  const auto dweight = weight_gradient(2, type, s);
  for (const std::int64_t slots : {1, 2, 3}) {
    EXPECT_EQ(y, forward(2, type, s, true, false, slots));
    EXPECT_EQ(dx, input_gradient(2, type, s, false, slots));
    EXPECT_EQ(dweight, weight_gradient(2, type, s, slots));
  }
  // What stands in the other slots does not matter either: the ragged last slot alone.
  const Sizes whole{.rows = 280 + 53, .slot_rows = 140, .in = 70, .out = 1100};
  EXPECT_EQ(forward(2, type, whole, false, false), forward(2, type, whole, false, false, 1));
}

TEST(MatmulEdges, NoRowsIsNoWork) {
  const auto device = device_of(2);
  const auto stream = device->create_stream(StreamKind::compute);
  device->run(*stream, LinearForward{.type = DataType::f32,
                                     .rows = 0,
                                     .slot_rows = 4,
                                     .in = 2,
                                     .out = 2,
                                     .x = nullptr,
                                     .weight = nullptr,
                                     .y = nullptr});
  device->run(*stream, LinearWeightGradient{.type = DataType::f32,
                                            .rows = 0,
                                            .slot_rows = 4,
                                            .in = 2,
                                            .out = 2,
                                            .dy = nullptr,
                                            .x = nullptr,
                                            .dweight = nullptr});
  EXPECT_NO_THROW(device->synchronize(*stream));
}

}  // namespace
}  // namespace lazytrain
