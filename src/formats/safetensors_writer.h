// Writing model weights in the safetensors format: same names, types, shapes, order and shards as the model
// that was read, or a layout of one's own. Bytes stream through: the writer asks for one tensor after the
// other and writes the pieces it is handed, so no second copy of the model exists. Files appear under their
// names only when all of them are complete and on the disk; until then an older model in the folder is
// untouched.
//
// Faults of the disk are Error(disk) with path and reason; too little free space is found before the first
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "formats/tensor_type.h"

namespace lazytrain {

struct TensorInfo {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t bytes() const;  // Error(model_file) where the size overflows
};

struct ShardLayout {
  std::string file;                             // name inside the folder
  std::map<std::string, std::string> metadata;  // {"format": "pt"} is added where it has no format
  std::vector<TensorInfo> tensors;              // in the order of the payload
};

struct SafetensorsLayout {
  std::vector<ShardLayout> shards;
  bool indexed = false;  // write model.safetensors.index.json
  std::string index_metadata =
      {};  // JSON object: what its "metadata" holds beside the total_size, "" nothing
};

// The layout of a model that was read; writing it with the same bytes gives the same payloads, and an index
// that says the same.
[[nodiscard]] SafetensorsLayout layout_of(const Safetensors& model);
// model.safetensors, or shards model-0000k-of-0000n.safetensors with an index where the tensors exceed
// `largest_shard` bytes (a tensor is never split).
[[nodiscard]] SafetensorsLayout new_layout(std::vector<TensorInfo> tensors,
                                           std::int64_t largest_shard = 5'000'000'000);

// Takes the next piece of the current tensor's bytes.
using EmitBytes = std::function<void(std::span<const std::byte> piece)>;
// Called once per tensor, in the order of the layout; must emit exactly tensor.bytes() bytes, in any pieces.
using ProduceTensor = std::function<void(const TensorInfo& tensor, const EmitBytes& emit)>;

// Error(usage) where the folder holds weights of another layout - its index, its single file or a shard that
// this one does not replace - which readers would mix up with this model.
void check_no_mixture(const std::filesystem::path& folder, const SafetensorsLayout& layout);

// Writes all shards (and the index) into an existing folder, after check_no_mixture().
void write_safetensors(const std::filesystem::path& folder, const SafetensorsLayout& layout,
                       const ProduceTensor& produce);

}  // namespace lazytrain
