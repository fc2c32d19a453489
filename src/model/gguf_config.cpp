#include "model/gguf_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "formats/text_checks.h"
#include "model/model_family.h"
#include "model/rope.h"

namespace lazytrain {
namespace {

using Json = nlohmann::ordered_json;

// A float as the number its author wrote: 1e-05, not 9.999999747378752e-06.
double as_written(float value) {
  return std::stod(fmt::format("{}", value));
}

std::int64_t token_count(const Gguf& file) {
  return static_cast<std::int64_t>(file.get_strings("tokenizer.ggml.tokens").size());
}

std::int64_t head_dimension(const Gguf& file, std::int64_t hidden, std::int64_t heads) {
  const auto key = file.find_i64(gguf_key(file, "attention.key_length"));
  const auto value = file.find_i64(gguf_key(file, "attention.value_length"));
  if (key && value && *key != *value) {
    fail(ExitCode::model_file, "{}: {} is {} but value_length {}; only equal ones can be trained",
         file.path().string(), gguf_key(file, "attention.key_length"), *key, *value);
  }
  if (key) return *key;
  if (heads < 1 || hidden % heads != 0) {
    fail(ExitCode::model_file, "{}: {} is {}, which {}, {}, does not divide; convert the file anew",
         file.path().string(), gguf_key(file, "embedding_length"), hidden,
         gguf_key(file, "attention.head_count"), heads);
  }
  return hidden / heads;
}

// Converters store llama3's scaling as divisors of the frequencies. The published models differ in the factor
// only, so the settings are found by trying them.
std::optional<Json> llama3_scaling(const GgufTensor& divisors, double theta, std::int64_t head_dim) {
  if (head_dim < 2 || head_dim % 2 != 0 || divisors.elements() != head_dim / 2) return std::nullopt;
  std::vector<float> stored(static_cast<std::size_t>(head_dim / 2));
  dequantize(divisors, stored);
  RopeConfig rope;
  rope.theta = theta;
  const std::vector<float> plain = inverse_frequencies(rope, head_dim);
  rope.kind = RopeKind::llama3;
  rope.factor = *std::ranges::max_element(stored);
  if (!(rope.factor >= 1.0 && rope.factor <= 1e6)) return std::nullopt;
  const std::vector<float> scaled = inverse_frequencies(rope, head_dim);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (!(std::abs(plain[i] / scaled[i] / stored[i] - 1.0F) < 1e-4F)) return std::nullopt;
  }
  return Json{{"rope_type", "llama3"},
              {"factor", as_written(static_cast<float>(rope.factor))},
              {"low_freq_factor", rope.low_frequency_factor},
              {"high_freq_factor", rope.high_frequency_factor},
              {"original_max_position_embeddings", static_cast<std::int64_t>(rope.original_max_position)}};
}

Json rope_scaling(const Gguf& file, double theta, std::int64_t head_dim) {
  const std::string where = file.path().string();
  const std::string dimensions = gguf_key(file, "rope.dimension_count");
  if (const auto rotated = file.find_i64(dimensions); rotated && *rotated != head_dim) {
    fail(ExitCode::model_file, "{}: {} is {}, the head dimension {}; only equal ones can be trained", where,
         dimensions, *rotated, head_dim);
  }
  // 0 stands for none, too.
  const auto number = [&](const char* name, float usual) {
    const float value = file.find_f32(gguf_key(file, name)).value_or(0.0F);
    return value == 0.0F ? usual : value;
  };
  if (const float factor = number("rope.scaling.attn_factor", 1.0F); factor != 1.0F) {
    fail(ExitCode::model_file, "{}: {} is {}; only 1 can be trained", where,
         gguf_key(file, "rope.scaling.attn_factor"), factor);
  }
  const std::string type_key = gguf_key(file, "rope.scaling.type");
  std::string type = file.find_string(type_key).value_or("none");
  float factor = number("rope.scaling.factor", 1.0F);
  if (const float linear = number("rope.scale_linear", 1.0F); linear != 1.0F && type == "none") {
    type = "linear";  // as files of the first converters say it
    factor = linear;
  }
  if (type != "none" && type != "linear" && type != "yarn") {
    fail(ExitCode::model_file, "{}: {} is {}; only none, linear, yarn and llama3's can be trained", where,
         type_key, in_quotes(type));
  }
  const GgufTensor* divisors = file.find("rope_freqs.weight");
  if (divisors != nullptr && type == "none") {
    if (auto scaling = llama3_scaling(*divisors, theta, head_dim)) return *scaling;
  }
  if (divisors != nullptr) {
    fail(ExitCode::model_file,
         "{}: rope_freqs.weight is not the scaling of a Llama 3 model; no other can be trained", where);
  }
  if (type == "none" || factor == 1.0F) return nullptr;
  Json scaling = {{"rope_type", type}, {"factor", as_written(factor)}};
  if (type == "yarn") {
    const std::int64_t context = file.get_i64(gguf_key(file, "context_length"));
    scaling["original_max_position_embeddings"] =
        file.find_i64(gguf_key(file, "rope.scaling.original_context_length")).value_or(context);
  }
  return scaling;
}

void refuse_other_kinds(const Gguf& file) {
  const std::string where = file.path().string();
  const std::string architecture = file.get_string("general.architecture");
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3") {
    fail(ExitCode::model_file, "{}: general.architecture is {}; only llama, qwen2 and qwen3 can be imported",
         where, in_quotes(architecture));
  }
  const std::string experts = gguf_key(file, "expert_count");
  if (file.find_i64(experts).value_or(0) != 0) {
    fail(ExitCode::model_file, "{}: {} is {}; models with experts cannot be imported; take one without",
         where, experts, file.get_i64(experts));
  }
}

}  // namespace

GgufSpecialTokens gguf_special_tokens(const Gguf& file) {
  const std::int64_t count = token_count(file);
  const auto id = [&](const std::string& role) -> std::optional<std::int64_t> {
    const std::string key = "tokenizer.ggml." + role + "_token_id";
    const auto value = file.find_i64(key);
    if (value && (*value < 0 || *value >= count)) {
      fail(ExitCode::model_file, "{}: {} is {}, but there are {} tokens; convert the file anew",
           file.path().string(), key, *value, count);
    }
    return value;
  };
  GgufSpecialTokens tokens{.bos = id("bos"), .unknown = id("unknown"), .padding = id("padding"), .eos = {}};
  for (const char* role : {"eos", "eot", "eom"}) {
    const auto end = id(role);
    if (end && std::ranges::find(tokens.eos, *end) == tokens.eos.end()) tokens.eos.push_back(*end);
  }
  return tokens;
}

std::string gguf_key(const Gguf& file, const std::string& name) {
  return file.get_string("general.architecture") + "." + name;
}

nlohmann::ordered_json gguf_config(const Gguf& file) {
  refuse_other_kinds(file);
  const std::string type = file.get_string("general.architecture");
  const auto integer = [&](const char* name) { return file.get_i64(gguf_key(file, name)); };
  const std::int64_t hidden = integer("embedding_length");
  const std::int64_t heads = integer("attention.head_count");
  const std::int64_t head_dim = head_dimension(file, hidden, heads);
  const double theta = as_written(file.find_f32(gguf_key(file, "rope.freq_base")).value_or(10000.0F));
  const GgufSpecialTokens tokens = gguf_special_tokens(file);
  const auto or_null = [](const std::optional<std::int64_t>& id) { return id ? Json(*id) : Json(nullptr); };

  Json config;
  config["architectures"] = {std::string(find_family(type)->trained_class)};
  if (type != "qwen2") config["attention_bias"] = file.find("blk.0.attn_q.bias") != nullptr;
  config["attention_dropout"] = 0.0;
  config["bos_token_id"] = or_null(tokens.bos);
  config["eos_token_id"] = nullptr;
  if (tokens.eos.size() == 1) config["eos_token_id"] = tokens.eos.front();
  if (tokens.eos.size() > 1) config["eos_token_id"] = tokens.eos;
  config["head_dim"] = head_dim;
  config["hidden_act"] = "silu";
  config["hidden_size"] = hidden;
  config["intermediate_size"] = integer("feed_forward_length");
  config["max_position_embeddings"] = integer("context_length");
  if (type == "llama") config["mlp_bias"] = file.find("blk.0.ffn_gate.bias") != nullptr;
  config["model_type"] = type;
  config["num_attention_heads"] = heads;
  config["num_hidden_layers"] = integer("block_count");
  config["num_key_value_heads"] = file.find_i64(gguf_key(file, "attention.head_count_kv")).value_or(heads);
  config["pad_token_id"] = or_null(tokens.padding);
  config["rms_norm_eps"] = as_written(file.get_f32(gguf_key(file, "attention.layer_norm_rms_epsilon")));
  config["rope_scaling"] = rope_scaling(file, theta, head_dim);
  config["rope_theta"] = theta;
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  config["torch_dtype"] = "bfloat16";
  config["use_cache"] = true;
  if (type != "llama") config["use_sliding_window"] = false;
  config["vocab_size"] = token_count(file);
  return config;
}

}  // namespace lazytrain
