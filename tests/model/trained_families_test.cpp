// What the families that are trained read from their config.json beside Llama's keys.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/config_document.h"
#include "model/model_support.h"

namespace lazytrain {
namespace {

using Json = nlohmann::json;

Json config_of(const std::string& type, const std::string& class_name) {
  Json config = small_config();
  config["model_type"] = type;
  config["architectures"] = {class_name};
  return config;
}

Architecture read(const Json& config) {
  return architecture_of(config, "config.json", Purpose::train);
}

std::vector<std::string> tensor_names(const Architecture& a) {
  std::vector<std::string> names;
  const ParameterGroup layer = parameter_groups(a)[1];
  for (const ParameterTensor& tensor : layer.tensors)
    names.push_back(tensor.name.substr(std::string("model.layers.0.").size()));
  return names;
}

bool has(const Architecture& a, const std::string& name) {
  const std::vector<std::string> names = tensor_names(a);
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(TrainedFamilies, MistralHasOneWindowForAllLayersOrNone) {
  Json config = config_of("mistral", "MistralForCausalLM");
  config["sliding_window"] = 16;
  const Architecture windows = read(config);
  EXPECT_EQ(windows.layers_of(LayerKind::sliding_attention), 2);
  EXPECT_EQ(windows.window_of(windows.kind_of(0)), 16);
  EXPECT_FALSE(windows.attention_bias);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(read(config), [&] {
    Architecture llama = read(small_config());
    llama.model_type = "mistral";
    return llama;
  }());
}

TEST(TrainedFamilies, Qwen2HasBiasesOnQueriesKeysAndValues) {
  const Architecture a = read(config_of("qwen2", "Qwen2ForCausalLM"));
  EXPECT_TRUE(has(a, "self_attn.q_proj.bias"));
  EXPECT_TRUE(has(a, "self_attn.k_proj.bias"));
  EXPECT_TRUE(has(a, "self_attn.v_proj.bias"));
  EXPECT_FALSE(has(a, "self_attn.o_proj.bias"));
  EXPECT_FALSE(has(a, "self_attn.q_norm.weight"));
}

TEST(TrainedFamilies, Qwen3HasHeadNormsAndHeadsOf128) {
  Json config = config_of("qwen3", "Qwen3ForCausalLM");
  const Architecture a = read(config);  // without head_dim, which hidden_size / num_attention_heads is not
  EXPECT_EQ(a.head_dim, 128);
  EXPECT_EQ(a.query_width(), 512);
  EXPECT_TRUE(has(a, "self_attn.q_norm.weight"));
  EXPECT_TRUE(has(a, "self_attn.k_norm.weight"));
  EXPECT_FALSE(has(a, "self_attn.q_proj.bias"));
  config["head_dim"] = 32;
  EXPECT_EQ(read(config).head_dim, 32);
  config["attention_bias"] = true;
  EXPECT_TRUE(has(read(config), "self_attn.q_proj.bias"));
  EXPECT_TRUE(has(read(config), "self_attn.o_proj.bias"));
}

// Norm weights, as biases, are not decayed.
TEST(TrainedFamilies, HeadNormsAreNotDecayed) {
  const ParameterGroup layer = parameter_groups(read(config_of("qwen3", "Qwen3ForCausalLM")))[1];
  for (const ParameterTensor& tensor : layer.tensors)
    EXPECT_EQ(tensor.decay, tensor.name.find("norm") == std::string::npos) << tensor.name;
}

TEST(TrainedFamilies, QwenWindowsNeedTheirFlag) {
  for (const auto& [type, class_name] :
       {std::pair{"qwen2", "Qwen2ForCausalLM"}, std::pair{"qwen3", "Qwen3ForCausalLM"}}) {
    Json config = config_of(type, class_name);
    config["sliding_window"] = 8;
    config["max_window_layers"] = 1;
    EXPECT_TRUE(read(config).kinds.empty()) << type;
    config["use_sliding_window"] = true;
    const Architecture a = read(config);
    EXPECT_EQ(a.window_of(a.kind_of(0)), 0) << type;
    EXPECT_EQ(a.window_of(a.kind_of(1)), 8) << type;
    config["layer_types"] = {"sliding_attention", "full_attention"};
    const Architecture named = read(config);
    EXPECT_EQ(named.window_of(named.kind_of(0)), 8) << type;
    EXPECT_EQ(named.window_of(named.kind_of(1)), 0) << type;
  }
}

// Windows and norms change no byte of what a layer keeps.
TEST(TrainedFamilies, WindowsChangeNeitherTensorsNorStashes) {
  Json config = config_of("qwen3", "Qwen3ForCausalLM");
  const Architecture full = read(config);
  config["sliding_window"] = 8;
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 0;
  const Architecture windows = read(config);
  EXPECT_EQ(parameter_count(windows), parameter_count(full));
  EXPECT_EQ(layer_offsets(windows).down, layer_offsets(full).down);
  for (const StashLevel level : kStashLevels)
    EXPECT_EQ(stash_bytes(windows, LayerKind::sliding_attention, level, 24, 2),
              stash_bytes(full, LayerKind::attention, level, 24, 2));
  EXPECT_EQ(mean_context(windows, LayerKind::sliding_attention, 64),
            7.5);  // 1 .. 8, then 8 each: 8 - 64 / 128
  EXPECT_EQ(mean_context(full, LayerKind::attention, 64), 32);
}

TEST(TrainedFamilies, SettingsMayStandInTextConfig) {
  const Json flat = config_of("qwen3", "Qwen3ForCausalLM");
  Json inner = flat;
  inner.erase("architectures");
  inner.erase("tie_word_embeddings");
  inner.erase("torch_dtype");
  inner["dtype"] = "bfloat16";
  const Json nested = {{"architectures", {"Qwen3ForCausalLM"}},
                       {"model_type", "some_wrapper"},
                       {"tie_word_embeddings", true},
                       {"text_config", inner}};
  EXPECT_EQ(read(nested), read(flat));
}

TEST(TrainedFamilies, AnotherFamilysClassIsRefused) {
  const auto failure = failure_of([] { read(config_of("qwen3", "LlamaForCausalLM")); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->message,
            "config.json: architectures names \"LlamaForCausalLM\"; of models of the type qwen3 only "
            "Qwen3ForCausalLM can be trained");
}

}  // namespace
}  // namespace lazytrain
