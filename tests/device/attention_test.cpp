// Attention against softmax written down plainly in double, and its backward against finite differences.
#include "device/attention_support.h"

namespace lazytrain::test {
namespace {

std::vector<double> as_double(const std::vector<float>& x) {
  return {x.begin(), x.end()};
}

// Sizes that meet partial blocks, several documents per block, documents over several blocks, groups of
// heads, and heads narrower than a vector.
std::vector<Attention> cases() {
  return {packed(1, 5, 1, 1, 8, {5}), packed(1, 64, 2, 1, 16, {64}), packed(2, 150, 3, 1, 24, {150}),
          packed(2, 200, 6, 2, 64, {3, 70, 1, 40, 130}), packed(1, 512, 3, 3, 64, {512}),
          packed(1, 130, 10, 2, 128, {129, 1}), packed(3, 96, 4, 4, 40, {7, 9, 8}),
          // Windows of one key, inside a block, over block borders, and wider than most documents.
          windowed(packed(1, 70, 2, 1, 16, {70}), 1), windowed(packed(1, 200, 4, 2, 24, {200}), 8),
          windowed(packed(2, 300, 3, 1, 64, {300}), 64),
          windowed(packed(1, 400, 6, 2, 64, {180, 20, 200}), 100),
          windowed(packed(2, 130, 2, 2, 128, {40, 90}), 60)};
}

TEST(Attention, ForwardInDoubleIsSoftmax) {
  for (const Attention& a : cases()) {
    const auto qkv = normals(a.rows() * a.row(), 1, 2);
    const AttentionResult expected = naive_attention(a, qkv), actual = attention_in_double(a, qkv);
    EXPECT_LT(relative_error(actual.core, expected.core), 1e-13);
    EXPECT_LT(relative_error(actual.lse, expected.lse), 1e-13);
  }
}

TEST(Attention, BackwardInDoubleIsTheDerivative) {
  for (const Attention& a :
       {packed(2, 10, 2, 1, 8, {4, 6, 10}), packed(1, 70, 2, 1, 8, {66, 4}), packed(1, 12, 3, 3, 24, {12}),
        windowed(packed(1, 14, 2, 1, 8, {9, 5}), 4), windowed(packed(1, 70, 2, 1, 8, {70}), 5)}) {
    const auto qkv = normals(a.rows() * a.row(), 2);
    const auto weight = normals(a.rows() * a.heads * a.head_dim, 3);
    const auto gradient = attention_gradient_in_double(a, qkv, attention_in_double(a, qkv), weight);
    const auto expected =
        differences([&](const auto& x) { return dot(naive_attention(a, x).core, weight); }, qkv);
    EXPECT_LT(relative_error(gradient, expected), 1e-8);
  }
}

template <typename T>
void forward_and_backward_are_near_double(double forward_tolerance, double backward_tolerance) {
  ThreadPool pool(2);
  for (const Attention& a : cases()) {
    const auto qkv = stored<T>(normals(a.rows() * a.row(), 4));
    const auto d_core = stored<T>(normals(a.rows() * a.heads * a.head_dim, 5));
    const AttentionResult expected = naive_attention(a, doubles(qkv));
    const StoredAttention<T> actual = run_forward(pool, a, qkv);
    EXPECT_LT(relative_error(doubles(actual.core), expected.core), forward_tolerance);
    EXPECT_LT(relative_error(as_double(actual.lse), expected.lse), 1e-6);
    const auto gradient = attention_gradient_in_double(a, doubles(qkv), expected, doubles(d_core));
    EXPECT_LT(relative_error(doubles(run_backward(pool, a, qkv, actual, d_core)), gradient),
              backward_tolerance);
  }
}
TEST(Attention, InFp32IsNearDouble) {
  forward_and_backward_are_near_double<float>(1e-6, 2e-6);
}
// The backward reads the rounded output: its row sums carry that rounding.
TEST(Attention, InBf16IsNearDouble) {
  forward_and_backward_are_near_double<bfloat16>(0.004, 0.008);
}

TEST(Attention, PackedDocumentsEqualDocumentsRunAlone) {
  ThreadPool pool(1);
  const Attention all = packed(1, 300, 4, 2, 64, {100, 37, 163});
  const auto qkv = stored<float>(normals(all.rows() * all.row(), 6));
  const auto d_core = stored<float>(normals(all.rows() * all.heads * all.head_dim, 7));
  const auto together = run_forward(pool, all, qkv);
  const auto d_together = run_backward(pool, all, qkv, together, d_core);
  std::int64_t row = 0;
  for (const std::int64_t length : {100, 37, 163}) {
    const Attention one = packed(1, length, 4, 2, 64, {length});
    auto part = [&](const auto& x, std::int64_t width) {
      return std::vector(x.begin() + row * width, x.begin() + (row + length) * width);
    };
    const std::int64_t width = all.heads * all.head_dim;
    const auto alone = run_forward(pool, one, part(qkv, all.row()));
    EXPECT_LT(relative_error(doubles(part(together.core, width)), doubles(alone.core)), 1e-6);
    const auto d_alone = run_backward(pool, one, part(qkv, all.row()), alone, part(d_core, width));
    EXPECT_LT(relative_error(doubles(part(d_together, all.row())), doubles(d_alone)), 2e-6);
    row += length;
  }
}

TEST(Attention, FirstTokenOfADocumentReturnsItsValue) {
  ThreadPool pool(1);
  const Attention a = packed(1, 9, 2, 1, 8, {3});
  const auto qkv = stored<float>(normals(a.rows() * a.row(), 8, 10));
  const auto out = run_forward(pool, a, qkv);
  for (const std::int64_t row : {0, 3, 6}) {
    for (std::int64_t i = 0; i < 16; ++i) {
      EXPECT_EQ(out.core[static_cast<std::size_t>(row * 16 + i)],
                qkv[static_cast<std::size_t>(row * a.row() + 24 + i % 8)]);
    }
  }
}

// Scores of thousands must neither overflow nor lose the largest one.
TEST(Attention, LargeScoresStayFinite) {
  ThreadPool pool(1);
  const Attention a = packed(1, 130, 1, 1, 16, {130});
  const auto qkv = stored<float>(normals(a.rows() * a.row(), 9, 100));
  const AttentionResult expected = naive_attention(a, doubles(qkv));
  EXPECT_LT(relative_error(doubles(run_forward(pool, a, qkv).core), expected.core), 1e-3);
}

}  // namespace
}  // namespace lazytrain::test
