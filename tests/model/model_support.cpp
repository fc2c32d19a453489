#include "model/model_support.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iterator>

#include "core/random.h"
#include "formats/safetensors_writer.h"
#include "model/architecture.h"

namespace lazytrain {

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count{0};
  path_ = std::filesystem::temp_directory_path() /
          ("lazytrain-model-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
  std::filesystem::create_directories(path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream(path_ / name, std::ios::binary) << content;
  return path_ / name;
}

nlohmann::json small_config() {
  return nlohmann::json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 160,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-05, "rope_theta": 100000, "hidden_act": "silu",
    "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": [2, 7], "torch_dtype": "bfloat16"})");
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_model(const std::filesystem::path& folder, const nlohmann::json& config, const ModelFiles& files) {
  std::ofstream(folder / "config.json") << config.dump(4);
  std::vector<TensorInfo> infos;
  for (const ParameterGroup& group : parameter_groups(read_architecture(folder))) {
    for (const ParameterTensor& tensor : group.tensors) {
      if (std::ranges::find(files.without, tensor.name) != files.without.end()) continue;
      infos.push_back({.name = tensor.name, .type = files.type(tensor.name), .shape = tensor.shape});
    }
  }
  for (const auto& [name, shape] : files.extra)
    infos.push_back({.name = name, .type = files.type(name), .shape = shape});
  Random random(7);
  std::vector<float> embedding;
  write_safetensors(folder, new_layout(infos, files.largest_shard),
                    [&](const TensorInfo& info, const EmitBytes& emit) {
                      std::vector<float> values(static_cast<std::size_t>(*element_count(info.shape)));
                      for (float& value : values) value = static_cast<float>(random.normal());
                      if (embedding.empty()) embedding = values;  // the first tensor
                      if (info.name == files.copy_of_embedding) values = embedding;
                      std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
                      convert_from_float(values, info.type, bytes);
                      emit(bytes);
                    });
}

std::optional<Failure> failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
  return std::nullopt;
}

}  // namespace lazytrain
