#include <cstring>
#include <limits>

#include "core/error.h"
#include "formats/gguf.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr auto kCode = ExitCode::model_file;
constexpr std::uint32_t kFloat32 = 6, kBool = 7, kString = 8, kFloat64 = 12;

template <typename Number>
Number load(const char* bytes) {
  Number value;
  std::memcpy(&value, bytes, sizeof(Number));
  return value;
}

// The integer of this type at `bytes`, where it is one that 63 bits and a sign hold.
std::optional<std::int64_t> load_integer(std::uint32_t type, const char* bytes) {
  switch (type) {
    case 0:
      return load<std::uint8_t>(bytes);
    case 1:
      return load<std::int8_t>(bytes);
    case 2:
      return load<std::uint16_t>(bytes);
    case 3:
      return load<std::int16_t>(bytes);
    case 4:
      return load<std::uint32_t>(bytes);
    case 5:
      return load<std::int32_t>(bytes);
    case 10: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    case 11:
      return load<std::int64_t>(bytes);
    default:
      return std::nullopt;
  }
}

std::optional<float> load_float(std::uint32_t type, const char* bytes) {
  if (type == kFloat32) return load<float>(bytes);
  if (type == kFloat64) return static_cast<float>(load<double>(bytes));
  return std::nullopt;
}

}  // namespace

const GgufValue* Gguf::find_value(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

const GgufValue& Gguf::value(std::string_view key) const {
  const GgufValue* found = find_value(key);
  if (found == nullptr)
    fail(kCode, "{}: the metadata key {} is missing; convert the file anew", path_.string(), in_quotes(key));
  return *found;
}

std::string Gguf::type_of(std::string_view key) const {
  const GgufValue& found = value(key);
  return (found.is_array ? "array of " : "") + std::string(found.type_name());
}

void Gguf::refuse_type(std::string_view key, const char* wanted) const {
  fail(kCode, "{}: the metadata key {} should be {}, but is {}", path_.string(), in_quotes(key), wanted,
       type_of(key));
}

std::int64_t Gguf::get_i64(std::string_view key) const {
  const GgufValue& found = value(key);
  const auto number = found.is_array ? std::nullopt : load_integer(found.type, found.bytes.data());
  if (!number) refuse_type(key, "an integer within 64 bits");
  return *number;
}

std::uint32_t Gguf::get_u32(std::string_view key) const {
  const std::int64_t number = get_i64(key);
  if (number < 0 || number > std::numeric_limits<std::uint32_t>::max()) {
    fail(kCode,
         "{}: the metadata key {} is {}, outside of what 32 bits without sign hold; convert the file anew",
         path_.string(), in_quotes(key), number);
  }
  return static_cast<std::uint32_t>(number);
}

float Gguf::get_f32(std::string_view key) const {
  const GgufValue& found = value(key);
  const auto number = found.is_array ? std::nullopt : load_float(found.type, found.bytes.data());
  if (!number) refuse_type(key, "a floating-point number");
  return *number;
}

bool Gguf::get_bool(std::string_view key) const {
  const GgufValue& found = value(key);
  if (found.is_array || found.type != kBool) refuse_type(key, "a bool");
  return found.bytes[0] != 0;
}

std::string Gguf::get_string(std::string_view key) const {
  const GgufValue& found = value(key);
  if (found.is_array || found.type != kString) refuse_type(key, "a string");
  return std::string(found.bytes.substr(sizeof(std::uint64_t)));
}

std::optional<std::uint32_t> Gguf::find_u32(std::string_view key) const {
  return has(key) ? std::optional(get_u32(key)) : std::nullopt;
}
std::optional<std::int64_t> Gguf::find_i64(std::string_view key) const {
  return has(key) ? std::optional(get_i64(key)) : std::nullopt;
}
std::optional<float> Gguf::find_f32(std::string_view key) const {
  return has(key) ? std::optional(get_f32(key)) : std::nullopt;
}
std::optional<bool> Gguf::find_bool(std::string_view key) const {
  return has(key) ? std::optional(get_bool(key)) : std::nullopt;
}
std::optional<std::string> Gguf::find_string(std::string_view key) const {
  return has(key) ? std::optional(get_string(key)) : std::nullopt;
}

std::vector<std::string_view> Gguf::get_strings(std::string_view key) const {
  const GgufValue& found = value(key);
  if (!found.is_array || found.type != kString) refuse_type(key, "an array of strings");
  std::vector<std::string_view> strings;
  strings.reserve(found.count);  // at most an eighth of the file: every string has its length field
  std::string_view rest = found.bytes;
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const auto length = load<std::uint64_t>(rest.data());
    strings.push_back(rest.substr(sizeof(length), length));
    rest.remove_prefix(sizeof(length) + length);
  }
  return strings;
}

std::vector<std::int64_t> Gguf::get_ints(std::string_view key) const {
  const GgufValue& found = value(key);
  std::vector<std::int64_t> numbers;
  if (!found.is_array) refuse_type(key, "an array of integers");
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const auto number = load_integer(found.type, found.bytes.data() + i * (found.bytes.size() / found.count));
    if (!number) refuse_type(key, "an array of integers within 64 bits");
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<float> Gguf::get_floats(std::string_view key) const {
  const GgufValue& found = value(key);
  std::vector<float> numbers;
  if (!found.is_array) refuse_type(key, "an array of floating-point numbers");
  for (std::uint64_t i = 0; i < found.count; ++i) {
    const auto number = load_float(found.type, found.bytes.data() + i * (found.bytes.size() / found.count));
    if (!number) refuse_type(key, "an array of floating-point numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace lazytrain
