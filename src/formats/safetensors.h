// Reading model weights in the safetensors format: one file, or a Hugging Face folder with model.safetensors
// or with model.safetensors.index.json and the shards it names. Files are mapped, never copied: a TensorView
// points into the map, whose pages the system loads on use and may drop again.
//
// The format: u64 little-endian N; N bytes of JSON {name: {dtype, shape, data_offsets}}, "__metadata__" being
// a map of strings; then the payload. Every rule is checked on opening, so that later code may trust the
// views: header and offsets within the file, payload tiled without hole or overlap to its last byte, sizes
// equal to shape x type, no name twice. Payloads may start at any byte address: read them with memcpy
// (tensor_type.h does).
//
// All faults are Error(model_file) and name the file and the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/file.h"
#include "formats/tensor_type.h"

namespace lazytrain {

inline constexpr const char* kSafetensorsFile = "model.safetensors";
inline constexpr const char* kSafetensorsIndex = "model.safetensors.index.json";

struct TensorView {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::int64_t> shape;  // row-major, outermost first; empty for a scalar
  std::span<const std::byte> bytes;
  int shard = 0;  // index into Safetensors::shards()

  [[nodiscard]] std::int64_t elements() const;
};

struct SafetensorsShard {
  std::string file;                             // name inside the folder
  std::map<std::string, std::string> metadata;  // "__metadata__"; empty where the file has none
  MappedFile map;
};

class Safetensors {
 public:
  // A folder (index before single file; what is not part of the model is left out with a notice) or one file.
  [[nodiscard]] static Safetensors open(const std::filesystem::path& path);
  [[nodiscard]] static Safetensors open_file(const std::filesystem::path& file);
  [[nodiscard]] static Safetensors open_folder(const std::filesystem::path& folder);

  // Shard after shard, each in the order of its payload.
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<SafetensorsShard>& shards() const { return shards_; }
  // True where the folder has an index (even one that names a single shard).
  [[nodiscard]] bool indexed() const { return indexed_; }
  // The folder or file that was opened.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  // nullptr where there is no such tensor.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  // Error(model_file) where there is no such tensor.
  [[nodiscard]] const TensorView& at(std::string_view name) const;

 private:
  void add_shard(const std::filesystem::path& file);
  void build_lookup();

  std::filesystem::path path_;
  bool indexed_ = false;
  std::vector<SafetensorsShard> shards_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, std::size_t> lookup_;
};

}  // namespace lazytrain
