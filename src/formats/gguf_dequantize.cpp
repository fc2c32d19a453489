#include <cstring>
#include <utility>

#include "core/error.h"
#include "formats/gguf.h"
#include "formats/tensor_type.h"

namespace lazytrain {
namespace {

float load_half(const char* bytes) {
  std::uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return half_to_float(half);
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
      return {32, 2 + 16};
    case GgufType::q4_1:  // f16 scale, f16 minimum, 32 nibbles
      return {32, 2 + 2 + 16};
    case GgufType::q8_0:  // f16 scale, 32 signed bytes
      return {32, 2 + 32};
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

  const auto* in = reinterpret_cast<const char*>(bytes.data());
  for (float* values = out.data(); values != out.data() + out.size(); values += 32, in += block.bytes) {
    const float scale = load_half(in);
    if (tensor.type == GgufType::q8_0) {
      for (int i = 0; i < 32; ++i)
        values[i] = static_cast<float>(static_cast<std::int8_t>(in[2 + i])) * scale;
      continue;
    }
    // Byte i holds value i in its low nibble and value i + 16 in its high one.
    const bool has_minimum = tensor.type == GgufType::q4_1;
    const float minimum = has_minimum ? load_half(in + 2) : 0.f;
    const auto* nibbles = reinterpret_cast<const unsigned char*>(in) + (has_minimum ? 4 : 2);
    for (int i = 0; i < 16; ++i) {
      const int low = nibbles[i] & 0xF, high = nibbles[i] >> 4;
      if (has_minimum) {
        values[i] = static_cast<float>(low) * scale + minimum;
        values[i + 16] = static_cast<float>(high) * scale + minimum;
      } else {
        values[i] = static_cast<float>(low - 8) * scale;
        values[i + 16] = static_cast<float>(high - 8) * scale;
      }
    }
  }
}

}  // namespace lazytrain
