// Writing a model folder that other tools load: the input's names, shapes, shards and small files, new
// values.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"
#include "model/model_folder_impl.h"

namespace lazytrain {
namespace {

constexpr std::size_t kPieceElements = std::size_t{1} << 18;
constexpr std::uintmax_t kLargestSmallFile = std::uintmax_t{256} << 20;

std::optional<TensorType> export_type(const std::string& dtype) {
  if (dtype.empty()) return std::nullopt;
  if (dtype == "bfloat16") return TensorType::bf16;
  if (dtype == "float32") return TensorType::f32;
  fail(ExitCode::usage,
       "'{}' is no type to export to; choose bfloat16 or float32, or leave it out to keep the model's",
       dtype);
}

// One piece of a tensor, from element `first` on, in its stored type. bf16 by the rule of master weights: of
// a bf16 run the file holds exactly the weights that were trained with; of an fp32 run it holds them rounded.
void encode(std::span<const float> values, std::size_t first, const TensorInfo& tensor,
            std::span<std::byte> out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.type == TensorType::f32) {
      std::memcpy(out.data() + i * 4, &values[i], 4);
    } else if (tensor.type == TensorType::bf16) {
      const std::uint16_t bits = master_to_bfloat16(values[i], first + i).bits;
      std::memcpy(out.data() + i * 2, &bits, 2);
    } else {
      const std::uint16_t bits = float_to_half(values[i]);
      if ((bits & 0x7FFFU) == 0x7C00U && std::isfinite(values[i])) {
        fail(ExitCode::numerics,
             "tensor {} holds {}, which float16 cannot; export with dtype bfloat16 or float32", tensor.name,
             values[i]);
      }
      std::memcpy(out.data() + i * 2, &bits, 2);
    }
  }
}

// What a training run writes beside the model, in its output folder and in checkpoints: the model's folder
// may be one, and the new folder has its own.
bool is_run_file(const std::string& name) {
  static constexpr std::array kNames = {"run.yaml",         "plan.json",     "plan.html",
                                        "trace.json",       "manifest.json", "lazytrain_state.json",
                                        "training_loss.svg"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("trainer_") ||
         name.starts_with("optimizer.") || (name.starts_with("group-") && !name.ends_with(".json"));
}

// Files that hold weights in one format or another, or a training run's state: not part of the exported
// folder.
bool is_small_file(const std::filesystem::directory_entry& entry) {
  static constexpr std::array kWeights = {".safetensors", ".bin",  ".pt",      ".pth", ".gguf",
                                          ".h5",          ".onnx", ".msgpack", ".ot",  ".tflite"};
  std::error_code ignored;
  if (!entry.is_regular_file(ignored)) return false;
  const std::string name = entry.path().filename().string();
  if (name.starts_with('.') || is_run_file(name)) return false;
  if (name.ends_with(".index.json") || name.find(".tmp-") != std::string::npos) return false;
  return std::ranges::find(kWeights, entry.path().extension().string()) == kWeights.end();
}

void copy_small_files(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::set<std::filesystem::path> files;  // sorted, so that the order is the same everywhere
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (is_small_file(entry) && entry.path().filename() != "config.json") files.insert(entry.path());
  }
  for (const auto& file : files) {
    if (std::filesystem::file_size(file) > kLargestSmallFile) {
      log::warning("{}: too large for a settings file, left out of {}", file.string(), to.string());
      continue;
    }
    write_file(to / file.filename(), MappedFile(file).text());
  }
}

void write_config(const std::filesystem::path& from, const std::filesystem::path& to,
                  const std::string& dtype, const std::string& current) {
  const MappedFile file(from / "config.json");
  if (dtype.empty() || dtype == current) {
    write_file(to / "config.json", file.text());
    return;
  }
  auto config = parse_ordered_json(file.text(), (from / "config.json").string(), ExitCode::model_file);
  const bool old_spelling = config.contains("torch_dtype");
  if (old_spelling) config["torch_dtype"] = dtype;
  if (config.contains("dtype") || !old_spelling) config["dtype"] = dtype;
  write_json(to / "config.json", config);
}

void refuse_own_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (std::filesystem::equivalent(from, to, error))
    fail(ExitCode::usage, "{}: this is the folder the model is read from; choose another one", to.string());
}

void prepare_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::create_directories(to, error);
  if (error || !std::filesystem::is_directory(to)) {
    fail(ExitCode::disk, "{}: cannot make this folder: {}; choose another one", to.string(),
         error ? error.message() : "a file of that name is there");
  }
  refuse_own_folder(from, to);
}

}  // namespace

Bytes ModelFolder::check_export(const std::filesystem::path& out) const {
  refuse_own_folder(impl_->path, out);
  const SafetensorsLayout layout = layout_of(impl_->tensors);
  check_no_mixture(out, layout);
  Bytes total;
  for (const ShardLayout& shard : layout.shards)
    for (const TensorInfo& tensor : shard.tensors) total += Bytes{tensor.bytes()};
  return total;
}

void ModelFolder::export_to(const std::filesystem::path& out, const std::string& dtype,
                            const ReadValues& read) const {
  const std::optional<TensorType> type = export_type(dtype);
  prepare_folder(impl_->path, out);
  SafetensorsLayout layout = layout_of(impl_->tensors);
  for (ShardLayout& shard : layout.shards) {
    for (TensorInfo& tensor : shard.tensors) {
      if (type && impl_->places.contains(tensor.name)) tensor.type = *type;
    }
  }

  std::vector<float> values(kPieceElements);
  std::vector<std::byte> bytes(kPieceElements * sizeof(float));
  write_safetensors(out, layout, [&](const TensorInfo& tensor, const EmitBytes& emit) {
    const auto place = impl_->places.find(tensor.name);
    if (place == impl_->places.end()) {  // a rotary buffer
      emit(impl_->tensors.at(tensor.name).bytes);
      return;
    }
    const std::size_t group = place->second.group;
    const ParameterTensor& parameter = impl_->groups[group].tensors[place->second.tensor];
    const auto elements = static_cast<std::size_t>(parameter.elements);
    const std::size_t width = tensor.type == TensorType::f32 ? 4 : 2;
    for (std::size_t begin = 0; begin < elements; begin += kPieceElements) {
      const std::span<float> part = std::span(values).first(std::min(kPieceElements, elements - begin));
      read(group, parameter.offset + static_cast<std::int64_t>(begin), part);
      const std::span<std::byte> encoded = std::span(bytes).first(part.size() * width);
      encode(part, begin, tensor, encoded);
      emit(encoded);
    }
  });
  copy_small_files(impl_->path, out);
  write_config(impl_->path, out, dtype, impl_->architecture.checkpoint_dtype);
  sync_directory(out);
}

}  // namespace lazytrain
