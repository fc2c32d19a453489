// Reading GGUF files (versions 2 and 3, little-endian): metadata and quantised tensors of llama.cpp models.
// The file is mapped; strings, arrays and tensors are read from the map when they are asked for.
//
// Layout: "GGUF", u32 version, u64 tensors, u64 pairs; the metadata pairs (string key, u32 type, value); the
// tensor entries (name, u32 rank, u64 sizes with the fastest first, u32 type, u64 offset); the payload,
// aligned to `general.alignment` (32 without the key). All counts, lengths and offsets are checked on
// opening, and names and keys are unique.
//
// Strings are bytes: tokens need not be UTF-8. All faults are Error(model_file) naming the file and the key
// or tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/file.h"

namespace lazytrain {

// The element types that are read, with ggml's numbers. A file that holds any other is refused by that name.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};
inline constexpr GgufType kGgufTypes[] = {GgufType::f32,  GgufType::f16,  GgufType::bf16, GgufType::q4_0,
                                          GgufType::q4_1, GgufType::q5_0, GgufType::q5_1, GgufType::q8_0,
                                          GgufType::q4_k, GgufType::q5_k, GgufType::q6_k};

[[nodiscard]] const char* to_string(GgufType type);

// Quantised rows are sequences of blocks; for the other types a block is one element.
struct GgufBlock {
  std::int64_t elements = 1;
  std::int64_t bytes = 1;
};
[[nodiscard]] GgufBlock block_of(GgufType type);

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t>
      shape;  // row-major, outermost first, as PyTorch has it (the file's order reversed)
  std::span<const std::byte> bytes;

  // Rows lie one behind the other; a row is the last dimension and never shares a quantisation block.
  [[nodiscard]] std::int64_t row_length() const { return shape.back(); }
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t elements() const { return rows() * row_length(); }
};

// A metadata value as it lies in the file.
struct GgufValue {
  bool is_array = false;
  std::uint32_t type = 0;   // GGUF's number of the value's type, of the elements' in an array
  std::uint64_t count = 1;  // elements
  std::string_view bytes;

  [[nodiscard]] const char* type_name() const;  // "u32", "string"...
};

class Gguf {
 public:
  explicit Gguf(const std::filesystem::path& path);

  [[nodiscard]] std::uint32_t version() const { return version_; }
  [[nodiscard]] std::uint64_t alignment() const { return alignment_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // In the order of the file.
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const GgufTensor* find(std::string_view name) const;
  [[nodiscard]] const GgufTensor& at(std::string_view name) const;

  // Metadata keys in the order of the file.
  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  [[nodiscard]] bool has(std::string_view key) const { return values_.contains(std::string(key)); }
  // The type of a key's value, as it is called in errors: "u32", "string", "array of string"...
  [[nodiscard]] std::string type_of(std::string_view key) const;

  // get_* demand the key; find_* give nullopt where it is absent. A value of another type is an error in
  // both. Integers of any width are converted where their value fits; get_f32 takes f32 and f64.
  [[nodiscard]] std::uint32_t get_u32(std::string_view key) const;
  [[nodiscard]] std::int64_t get_i64(std::string_view key) const;
  [[nodiscard]] float get_f32(std::string_view key) const;
  [[nodiscard]] bool get_bool(std::string_view key) const;
  [[nodiscard]] std::string get_string(std::string_view key) const;
  [[nodiscard]] std::optional<std::uint32_t> find_u32(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> find_i64(std::string_view key) const;
  [[nodiscard]] std::optional<float> find_f32(std::string_view key) const;
  [[nodiscard]] std::optional<bool> find_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string> find_string(std::string_view key) const;
  // Arrays; the views of get_strings point into the map.
  [[nodiscard]] std::vector<std::string_view> get_strings(std::string_view key) const;
  [[nodiscard]] std::vector<std::int64_t> get_ints(std::string_view key) const;
  [[nodiscard]] std::vector<float> get_floats(std::string_view key) const;

 private:
  [[nodiscard]] const GgufValue* find_value(std::string_view key) const;
  [[nodiscard]] const GgufValue& value(std::string_view key) const;
  [[noreturn]] void refuse_type(std::string_view key, const char* wanted) const;

  std::filesystem::path path_;
  MappedFile map_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, GgufValue> values_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> lookup_;
};

// The tensor's values as floats, exactly as ggml defines its types; out.size() = tensor.elements().
void dequantize(const GgufTensor& tensor, std::span<float> out);
// Rows [first, first + count) only; out.size() = count * tensor.row_length().
void dequantize_rows(const GgufTensor& tensor, std::int64_t first, std::int64_t count, std::span<float> out);

}  // namespace lazytrain
