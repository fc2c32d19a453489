// Every kernel gives the same bits on every instruction set, for every number of threads, and whether slots
// come in one call or one by one.
#include <cstring>

#include "device/attention_support.h"

namespace lazytrain::test {
namespace {

// What all kernels write, one after another.
struct Bits {
  std::vector<unsigned char> bytes;
  template <typename T>
  void add(const std::vector<T>& x) {
    const auto* p = reinterpret_cast<const unsigned char*>(x.data());
    bytes.insert(bytes.end(), p, p + x.size() * sizeof(T));
  }
  bool operator==(const Bits&) const = default;
};

constexpr std::int64_t kSlots = 4, kSlotRows = 70, kRows = kSlots * kSlotRows;

// The rows [first, first + count) of x.
template <typename T>
std::vector<T> rows_of(const std::vector<T>& x, std::int64_t first, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(x.size()) / kRows;
  return {x.begin() + first * width, x.begin() + (first + count) * width};
}

// Row kernels over all slots, `together` slots a call. Sums over rows continue from call to call.
template <typename T>
Bits row_kernels(int threads, std::int64_t together, std::int64_t width) {
  ThreadPool pool(threads);
  const DataType type = TypeOf<T>::value;
  const auto x = stored<T>(normals(kRows * width, 1, 3)), weight = stored<T>(normals(width, 2)),
             dy = stored<T>(normals(kRows * width, 3)), wide = stored<T>(normals(kRows * 2 * width, 4, 4));
  std::vector<float> dweight(static_cast<std::size_t>(width)), dbias(static_cast<std::size_t>(width));
  const std::int64_t n = together * kSlotRows;
  std::vector<std::vector<T>> out(6);
  std::vector<float> losses;
  std::vector<std::int32_t> best;
  for (std::int64_t first = 0; first < kRows; first += n) {
    auto append = [&](int which, const std::vector<T>& part) {
      out[static_cast<std::size_t>(which)].insert(out[static_cast<std::size_t>(which)].end(), part.begin(),
                                                  part.end());
    };
    const auto x1 = rows_of(x, first, n), dy1 = rows_of(dy, first, n), wide1 = rows_of(wide, first, n);
    std::vector<T> y(x1.size()), dwide(wide1.size());
    cpu::run(pool, RmsNormForward{type, n, width, 1e-5f, x1.data(), weight.data(), y.data()});
    append(0, y);
    cpu::run(pool, RmsNormBackward{type, n, kSlotRows, width, 1e-5f, x1.data(), weight.data(), dy1.data(),
                                   y.data(), y.data(), dweight.data()});
    append(1, y);
    cpu::run(pool, BiasGradient{type, n, kSlotRows, width, dy1.data(), dbias.data()});
    cpu::run(pool, SwigluForward{type, n, width, wide1.data(), y.data()});
    append(2, y);
    cpu::run(pool, SwigluBackward{type, n, width, wide1.data(), dy1.data(), dwide.data()});
    append(3, dwide);
    cpu::run(pool, Add{type, n * width, x1.data(), dy1.data(), y.data()});
    append(4, y);
    std::vector<std::int32_t> target, argmax(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) target.push_back(static_cast<std::int32_t>((first + i) % width));
    std::vector<float> loss(static_cast<std::size_t>(n));
    std::vector<float> scores(static_cast<std::size_t>(n * kSoftmaxScores));
    for (const bool fresh : {true, false})
      cpu::run(pool, SoftmaxScores{type, n, 0, width, x1.data(), target.data(), scores.data(), fresh});
    cpu::run(pool, CrossEntropyLoss{n, scores.data(), target.data(), loss.data()});
    cpu::run(pool, CrossEntropyGradient{type, n, 0, width, x1.data(), target.data(), scores.data(), 0.3f,
                                        y.data()});
    append(5, y);
    losses.insert(losses.end(), loss.begin(), loss.end());
    cpu::run(pool, ArgMax{type, n, width, x1.data(), argmax.data()});
    best.insert(best.end(), argmax.begin(), argmax.end());
  }
  Bits bits;
  for (const auto& part : out) bits.add(part);
  bits.add(dweight);
  bits.add(dbias);
  bits.add(losses);
  bits.add(best);
  std::vector<float> gradient = stored<float>(normals(kNormChunk + 777, 5));
  std::vector<T> converted(gradient.size());
  std::vector<double> partial(2);
  cpu::run(pool, OffloadGradient{type, kNormChunk + 777, gradient.data(), converted.data(), partial.data()});
  bits.add(converted);
  bits.add(partial);
  return bits;
}

template <typename T>
Bits attention_kernels(int threads, std::int64_t together, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t head_dim, std::int64_t window = 0) {
  ThreadPool pool(threads);
  const Attention all = packed(kSlots, kSlotRows, heads, kv_heads, head_dim, {50, 13, 70, 5});
  auto qkv = stored<T>(normals(kRows * all.row(), 1, 2));
  const auto d_core = stored<T>(normals(kRows * heads * head_dim, 2));
  const auto cosine = stored<float>(normals(kSlotRows * head_dim / 2, 3)),
             sine = stored<float>(normals(kSlotRows * head_dim / 2, 4));
  const auto head_weights = stored<T>(normals(2 * head_dim, 5));
  std::vector<float> d_weights(static_cast<std::size_t>(2 * head_dim));
  Bits norm, d_norm, rotated, core, d_qkv;
  for (std::int64_t slot = 0; slot < kSlots; slot += together) {
    const std::int64_t first = slot * kSlotRows, n = together * kSlotRows;
    Attention part{together, kSlotRows, heads, kv_heads, head_dim, rows_of(all.document_start, first, n),
                   window};
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < n; ++i)
      positions.push_back(static_cast<std::int32_t>(i % kSlotRows) -
                          part.document_start[static_cast<std::size_t>(i)]);
    auto x = rows_of(qkv, first, n);
    std::vector<T> normed(x.size()), d_normed = x;
    cpu::run(pool, HeadNormForward{TypeOf<T>::value, n, heads, kv_heads, head_dim, 1e-6f, x.data(),
                                   head_weights.data(), head_weights.data() + head_dim, normed.data()});
    cpu::run(pool, HeadNormBackward{TypeOf<T>::value, n, kSlotRows, heads, kv_heads, head_dim, 1e-6f,
                                    normed.data(), head_weights.data(), head_weights.data() + head_dim,
                                    d_normed.data(), d_weights.data(), d_weights.data() + head_dim});
    norm.add(normed);
    d_norm.add(d_normed);
    cpu::run(pool, Rope{TypeOf<T>::value, n, heads, kv_heads, head_dim, positions.data(), cosine.data(),
                        sine.data(), false, x.data()});
    const auto forward = run_forward(pool, part, x);
    rotated.add(x);
    core.add(forward.core);
    d_qkv.add(run_backward(pool, part, x, forward, rows_of(d_core, first, n)));
  }
  for (const Bits* bits : {&norm, &d_norm}) rotated.add(bits->bytes);
  rotated.add(core.bytes);
  rotated.add(d_qkv.bytes);
  rotated.add(d_weights);
  return rotated;
}

template <typename Run>
void same_everywhere(const Run& run_with) {
  const auto sets = instruction_sets();
  Bits expected;
  {
    const UseKernels use(sets.front());
    expected = run_with(1, kSlots);
  }
  ASSERT_FALSE(expected.bytes.empty());
  for (const auto set : sets) {
    const UseKernels use(set);
    for (const int threads : {1, 2, 3}) {
      for (const std::int64_t together : {std::int64_t{1}, std::int64_t{2}, kSlots}) {
        const Bits actual = run_with(threads, together);
        EXPECT_TRUE(actual == expected) << "set " << static_cast<int>(set) << ", " << threads << " threads, "
                                        << together << " slots a call";
      }
    }
  }
}

TEST(KernelBits, RowKernels) {
  same_everywhere(
      [](int threads, std::int64_t together) { return row_kernels<float>(threads, together, 72); });
  same_everywhere(
      [](int threads, std::int64_t together) { return row_kernels<bfloat16>(threads, together, 201); });
  same_everywhere(
      [](int threads, std::int64_t together) { return row_kernels<bfloat16>(threads, together, 576); });
}

TEST(KernelBits, AttentionKernels) {
  same_everywhere([](int threads, std::int64_t together) {
    return attention_kernels<float>(threads, together, 3, 1, 24);
  });
  same_everywhere([](int threads, std::int64_t together) {
    return attention_kernels<bfloat16>(threads, together, 6, 3, 64);
  });
  same_everywhere([](int threads, std::int64_t together) {
    return attention_kernels<bfloat16>(threads, together, 5, 1, 128);
  });
  same_everywhere([](int threads, std::int64_t together) {
    return attention_kernels<bfloat16>(threads, together, 6, 3, 64, 20);
  });
}

}  // namespace
}  // namespace lazytrain::test
