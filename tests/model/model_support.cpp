#include "model/model_support.h"

#include <unistd.h>
#include <atomic>
#include <fstream>

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

std::optional<Failure> failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
  return std::nullopt;
}

}  // namespace lazytrain
