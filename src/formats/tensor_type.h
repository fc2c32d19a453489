// Element types of tensors in safetensors files: names, sizes, and conversion of the floating-point ones that
// models are trained in. Payloads may be unaligned, so everything here reads and writes through memcpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// Every type the safetensors format names. Those below 8 bits are packed without gaps.
enum class TensorType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64
};

// The name in the file: "BF16", "F32", "BOOL"...
[[nodiscard]] const char* to_string(TensorType type);
[[nodiscard]] std::optional<TensorType> parse_tensor_type(std::string_view name);
[[nodiscard]] int bits_per_element(TensorType type);

// Elements of a shape; 1 for a scalar (empty shape). nullopt where it does not fit 63 bits or a size is
// negative.
[[nodiscard]] std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);
// Bytes of a tensor; nullopt where they do not fit 63 bits or are not whole.
[[nodiscard]] std::optional<std::int64_t> byte_count(TensorType type, std::span<const std::int64_t> shape);
// "[576, 1536]"
[[nodiscard]] std::string format_shape(std::span<const std::int64_t> shape);

// Exact widening of IEEE binary16, and its inverse rounded to nearest, ties to even (overflow gives
// infinity).
[[nodiscard]] float half_to_float(std::uint16_t half);
[[nodiscard]] std::uint16_t float_to_half(float x);

// F32, F16, BF16 and F64 elements as floats (F64 rounded). bytes.size() = out.size() * element size.
// Any other type is Error(model_file) naming it.
void convert_to_float(TensorType type, std::span<const std::byte> bytes, std::span<float> out);
// Floats as F32, F16 or BF16 (nearest, ties to even) or F64 elements. Exact for values that came from that
// type.
void convert_from_float(std::span<const float> values, TensorType type, std::span<std::byte> out);

}  // namespace lazytrain
