// The values of ggml's types, in its own order of operations. A block of the first generation has 32 values;
// a "K" block has 256 in sub-blocks with scales of their own.
#include <cstring>
#include <utility>

#include "core/error.h"
#include "formats/gguf.h"
#include "formats/tensor_type.h"

namespace lazytrain {
namespace {

constexpr int kBlock = 32;        // values of a block, and of a sub-block of Q4_K and Q5_K
constexpr int kSuperBlock = 256;  // values of a K block

float load_half(const std::byte* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return half_to_float(half);
}
int byte_at(const std::byte* bytes, int i) {
  return std::to_integer<int>(bytes[i]);
}

// In all of these a byte holds value i in its low nibble, and in its high one the value a half (or a
// sub-block) further on.

void q8_0(const std::byte* in, float* out) {
  const float scale = load_half(in);
  for (int i = 0; i < kBlock; ++i)
    out[i] = static_cast<float>(static_cast<std::int8_t>(byte_at(in, 2 + i))) * scale;
}

void q4_0(const std::byte* in, float* out) {
  const float scale = load_half(in);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int both = byte_at(in, 2 + i);
    out[i] = static_cast<float>((both & 0xF) - 8) * scale;
    out[i + kBlock / 2] = static_cast<float>((both >> 4) - 8) * scale;
  }
}

void q4_1(const std::byte* in, float* out) {
  const float scale = load_half(in), minimum = load_half(in + 2);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int both = byte_at(in, 4 + i);
    out[i] = static_cast<float>(both & 0xF) * scale + minimum;
    out[i + kBlock / 2] = static_cast<float>(both >> 4) * scale + minimum;
  }
}

// The fifth bit of value i is bit i of a number of 32 bits.
std::pair<int, int> five_bits(std::uint32_t fifth, int both, int i) {
  const auto bit = [&](int at) { return static_cast<int>((fifth >> at) & 1U) << 4; };
  return {(both & 0xF) | bit(i), (both >> 4) | bit(i + kBlock / 2)};
}

void q5_0(const std::byte* in, float* out) {
  const float scale = load_half(in);
  std::uint32_t fifth;
  std::memcpy(&fifth, in + 2, sizeof(fifth));
  for (int i = 0; i < kBlock / 2; ++i) {
    const auto [low, high] = five_bits(fifth, byte_at(in, 6 + i), i);
    out[i] = static_cast<float>(low - 16) * scale;
    out[i + kBlock / 2] = static_cast<float>(high - 16) * scale;
  }
}

void q5_1(const std::byte* in, float* out) {
  const float scale = load_half(in), minimum = load_half(in + 2);
  std::uint32_t fifth;
  std::memcpy(&fifth, in + 4, sizeof(fifth));
  for (int i = 0; i < kBlock / 2; ++i) {
    const auto [low, high] = five_bits(fifth, byte_at(in, 8 + i), i);
    out[i] = static_cast<float>(low) * scale + minimum;
    out[i + kBlock / 2] = static_cast<float>(high) * scale + minimum;
  }
}

// Q4_K and Q5_K pack eight scales and eight minimums of six bits into twelve bytes: those of the first four
// sub-blocks in the low six bits of bytes 0-3 and 4-7; of the others four bits in the nibbles of bytes 8-11,
// and their upper two in the top bits of bytes 0-7.
std::pair<int, int> scale_and_minimum(const std::byte* packed, int sub_block) {
  const auto at = [&](int i) { return byte_at(packed, i); };
  if (sub_block < 4) return {at(sub_block) & 63, at(sub_block + 4) & 63};
  return {(at(sub_block + 4) & 0xF) | ((at(sub_block - 4) >> 6) << 4),
          (at(sub_block + 4) >> 4) | ((at(sub_block) >> 6) << 4)};
}

// `fifth`: 32 bytes whose bit s is the fifth of the values of sub-block s; null where there is none.
void sub_blocks(const std::byte* in, const std::byte* fifth, const std::byte* nibbles, float* out) {
  const float scale = load_half(in), minimum = load_half(in + 2);
  for (int sub_block = 0; sub_block < kSuperBlock / kBlock; ++sub_block) {
    const auto [own_scale, own_minimum] = scale_and_minimum(in + 4, sub_block);
    const float step = scale * static_cast<float>(own_scale),
                least = minimum * static_cast<float>(own_minimum);
    const std::byte* pair = nibbles + sub_block / 2 * kBlock;
    for (int i = 0; i < kBlock; ++i) {
      int value = sub_block % 2 == 0 ? byte_at(pair, i) & 0xF : byte_at(pair, i) >> 4;
      if (fifth != nullptr) value |= ((byte_at(fifth, i) >> sub_block) & 1) << 4;
      out[sub_block * kBlock + i] = step * static_cast<float>(value) - least;
    }
  }
}

void q4_k(const std::byte* in, float* out) {
  sub_blocks(in, nullptr, in + 16, out);
}
void q5_k(const std::byte* in, float* out) {
  sub_blocks(in, in + 16, in + 48, out);
}

// 128 bytes of lower four bits, 64 of upper two, 16 signed scales of 16 values each, the scale of all. Each
// half of 128 values takes 64 and 32 of these bytes: values 0-63 the low nibbles, 64-127 the high ones; the
// upper bits of values i, i + 32, i + 64 and i + 96 share a byte.
void q6_k(const std::byte* in, float* out) {
  constexpr int kHalf = 128;
  const std::byte* scales = in + 192;
  const float scale = load_half(in + 208);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int half = i / kHalf, within = i % kHalf;
    const int both = byte_at(in, half * 64 + within % 64);
    const int lower = within < 64 ? both & 0xF : both >> 4;
    const int upper = (byte_at(in, kHalf + half * 32 + within % 32) >> (within / 32 * 2)) & 3;
    const float step = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(scales, i / 16)));
    out[i] = step * static_cast<float>((lower | (upper << 4)) - 32);
  }
}

using Dequantize = void (*)(const std::byte* in, float* out);

Dequantize dequantizer(GgufType type) {
  switch (type) {
    case GgufType::q4_0:
      return q4_0;
    case GgufType::q4_1:
      return q4_1;
    case GgufType::q5_0:
      return q5_0;
    case GgufType::q5_1:
      return q5_1;
    case GgufType::q8_0:
      return q8_0;
    case GgufType::q4_k:
      return q4_k;
    case GgufType::q5_k:
      return q5_k;
    case GgufType::q6_k:
      return q6_k;
    case GgufType::f32:
    case GgufType::f16:
    case GgufType::bf16:
      break;
  }
  return nullptr;
}

}  // namespace

GgufBlock block_of(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return {1, 4};
    case GgufType::f16:
    case GgufType::bf16:
      return {1, 2};
    case GgufType::q4_0:  // f16 scale, 32 nibbles
      return {kBlock, 2 + 16};
    case GgufType::q4_1:  // f16 scale, f16 minimum, 32 nibbles
      return {kBlock, 2 + 2 + 16};
    case GgufType::q5_0:  // f16 scale, 32 fifth bits, 32 nibbles
      return {kBlock, 2 + 4 + 16};
    case GgufType::q5_1:  // f16 scale, f16 minimum, 32 fifth bits, 32 nibbles
      return {kBlock, 2 + 2 + 4 + 16};
    case GgufType::q8_0:  // f16 scale, 32 signed bytes
      return {kBlock, 2 + 32};
    case GgufType::q4_k:  // f16 scale and minimum, 12 bytes of both for sub-blocks, 256 nibbles
      return {kSuperBlock, 2 + 2 + 12 + 128};
    case GgufType::q5_k:  // the same, with 256 fifth bits before the nibbles
      return {kSuperBlock, 2 + 2 + 12 + 32 + 128};
    case GgufType::q6_k:  // 256 nibbles, 256 pairs of upper bits, 16 signed scales, f16 scale
      return {kSuperBlock, 128 + 64 + 16 + 2};
  }
  return {1, 1};
}

void dequantize(const GgufTensor& tensor, std::span<float> out) {
  dequantize_rows(tensor, 0, tensor.rows(), out);
}

void dequantize_rows(const GgufTensor& tensor, std::int64_t first, std::int64_t count, std::span<float> out) {
  check(first >= 0 && count >= 0 && first <= tensor.rows() - count, "the rows to dequantise exist");
  check(std::cmp_equal(out.size(), count * tensor.row_length()), "one float per value");
  const GgufBlock block = block_of(tensor.type);
  const auto row_bytes = static_cast<std::size_t>(tensor.row_length() / block.elements * block.bytes);
  const auto bytes = tensor.bytes.subspan(static_cast<std::size_t>(first) * row_bytes,
                                          static_cast<std::size_t>(count) * row_bytes);
  if (tensor.type == GgufType::f32) return convert_to_float(TensorType::f32, bytes, out);
  if (tensor.type == GgufType::f16) return convert_to_float(TensorType::f16, bytes, out);
  if (tensor.type == GgufType::bf16) return convert_to_float(TensorType::bf16, bytes, out);

  const Dequantize values_of = dequantizer(tensor.type);
  const std::byte* in = bytes.data();
  for (std::size_t at = 0; at < out.size(); at += static_cast<std::size_t>(block.elements), in += block.bytes)
    values_of(in, out.data() + at);
}

}  // namespace lazytrain
