// RMSNorm of query and key heads.
#include "device/kernels/head_norm.h"

#include "core/threads.h"
#include "device/cpu/kernels.h"
#include "device/kernel_support.h"

namespace lazytrain::test {
namespace {

constexpr double kEpsilon = 1e-6;

std::vector<double> naive(const kernels::HeadNormShape& shape, const std::vector<double>& x,
                          const std::vector<double>& query_weight, const std::vector<double>& key_weight) {
  std::vector<double> y = x;
  const auto dim = static_cast<std::size_t>(shape.head_dim);
  const auto heads = static_cast<std::size_t>(shape.heads + 2 * shape.kv_heads);
  for (std::size_t at = 0; at < x.size(); at += dim) {
    const auto head = static_cast<std::int64_t>(at / dim % heads);
    if (head >= shape.heads + shape.kv_heads) continue;  // a value
    double squares = 0;
    for (std::size_t i = 0; i < dim; ++i) squares += x[at + i] * x[at + i];
    const double r = 1 / std::sqrt(squares / static_cast<double>(dim) + kEpsilon);
    for (std::size_t i = 0; i < dim; ++i)
      y[at + i] *= r * (head < shape.heads ? query_weight : key_weight)[i];
  }
  return y;
}

struct Gradient {
  std::vector<double> dx, d_query_weight, d_key_weight;
};

// The shared body in double, all rows one piece.
Gradient gradient_in_double(const kernels::HeadNormShape& shape, const std::vector<double>& x,
                            const std::vector<double>& query_weight, const std::vector<double>& key_weight,
                            const std::vector<double>& dy) {
  const auto dim = static_cast<std::ptrdiff_t>(shape.head_dim);
  std::vector<double> dx = dy, sums(static_cast<std::size_t>(2 * dim));
  kernels::head_norm_backward(DoubleTeam(), shape, static_cast<std::int64_t>(x.size()) / shape.row(),
                              kEpsilon, x.data(), query_weight.data(), key_weight.data(), dx.data(),
                              sums.data());
  return {dx, {sums.begin(), sums.begin() + dim}, {sums.begin() + dim, sums.end()}};
}

TEST(HeadNorm, ForwardInDoubleIsTheDefinition) {
  for (const kernels::HeadNormShape& shape :
       {kernels::HeadNormShape{1, 1, 8}, kernels::HeadNormShape{6, 2, 24},
        kernels::HeadNormShape{4, 4, 130}}) {
    const auto x = normals(shape.row(), 1), query_weight = normals(shape.head_dim, 2),
               key_weight = normals(shape.head_dim, 3);
    std::vector<double> y(x.size());
    kernels::head_norm_forward(DoubleTeam(), shape, kEpsilon, x.data(), query_weight.data(),
                               key_weight.data(), y.data());
    EXPECT_LT(relative_error(y, naive(shape, x, query_weight, key_weight)), 1e-14);
    std::vector<double> in_place = x;
    kernels::head_norm_forward(DoubleTeam(), shape, kEpsilon, in_place.data(), query_weight.data(),
                               key_weight.data(), in_place.data());
    EXPECT_EQ(in_place, y);
  }
}

TEST(HeadNorm, BackwardInDoubleIsTheDerivative) {
  for (const kernels::HeadNormShape& shape :
       {kernels::HeadNormShape{1, 1, 8}, kernels::HeadNormShape{3, 1, 20},
        kernels::HeadNormShape{4, 2, 32}}) {
    const auto x = normals(3 * shape.row(), 1), query_weight = normals(shape.head_dim, 2),
               key_weight = normals(shape.head_dim, 3), dy = normals(3 * shape.row(), 4);
    const Gradient g = gradient_in_double(shape, x, query_weight, key_weight, dy);
    const auto error = [&](const std::vector<double>& gradient, const auto& loss,
                           const std::vector<double>& at) {
      return relative_error(gradient, differences([&](const auto& v) { return dot(loss(v), dy); }, at));
    };
    const double inputs = error(
        g.dx, [&](const auto& v) { return naive(shape, v, query_weight, key_weight); }, x);
    const double queries = error(
        g.d_query_weight, [&](const auto& v) { return naive(shape, x, v, key_weight); }, query_weight);
    const double keys = error(
        g.d_key_weight, [&](const auto& v) { return naive(shape, x, query_weight, v); }, key_weight);
    EXPECT_LT(std::max({inputs, queries, keys}), 1e-8);
    std::printf(
        "  head norm, %d and %d heads of %d: largest difference from finite differences %.1e (bar 1e-08)\n",
        static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads), static_cast<int>(shape.head_dim),
        std::max({inputs, queries, keys}));
  }
}

template <typename T>
void near_double() {
  ThreadPool pool(2);
  for (const kernels::HeadNormShape& shape :
       {kernels::HeadNormShape{4, 2, 32}, kernels::HeadNormShape{5, 1, 100}}) {
    const std::int64_t slot_rows = 70, rows = 2 * slot_rows, dim = shape.head_dim;
    const auto x = stored<T>(normals(rows * shape.row(), 1, 3)), query_weight = stored<T>(normals(dim, 2)),
               key_weight = stored<T>(normals(dim, 3)), dy = stored<T>(normals(rows * shape.row(), 4));
    std::vector<T> y(x.size());
    cpu::run(pool, HeadNormForward{TypeOf<T>::value, rows, shape.heads, shape.kv_heads, dim, 1e-6f, x.data(),
                                   query_weight.data(), key_weight.data(), y.data()});
    EXPECT_LT(
        relative_error(doubles(y), naive(shape, doubles(x), doubles(query_weight), doubles(key_weight))),
        2 * tolerance<T>());

    std::vector<T> dx = dy;
    const auto elements = static_cast<std::size_t>(dim);
    std::vector<float> d_query(elements, 0.5f), d_key(elements, -2.0f);
    cpu::run(pool, HeadNormBackward{TypeOf<T>::value, rows, slot_rows, shape.heads, shape.kv_heads, dim,
                                    1e-6f, x.data(), query_weight.data(), key_weight.data(), dx.data(),
                                    d_query.data(), d_key.data()});
    Gradient expected =
        gradient_in_double(shape, doubles(x), doubles(query_weight), doubles(key_weight), doubles(dy));
    for (double& value : expected.d_query_weight) value += 0.5;
    for (double& value : expected.d_key_weight) value -= 2;
    EXPECT_LT(relative_error(doubles(dx), expected.dx), tolerance<T>());
    EXPECT_LT(relative_error({d_query.begin(), d_query.end()}, expected.d_query_weight), 2 * tolerance<T>());
    EXPECT_LT(relative_error({d_key.begin(), d_key.end()}, expected.d_key_weight), 2 * tolerance<T>());
  }
}
TEST(HeadNorm, InFp32IsNearDouble) {
  near_double<float>();
}
TEST(HeadNorm, InBf16IsNearDouble) {
  near_double<bfloat16>();
}

}  // namespace
}  // namespace lazytrain::test
