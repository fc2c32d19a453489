// A GGUF file becomes a Hugging Face folder: settings, tokenizer, and the weights in bf16.
//
// Of the llama architecture llama.cpp rotates neighbouring pairs of a head's channels, Hugging Face rotates
// channel i with i + head_dim / 2; converters reorder the rows of q and k to match: row 2 j + p of a head (p
// = 0, 1) was row p head_dim / 2 + j. Of qwen2 and qwen3 both rotate as Hugging Face does, and rows stay.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "formats/gguf.h"
#include "formats/json.h"
#include "formats/safetensors_writer.h"
#include "formats/text_checks.h"
#include "model/config_document.h"
#include "model/gguf_config.h"
#include "model/gguf_tokenizer.h"
#include "model/model_folder.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;

// Where a tensor's values come from.
struct Source {
  const GgufTensor* tensor = nullptr;
  std::int64_t paired_rows = 0;  // rows of one head where its rows were reordered, else 0
};

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight".
std::string gguf_name(const std::string& name) {
  static constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
      {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view prefix = "model.layers.";
  const std::size_t after_layer = name.find('.', prefix.size());
  const std::size_t suffix = name.rfind('.');
  const std::string_view part = std::string_view(name).substr(after_layer + 1, suffix - after_layer - 1);
  const auto* found = std::ranges::find(kParts, part, &std::pair<std::string_view, std::string_view>::first);
  check(found != std::end(kParts), "a tensor name of an imported architecture");
  return "blk." + name.substr(prefix.size(), after_layer - prefix.size()) + "." + std::string(found->second) +
         name.substr(suffix);
}

bool is_reordered(const Architecture& architecture, const std::string& name) {
  if (architecture.model_type != "llama") return false;
  return name.find(".q_proj.") != std::string::npos || name.find(".k_proj.") != std::string::npos;
}

// Tensor by tensor in the order of the model: where each comes from, every shape checked, none left over.
std::map<std::string, Source> find_sources(const Gguf& file, const Architecture& architecture,
                                           std::vector<TensorInfo>& infos) {
  const std::string where = file.path().string();
  std::map<std::string, Source> sources;
  std::set<std::string_view> used = {"rope_freqs.weight"};
  for (const ParameterGroup& group : parameter_groups(architecture)) {
    for (const ParameterTensor& wanted : group.tensors) {
      const GgufTensor* found = file.find(gguf_name(wanted.name));
      if (found == nullptr) {
        fail(ExitCode::model_file, "{}: tensor {} is missing; the file is incomplete: download it again",
             where, gguf_name(wanted.name));
      }
      if (found->shape != wanted.shape) {
        fail(ExitCode::model_file,
             "{}: tensor {} has the shape {}, but the file's settings make it {}; convert the file anew",
             where, found->name, format_shape(found->shape), format_shape(wanted.shape));
      }
      used.insert(found->name);
      sources[wanted.name] = {
          .tensor = found,
          .paired_rows = is_reordered(architecture, wanted.name) ? architecture.head_dim : 0};
      infos.push_back({.name = wanted.name, .type = TensorType::bf16, .shape = wanted.shape});
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    if (!used.contains(tensor.name)) {
      fail(ExitCode::model_file,
           "{}: tensor {} is not part of a {} model and would be lost; import a file without it", where,
           in_quotes(tensor.name), architecture.model_type);
    }
  }
  return sources;
}

// Values as bf16 bytes, rounded to nearest even.
void encode(std::span<const float> values, std::vector<std::byte>& bytes) {
  bytes.resize(values.size() * sizeof(bfloat16));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bfloat16 rounded = to_bfloat16(values[i]);
    std::memcpy(bytes.data() + i * sizeof(bfloat16), &rounded, sizeof(bfloat16));
  }
}

// Rows of one head in GGUF's order -> rows in Hugging Face's; a bias counts as rows of one element.
void undo_pairing(std::span<const float> paired, std::int64_t rows, std::int64_t width,
                  std::span<float> out) {
  for (std::int64_t p = 0; p < 2; ++p) {
    for (std::int64_t j = 0; j < rows / 2; ++j) {
      std::copy_n(paired.begin() + (2 * j + p) * width, width, out.begin() + (p * (rows / 2) + j) * width);
    }
  }
}

class WeightWriter {
 public:
  WeightWriter(const std::function<void(std::int64_t, std::int64_t)>& progress, std::int64_t total)
      : progress_(progress), total_(total) {}

  void write(const Source& source, const EmitBytes& emit) {
    const GgufTensor& tensor = *source.tensor;
    if (source.paired_rows != 0 && tensor.shape.size() == 1) {  // a bias: one row of all heads
      const auto size = static_cast<std::size_t>(tensor.elements());
      values_.resize(size);
      reordered_.resize(size);
      dequantize(tensor, values_);
      const auto head = static_cast<std::size_t>(source.paired_rows);
      for (std::size_t at = 0; at < size; at += head) {
        undo_pairing(std::span(values_).subspan(at, head), source.paired_rows, 1,
                     std::span(reordered_).subspan(at, head));
      }
      put(reordered_, emit);
      return;
    }
    const std::int64_t width = tensor.row_length();
    const std::int64_t step =
        source.paired_rows != 0 ? source.paired_rows : std::max<std::int64_t>(1, kPieceElements / width);
    for (std::int64_t row = 0; row < tensor.rows(); row += step) {
      const std::int64_t count = std::min(step, tensor.rows() - row);
      values_.resize(static_cast<std::size_t>(count * width));
      dequantize_rows(tensor, row, count, values_);
      if (source.paired_rows == 0) {
        put(values_, emit);
        continue;
      }
      reordered_.resize(values_.size());
      undo_pairing(values_, count, width, reordered_);
      put(reordered_, emit);
    }
  }

 private:
  void put(std::span<const float> values, const EmitBytes& emit) {
    encode(values, bytes_);
    emit(bytes_);
    done_ += static_cast<std::int64_t>(bytes_.size());
    if (progress_) progress_(done_, total_);
  }

  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  std::int64_t total_, done_ = 0;
  std::vector<float> values_, reordered_;
  std::vector<std::byte> bytes_;
};

// A folder under a temporary name that vanishes unless it is moved to its place.
class FolderInProgress {
 public:
  explicit FolderInProgress(std::filesystem::path place) : place_(std::move(place)) {
    std::error_code error;
    if (std::filesystem::exists(place_, error) && !std::filesystem::is_directory(place_, error)) {
      fail(ExitCode::usage, "{}: a file of that name is there; choose another folder", place_.string());
    }
    if (std::filesystem::is_directory(place_, error) && !std::filesystem::is_empty(place_, error)) {
      fail(ExitCode::usage, "{}: this folder is not empty; choose another one or empty it", place_.string());
    }
    path_ = place_;
    path_ += ".tmp-" + std::to_string(::getpid());
    std::filesystem::remove_all(path_, error);
    std::filesystem::create_directories(path_, error);
    if (error)
      fail(ExitCode::disk, "{}: cannot make this folder: {}; choose another one", path_.string(),
           error.message());
  }
  ~FolderInProgress() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FolderInProgress(const FolderInProgress&) = delete;
  FolderInProgress& operator=(const FolderInProgress&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  void finish() {
    sync_directory(path_);
    std::error_code error;
    std::filesystem::rename(path_, place_, error);  // replaces an empty folder
    if (error)
      fail(ExitCode::disk, "{}: cannot move the finished folder there: {}; choose another one",
           place_.string(), error.message());
    sync_directory(std::filesystem::absolute(place_).parent_path());
  }

 private:
  std::filesystem::path place_, path_;
};

nlohmann::ordered_json generation_config(const GgufSpecialTokens& tokens) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  if (tokens.bos) config["bos_token_id"] = *tokens.bos;
  if (tokens.eos.size() == 1) config["eos_token_id"] = tokens.eos.front();
  if (tokens.eos.size() > 1) config["eos_token_id"] = tokens.eos;
  if (tokens.padding) config["pad_token_id"] = *tokens.padding;
  return config;
}

}  // namespace

void import_gguf(const std::filesystem::path& gguf, const std::filesystem::path& out,
                 const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  const Gguf file(gguf);
  const nlohmann::ordered_json config = gguf_config(file);
  const Architecture architecture = architecture_of(nlohmann::json(config), gguf.string());
  std::vector<TensorInfo> infos;
  const std::map<std::string, Source> sources = find_sources(file, architecture, infos);
  std::int64_t total = 0;
  for (const TensorInfo& info : infos) total += info.bytes();

  // "models/x/" names the folder x as well.
  FolderInProgress folder(out.has_filename() ? out : out.parent_path());
  write_gguf_tokenizer(file, folder.path());
  write_json(folder.path() / "config.json", config);
  write_json(folder.path() / "generation_config.json", generation_config(gguf_special_tokens(file)));
  WeightWriter writer(progress, total);
  write_safetensors(
      folder.path(), new_layout(std::move(infos)),
      [&](const TensorInfo& tensor, const EmitBytes& emit) { writer.write(sources.at(tensor.name), emit); });
  folder.finish();
}

}  // namespace lazytrain
