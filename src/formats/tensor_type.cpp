#include "formats/tensor_type.h"

#include <array>
#include <bit>
#include <cstring>

#include "core/bfloat16.h"
#include "core/error.h"

namespace lazytrain {
namespace {

struct TypeFacts {
  TensorType type;
  const char* name;
  int bits;
};

// In the order of the enumeration, so that the value is the index.
constexpr std::array<TypeFacts, 22> kTypes = {{{TensorType::boolean, "BOOL", 8},
                                               {TensorType::f4, "F4", 4},
                                               {TensorType::f6_e2m3, "F6_E2M3", 6},
                                               {TensorType::f6_e3m2, "F6_E3M2", 6},
                                               {TensorType::u8, "U8", 8},
                                               {TensorType::i8, "I8", 8},
                                               {TensorType::f8_e5m2, "F8_E5M2", 8},
                                               {TensorType::f8_e4m3, "F8_E4M3", 8},
                                               {TensorType::f8_e8m0, "F8_E8M0", 8},
                                               {TensorType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8},
                                               {TensorType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8},
                                               {TensorType::i16, "I16", 16},
                                               {TensorType::u16, "U16", 16},
                                               {TensorType::f16, "F16", 16},
                                               {TensorType::bf16, "BF16", 16},
                                               {TensorType::i32, "I32", 32},
                                               {TensorType::u32, "U32", 32},
                                               {TensorType::f32, "F32", 32},
                                               {TensorType::c64, "C64", 64},
                                               {TensorType::f64, "F64", 64},
                                               {TensorType::i64, "I64", 64},
                                               {TensorType::u64, "U64", 64}}};
static_assert(kTypes.back().type == TensorType::u64 &&
              static_cast<std::size_t>(TensorType::u64) + 1 == kTypes.size());

template <typename Element, typename Convert>
void widen(std::span<const std::byte> bytes, std::span<float> out, Convert convert) {
  check(bytes.size() == out.size() * sizeof(Element), "tensor bytes match the number of floats");
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    out[i] = convert(element);
  }
}

template <typename Element, typename Convert>
void narrow(std::span<const float> values, std::span<std::byte> out, Convert convert) {
  check(out.size() == values.size() * sizeof(Element), "tensor bytes match the number of floats");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Element element = convert(values[i]);
    std::memcpy(out.data() + i * sizeof(Element), &element, sizeof(Element));
  }
}

[[noreturn]] void refuse(TensorType type) {
  fail(ExitCode::model_file, "tensors of type {} cannot be trained; F32, F16, BF16 and F64 can",
       to_string(type));
}

}  // namespace

const char* to_string(TensorType type) {
  return kTypes[static_cast<std::size_t>(type)].name;
}

int bits_per_element(TensorType type) {
  return kTypes[static_cast<std::size_t>(type)].bits;
}

std::optional<TensorType> parse_tensor_type(std::string_view name) {
  for (const TypeFacts& facts : kTypes) {
    if (name == facts.name) return facts.type;
  }
  return std::nullopt;
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    // An overflow beside a zero is still a shape no reader can index: refused like any other.
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, size, &count)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : count;
}

std::optional<std::int64_t> byte_count(TensorType type, std::span<const std::int64_t> shape) {
  const auto count = element_count(shape);
  std::int64_t bits = 0;
  if (!count || __builtin_mul_overflow(*count, bits_per_element(type), &bits) || bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

std::string format_shape(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    if (text.size() > 80) return text + "...]";
    text += std::to_string(size);
  }
  return text + "]";
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1Fu;
  const std::uint32_t fraction = half & 0x3FFu;
  if (exponent == 0) {
    // Subnormal: a multiple of 2^-24. No subnormal float is involved, so flush-to-zero modes do no harm.
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

std::uint16_t float_to_half(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude >= 0x477FF000u) {  // 65520 and above round to infinity
    half = 0x7C00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 lets the adder round to multiples of 2^-24
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

void convert_to_float(TensorType type, std::span<const std::byte> bytes, std::span<float> out) {
  switch (type) {
    case TensorType::f32:
      return widen<float>(bytes, out, [](float x) { return x; });
    case TensorType::bf16:
      return widen<bfloat16>(bytes, out, [](bfloat16 x) { return to_float(x); });
    case TensorType::f16:
      return widen<std::uint16_t>(bytes, out, half_to_float);
    case TensorType::f64:
      return widen<double>(bytes, out, [](double x) { return static_cast<float>(x); });
    default:
      refuse(type);
  }
}

void convert_from_float(std::span<const float> values, TensorType type, std::span<std::byte> out) {
  switch (type) {
    case TensorType::f32:
      return narrow<float>(values, out, [](float x) { return x; });
    case TensorType::bf16:
      return narrow<bfloat16>(values, out, [](float x) { return to_bfloat16(x); });
    case TensorType::f16:
      return narrow<std::uint16_t>(values, out, float_to_half);
    case TensorType::f64:
      return narrow<double>(values, out, [](float x) { return static_cast<double>(x); });
    default:
      refuse(type);
  }
}

}  // namespace lazytrain
