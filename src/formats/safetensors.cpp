#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "formats/json.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian and mapped as it is");

constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::uint64_t kLengthField = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr auto kCode = ExitCode::model_file;

// The header's length after every check that can be made before its JSON is parsed.
std::uint64_t checked_header_length(std::string_view file, const std::string& where) {
  const std::string wrong = wrong_content(file.substr(0, 256), file.size());
  if (!wrong.empty()) fail(kCode, "{}: {}", where, wrong);
  if (file.starts_with("GGUF"))
    fail(kCode, "{}: a GGUF file, not safetensors; use `lazytrain import` on it", where);
  if (file.size() < kLengthField) {
    fail(kCode, "{}: {} bytes are too few for a safetensors file; download it again", where, file.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kLongestHeader) {
    fail(kCode,
         "{}: its header would be {} bytes, above the format's limit of {}: not a safetensors file, or "
         "damaged; download it again",
         where, length, kLongestHeader);
  }
  if (length > file.size() - kLengthField) {
    fail(kCode, "{}: truncated: its header has {} bytes, but the file ends after {}; download it again",
         where, length, file.size() - kLengthField);
  }
  if (length == 0 || file[kLengthField] != '{') {
    fail(kCode,
         "{}: its header does not start with '{{': not a safetensors file, or damaged; download it again",
         where);
  }
  return length;
}

std::map<std::string, std::string> read_metadata(const nlohmann::json& value, const std::string& where) {
  if (!value.is_object())
    fail(kCode, "{}: {} is not a map of strings; download the file again", where, kMetadata);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      fail(kCode, "{}: {}: the value of {} is not a string; download the file again", where, kMetadata,
           in_quotes(key));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// A size or an offset: a JSON integer of at most 63 bits; a float, even a whole one, is none.
std::optional<std::int64_t> whole_number(const nlohmann::json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  if (number > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<std::vector<std::int64_t>> whole_numbers(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<std::int64_t> numbers;
  for (const auto& item : value) {
    const auto number = whole_number(item);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

TensorView read_entry(const std::string& name, const nlohmann::json& entry,
                      std::span<const std::byte> payload, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    fail(kCode, "{}: tensor {}: {}; download the file again", where, in_quotes(name), what);
  };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets")) {
    refuse("its entry lacks one of dtype, shape and data_offsets");
  }
  TensorView tensor;
  tensor.name = name;
  const auto& dtype = entry["dtype"];
  const auto type = dtype.is_string() ? parse_tensor_type(dtype.get_ref<const std::string&>()) : std::nullopt;
  if (!type)
    refuse(fmt::format("unknown dtype {}", in_quotes(dtype.is_string() ? dtype.get<std::string>() : "?")));
  tensor.type = *type;
  auto shape = whole_numbers(entry["shape"]);
  if (!shape) refuse("its shape is not a list of whole numbers");
  tensor.shape = std::move(*shape);
  const auto size = byte_count(tensor.type, tensor.shape);
  if (!size) {
    refuse(fmt::format("the size of shape {} in {} overflows or is no whole number of bytes",
                       format_shape(tensor.shape), to_string(tensor.type)));
  }
  const auto offsets = whole_numbers(entry["data_offsets"]);
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    refuse("its data_offsets are not two ascending whole numbers");
  }
  const auto begin = static_cast<std::uint64_t>((*offsets)[0]);
  const auto end = static_cast<std::uint64_t>((*offsets)[1]);
  if (end - begin != static_cast<std::uint64_t>(*size)) {
    refuse(fmt::format("its data_offsets span {} bytes, but shape {} in {} needs {}", end - begin,
                       format_shape(tensor.shape), to_string(tensor.type), *size));
  }
  if (end > payload.size()) {
    refuse(fmt::format("truncated file: the tensor ends at byte {} of the payload, which has {}", end,
                       payload.size()));
  }
  tensor.bytes = payload.subspan(begin, end - begin);
  return tensor;
}

// Sorts by offset and proves that the payload is covered once, from its first byte to its last.
void check_tiling(std::vector<TensorView>& tensors, std::span<const std::byte> payload,
                  const std::string& where) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  std::size_t covered = 0;
  for (const TensorView& tensor : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - payload.data());
    if (begin != covered) {
      fail(kCode, "{}: tensor {} starts at byte {} of the payload, {} {}: damaged file; download it again",
           where, in_quotes(tensor.name), begin,
           begin > covered ? "leaving a hole after byte" : "overlapping what ends at byte", covered);
    }
    covered += tensor.bytes.size();
  }
  if (covered != payload.size()) {
    fail(kCode, "{}: {} bytes follow the last tensor, which no tensor owns: damaged file; download it again",
         where, payload.size() - covered);
  }
}

// The index's weight_map: tensor -> shard file, both checked for form only.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& path) {
  const std::string where = path.string();
  require_file(path, kCode);
  const MappedFile file(path);
  const std::string wrong = wrong_content(file.text().substr(0, 256), file.text().size());
  if (!wrong.empty()) fail(kCode, "{}: {}", where, wrong);
  const nlohmann::json index = parse_unique_json(file.text(), where, kCode);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    fail(kCode, "{}: it has no weight_map of tensor names to files; download it again", where);
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      fail(kCode, "{}: the shard of tensor {} is not a file name; download the index again", where,
           in_quotes(name));
    const auto& shard_file = shard.get_ref<const std::string&>();
    // Shards lie beside the index: a path would let an index read files from elsewhere.
    if (shard_file.empty() || shard_file == "." || shard_file == ".." ||
        shard_file.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      fail(kCode, "{}: the shard of tensor {} must be a plain file name, not {}", where, in_quotes(name),
           in_quotes(shard_file));
    }
    // Files of a run or hidden ones would be read, and written again, as if they were the model's.
    if (shard_file.starts_with('.') || !shard_file.ends_with(".safetensors")) {
      fail(kCode,
           "{}: the shard of tensor {} is {}; a shard's name ends in .safetensors and has no dot in front",
           where, in_quotes(name), in_quotes(shard_file));
    }
    weight_map[name] = shard_file;
  }
  if (weight_map.empty()) fail(kCode, "{}: its weight_map names no tensor; download it again", where);
  return weight_map;
}

// Weight files that the folder holds besides `used`, sorted.
std::vector<std::string> other_weight_files(const std::filesystem::path& folder,
                                            const std::set<std::string>& used) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const auto extension = it->path().extension();
    const std::string name = it->path().filename().string();
    const bool weights = extension == ".safetensors" || extension == ".bin" || extension == ".gguf";
    if (weights && !used.contains(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void notice_strays(const std::filesystem::path& folder, const std::set<std::string>& used) {
  for (const std::string& name : other_weight_files(folder, used)) {
    if (name.ends_with(".safetensors")) {
      log::info("{}: {} is not part of the model and is left out", folder.string(), in_quotes(name));
    }
  }
}

}  // namespace

std::int64_t TensorView::elements() const {
  return element_count(shape).value_or(0);
}

void Safetensors::add_shard(const std::filesystem::path& file) {
  const std::string where = file.string();
  require_file(file, kCode);
  SafetensorsShard shard{.file = file.filename().string(), .metadata = {}, .map = MappedFile(file)};
  const std::string_view text = shard.map.text();
  const std::uint64_t length = checked_header_length(text, where);
  const nlohmann::json header =
      parse_unique_json(text.substr(kLengthField, length), where + ": header", kCode);
  const auto payload = shard.map.bytes().subspan(kLengthField + length);
  std::vector<TensorView> tensors;
  tensors.reserve(header.size());
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      shard.metadata = read_metadata(entry, where);
    } else {
      tensors.push_back(read_entry(name, entry, payload, where));
      tensors.back().shard = static_cast<int>(shards_.size());
    }
  }
  check_tiling(tensors, payload, where);
  std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
  shards_.push_back(std::move(shard));
}

void Safetensors::build_lookup() {
  lookup_.reserve(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto [other, fresh] = lookup_.emplace(tensors_[i].name, i);
    if (!fresh) {
      const auto shard_of = [&](std::size_t t) {
        return shards_[static_cast<std::size_t>(tensors_[t].shard)].file;
      };
      fail(kCode, "{}: tensor {} is in two shards, {} and {}; remove the one that is not the model's",
           path_.string(), in_quotes(tensors_[i].name), in_quotes(shard_of(other->second)),
           in_quotes(shard_of(i)));
    }
  }
}

Safetensors Safetensors::open(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? open_folder(path) : open_file(path);
}

Safetensors Safetensors::open_file(const std::filesystem::path& file) {
  Safetensors result;
  result.path_ = file;
  result.add_shard(file);
  result.build_lookup();
  return result;
}

Safetensors Safetensors::open_folder(const std::filesystem::path& folder) {
  require_folder(folder, kCode);
  const auto index_path = folder / kSafetensorsIndex;
  if (is_missing(index_path)) {
    if (is_missing(folder / kSafetensorsFile)) {
      const auto others = other_weight_files(folder, {});
      fail(kCode, "{}: neither {} nor {} is in the folder; download one of them{}", folder.string(),
           kSafetensorsFile, kSafetensorsIndex,
           others.empty() ? std::string()
                          : fmt::format(" ({} would have to be converted first)", in_quotes(others[0])));
    }
    Safetensors result = open_file(folder / kSafetensorsFile);
    result.path_ = folder;
    notice_strays(folder, {kSafetensorsFile});
    return result;
  }

  Safetensors result;
  result.path_ = folder;
  result.indexed_ = true;
  const std::string where = index_path.string();
  const auto weight_map = read_weight_map(index_path);
  std::set<std::string> files;
  for (const auto& [name, file] : weight_map) {
    if (files.insert(file).second && is_missing(folder / file)) {
      fail(kCode,
           "{}: it puts tensor {} into {}, which is not in the folder; download that shard, or remove the {}",
           where, in_quotes(name), in_quotes(file), "index where it belongs to another model");
    }
  }
  for (const std::string& file : files) result.add_shard(folder / file);
  result.build_lookup();
  for (const auto& [name, file] : weight_map) {
    const TensorView* tensor = result.find(name);
    if (tensor == nullptr || result.shards_[static_cast<std::size_t>(tensor->shard)].file != file) {
      fail(kCode,
           "{}: it puts tensor {} into {}, whose header does not have it: index and shards do not match; "
           "download them again",
           where, in_quotes(name), in_quotes(file));
    }
  }
  for (const TensorView& tensor : result.tensors_) {
    if (!weight_map.contains(tensor.name)) {
      fail(kCode, "{}: tensor {} of {} is not in it: index and shards do not match; download them again",
           where, in_quotes(tensor.name),
           in_quotes(result.shards_[static_cast<std::size_t>(tensor.shard)].file));
    }
  }
  notice_strays(folder, files);
  return result;
}

const TensorView* Safetensors::find(std::string_view name) const {
  const auto it = lookup_.find(name);
  return it == lookup_.end() ? nullptr : &tensors_[it->second];
}

const TensorView& Safetensors::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) fail(kCode, "{}: there is no tensor {}", path_.string(), in_quotes(name));
  return *tensor;
}

}  // namespace lazytrain
