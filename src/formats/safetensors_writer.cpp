#include "formats/safetensors_writer.h"

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/units.h"
#include "formats/json.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

// Length field and JSON, padded with spaces so that the payload starts on a multiple of 8.
std::string header_of(const ShardLayout& shard) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  auto metadata = shard.metadata;
  metadata.try_emplace("format", "pt");  // transformers refuses files that do not say so
  // Appended as a list of pairs: ordered_json's own insertion searches the keys that are already there.
  auto& entries = header.get_ref<nlohmann::ordered_json::object_t&>();
  entries.reserve(shard.tensors.size() + 1);
  entries.emplace_back("__metadata__", metadata);
  std::int64_t offset = 0;
  for (const TensorInfo& tensor : shard.tensors) {
    const std::int64_t end = offset + tensor.bytes();
    entries.emplace_back(tensor.name, nlohmann::ordered_json{{"dtype", to_string(tensor.type)},
                                                             {"shape", tensor.shape},
                                                             {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string field(sizeof(length), '\0');
  std::memcpy(field.data(), &length, sizeof(length));
  return field + text;
}

std::int64_t payload_bytes(const ShardLayout& shard) {
  std::int64_t total = 0;
  for (const TensorInfo& tensor : shard.tensors) {
    if (__builtin_add_overflow(total, tensor.bytes(), &total)) {
      fail(ExitCode::model_file, "{}: its tensors exceed 63-bit sizes", shard.file);
    }
  }
  return total;
}

// "metadata" of a folder's index: other writers keep more there than readers ask for (total_parameters).
std::string index_metadata(const std::filesystem::path& folder) {
  nlohmann::json index;
  if (is_missing(folder / kSafetensorsIndex)) return "";
  const MappedFile file(folder / kSafetensorsIndex);
  if (try_parse_json(file.text(), index) || !index.is_object()) return "";
  const auto metadata = index.find("metadata");
  return metadata != index.end() && metadata->is_object() ? metadata->dump() : "";
}

std::string index_of(const SafetensorsLayout& layout) {
  nlohmann::json index;  // keys sorted, as other writers of this file do
  std::int64_t total = 0;
  index["weight_map"] = nlohmann::json::object();
  for (const ShardLayout& shard : layout.shards) {
    total += payload_bytes(shard);
    for (const TensorInfo& tensor : shard.tensors) index["weight_map"][tensor.name] = shard.file;
  }
  if (!layout.index_metadata.empty()) index["metadata"] = nlohmann::json::parse(layout.index_metadata);
  index["metadata"]["total_size"] = total;
  return index.dump(2) + "\n";
}

void check_layout(const SafetensorsLayout& layout) {
  std::unordered_set<std::string> names, files;
  for (const ShardLayout& shard : layout.shards) {
    check(files.insert(shard.file).second, "every shard of a layout has its own file");
    for (const TensorInfo& tensor : shard.tensors) {
      check(names.insert(tensor.name).second && tensor.name != "__metadata__",
            "tensor names of a layout are unique");
    }
  }
  check(layout.indexed || layout.shards.size() == 1, "a layout of several shards has an index");
}

void check_space(const std::filesystem::path& folder, const SafetensorsLayout& layout) {
  std::int64_t needed = 0;
  for (const ShardLayout& shard : layout.shards) needed += payload_bytes(shard);
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  if (error) fail(ExitCode::disk, "{}: cannot write there: {}", folder.string(), error.message());
  if (space.available < static_cast<std::uintmax_t>(needed)) {
    fail(ExitCode::disk,
         "{}: the model needs {}, but only {} are free; free some space or choose another folder",
         folder.string(), format_bytes({needed}), format_bytes({static_cast<std::int64_t>(space.available)}));
  }
}

}  // namespace

std::int64_t TensorInfo::bytes() const {
  const auto size = byte_count(type, shape);
  if (!size) {
    fail(ExitCode::model_file, "tensor {}: the size of shape {} in {} overflows", in_quotes(name),
         format_shape(shape), to_string(type));
  }
  return *size;
}

SafetensorsLayout layout_of(const Safetensors& model) {
  SafetensorsLayout layout{.shards = {},
                           .indexed = model.indexed(),
                           .index_metadata = model.indexed() ? index_metadata(model.path()) : ""};
  for (const SafetensorsShard& shard : model.shards()) {
    layout.shards.push_back({.file = shard.file, .metadata = shard.metadata, .tensors = {}});
  }
  for (const TensorView& tensor : model.tensors()) {
    layout.shards[static_cast<std::size_t>(tensor.shard)].tensors.push_back(
        {.name = tensor.name, .type = tensor.type, .shape = tensor.shape});
  }
  return layout;
}

SafetensorsLayout new_layout(std::vector<TensorInfo> tensors, std::int64_t largest_shard) {
  SafetensorsLayout layout;
  layout.shards.emplace_back();
  std::int64_t filled = 0;
  for (TensorInfo& tensor : tensors) {
    const std::int64_t size = tensor.bytes();
    // Compared by difference: the sum could overflow.
    if (!layout.shards.back().tensors.empty() && size > largest_shard - filled) {
      layout.shards.emplace_back();
      filled = 0;
    }
    filled += size;
    layout.shards.back().tensors.push_back(std::move(tensor));
  }
  layout.indexed = layout.shards.size() > 1;
  for (std::size_t i = 0; i < layout.shards.size(); ++i) {
    layout.shards[i].file = layout.indexed
                                ? fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, layout.shards.size())
                                : kSafetensorsFile;
  }
  return layout;
}

void check_no_mixture(const std::filesystem::path& folder, const SafetensorsLayout& layout) {
  std::set<std::string, std::less<>> ours;
  for (const ShardLayout& shard : layout.shards) ours.insert(shard.file);
  if (layout.indexed) ours.insert(kSafetensorsIndex);
  std::set<std::string> foreign;  // sorted, so that the same one is named everywhere
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool weights = name == kSafetensorsIndex || entry.path().extension() == ".safetensors";
    if (weights && !ours.contains(name)) foreign.insert(name);
    if (weights && ours.contains(name) && entry.is_directory(ignored)) foreign.insert(name);
  }
  if (foreign.empty()) return;
  fail(ExitCode::usage,
       "{}: holds the {} of another model; choose an empty folder or remove that model's files",
       folder.string(), foreign.contains(kSafetensorsIndex) ? kSafetensorsIndex : *foreign.begin());
}

void write_safetensors(const std::filesystem::path& folder, const SafetensorsLayout& layout,
                       const ProduceTensor& produce) {
  check_layout(layout);
  check_no_mixture(folder, layout);
  check_space(folder, layout);
  // Nothing is renamed before everything is written: a failure half-way leaves the folder as it was.
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const ShardLayout& shard : layout.shards) {
    auto& file = *files.emplace_back(std::make_unique<AtomicFile>(folder / shard.file));
    file.write(header_of(shard));
    for (const TensorInfo& tensor : shard.tensors) {
      auto left = static_cast<std::uint64_t>(tensor.bytes());
      produce(tensor, [&](std::span<const std::byte> piece) {
        check(piece.size() <= left, "no more bytes are written than the tensor has");
        file.write(piece.data(), piece.size());
        left -= piece.size();
      });
      check(left == 0, "all bytes of the tensor are written");
    }
  }
  if (layout.indexed) {
    files.emplace_back(std::make_unique<AtomicFile>(folder / kSafetensorsIndex))->write(index_of(layout));
  }
  for (const auto& file : files) file->commit();
}

}  // namespace lazytrain
