// Decoding against a cache: the bits of the full forward's last row.
#include "device/attention_support.h"

namespace lazytrain::test {
namespace {

template <typename T>
void decode_equals_last_row(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
                            std::int64_t window = 0) {
  ThreadPool pool(2);
  const std::int64_t tokens = 140, capacity = 150, width = heads * head_dim;
  const Attention one = windowed(packed(1, tokens, heads, kv_heads, head_dim, {tokens}), window);
  const auto qkv = stored<T>(normals(tokens * one.row(), 1));
  const StoredAttention<T> full = run_forward(pool, one, qkv);

  // Sequence 1 holds the tokens; 0 is not active; 2 has two tokens less.
  const std::int64_t entry = 2 * kv_heads * head_dim;
  std::vector<T> cache(static_cast<std::size_t>(3 * capacity * entry), from_float<T>(7));
  std::vector<std::int32_t> sequence, index;
  for (std::int32_t i = 0; i < tokens; ++i) {
    sequence.push_back(i < 130 ? 1 : -1);  // the last ten are decoded
    index.push_back(i);
  }
  cpu::run(pool, CacheFill{TypeOf<T>::value, tokens, capacity, heads, kv_heads, head_dim, qkv.data(),
                           sequence.data(), index.data(), cache.data()});
  for (std::int32_t& s : sequence) s = s == 1 ? 2 : -1;
  cpu::run(pool, CacheFill{TypeOf<T>::value, tokens, capacity, heads, kv_heads, head_dim, qkv.data(),
                           sequence.data(), index.data(), cache.data()});
  const std::vector<std::uint8_t> active{0, 1, 1};
  std::vector<T> core(static_cast<std::size_t>(3 * width));
  for (std::int32_t token = 130; token < tokens; ++token) {
    const std::vector<std::int32_t> length{0, token, token - 2};
    std::vector<T> rows(qkv.begin(), qkv.begin() + one.row());
    for (const std::int32_t t : {token, token - 2}) {
      rows.insert(rows.end(), qkv.begin() + t * one.row(), qkv.begin() + (t + 1) * one.row());
    }
    cpu::run(pool, AttentionDecode{TypeOf<T>::value, 3, capacity, heads, kv_heads, head_dim, rows.data(),
                                   length.data(), active.data(), cache.data(), core.data(), window});
    for (std::int64_t i = 0; i < width; ++i) {
      ASSERT_EQ(core[static_cast<std::size_t>(i)], T{});
      ASSERT_EQ(core[static_cast<std::size_t>(width + i)],
                full.core[static_cast<std::size_t>(token * width + i)]);
      ASSERT_EQ(core[static_cast<std::size_t>(2 * width + i)],
                full.core[static_cast<std::size_t>((token - 2) * width + i)]);
    }
  }
}

TEST(AttentionDecode, EqualsTheLastRowOfTheForward) {
  for (const auto set : instruction_sets()) {
    const UseKernels use(set);
    decode_equals_last_row<float>(6, 2, 64);
    decode_equals_last_row<bfloat16>(9, 3, 64);
    decode_equals_last_row<bfloat16>(20, 1, 24);
    decode_equals_last_row<float>(6, 2, 64, 5);
    decode_equals_last_row<float>(4, 2, 32, 1);
    decode_equals_last_row<bfloat16>(9, 3, 64, 64);
    decode_equals_last_row<bfloat16>(20, 1, 24, 100);
  }
}

TEST(AttentionDecode, RefusesAFullCache) {
  ThreadPool pool(1);
  const std::vector<float> qkv(24);
  std::vector<float> cache(4 * 16), core(8);
  const std::int32_t length = 4;
  const std::uint8_t active = 1;
  EXPECT_THROW(cpu::run(pool, AttentionDecode{DataType::f32, 1, 4, 1, 1, 8, qkv.data(), &length, &active,
                                              cache.data(), core.data()}),
               std::logic_error);
}

}  // namespace
}  // namespace lazytrain::test
