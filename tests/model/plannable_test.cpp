// Models that can be planned: sizes of published ones from their config.json, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "model/architecture.h"
#include "model/config_document.h"
#include "model/model_support.h"

namespace lazytrain {
namespace {

using Json = nlohmann::json;

std::filesystem::path example(const std::string& name) {
  return std::filesystem::path(LAZYTRAIN_SOURCE_DIR) / "examples" / "models" / name;
}

Architecture planned(const std::string& name) {
  return read_architecture(example(name), Purpose::plan);
}

Json example_config(const std::string& name) {
  return read_json(example(name) / "config.json", ExitCode::model_file);
}

// Totals that the models' authors and their checkpoints give, tensor by tensor.
TEST(PlannableModels, HaveTheParametersOfThePublishedOnes) {
  EXPECT_EQ(parameter_count(planned("qwen2.5-3b")), 3'085'938'688);
  EXPECT_EQ(parameter_count(planned("qwen2.5-7b")), 7'615'616'512);
  EXPECT_EQ(parameter_count(planned("qwen2.5-14b")), 14'770'033'664);
  EXPECT_EQ(parameter_count(planned("qwen2.5-72b")), 72'706'203'648);
  EXPECT_EQ(parameter_count(planned("qwen3-8b")), 8'190'735'360);
  EXPECT_EQ(parameter_count(planned("qwen3-30b-a3b")), 30'532'122'624);
  EXPECT_EQ(parameter_count(planned("llama-3.1-8b")), 8'030'261'248);
  EXPECT_EQ(parameter_count(planned("mistral-7b-v0.1")), 7'241'732'096);
  // Of the language model alone: 48 layers of 383,273,184, 16 of 372,255,232, two matrices and a norm.
  EXPECT_EQ(parameter_count(planned("qwen3.6-27b")),
            48 * 383'273'184LL + 16 * 372'255'232LL + 2 * 248'320LL * 5120 + 5120);
  EXPECT_EQ(parameter_count(planned("qwen3.6-27b")), 26'895'998'464);
}

TEST(PlannableModels, Qwen36HasFullAttentionInEveryFourthLayer) {
  const Architecture a = planned("qwen3.6-27b");
  EXPECT_EQ(a.model_type, "qwen3_5_text");
  for (std::int64_t layer = 0; layer < 64; ++layer)
    EXPECT_EQ(a.kind_of(layer), layer % 4 == 3 ? LayerKind::attention : LayerKind::linear_attention) << layer;
  EXPECT_EQ(a.linear.projected_width(), 4096 + 6144 + 6144 + 96);
  EXPECT_EQ(a.core_width(LayerKind::linear_attention), 6144);
  EXPECT_EQ(a.projected_width(LayerKind::attention), 2 * 6144 + 2 * 1024);
  // The same by name, as the published file has it.
  Json config = example_config("qwen3.6-27b");
  Json types = Json::array();
  for (int layer = 0; layer < 64; ++layer)
    types.push_back(layer % 4 == 3 ? "full_attention" : "linear_attention");
  config["text_config"]["layer_types"] = types;
  EXPECT_EQ(architecture_of(config, "c", Purpose::plan).kinds, a.kinds);
  // And without the part that sees.
  EXPECT_EQ(architecture_of(config["text_config"], "c", Purpose::plan).kinds, a.kinds);
}

TEST(PlannableModels, ExpertsAreInTheLayersThatTheConfigNames) {
  Json config = example_config("qwen3-30b-a3b");
  EXPECT_EQ(planned("qwen3-30b-a3b").layers_of(LayerKind::attention_experts), 48);
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = Json::array({1, 47});
  const Architecture a = architecture_of(config, "c", Purpose::plan);
  EXPECT_EQ(a.layers_of(LayerKind::attention_experts), 22);
  EXPECT_EQ(a.kind_of(0), LayerKind::attention);
  EXPECT_EQ(a.kind_of(1), LayerKind::attention);
  EXPECT_EQ(a.kind_of(3), LayerKind::attention_experts);
  EXPECT_EQ(a.mlp_width(LayerKind::attention), 6144);
  EXPECT_EQ(a.mlp_width(LayerKind::attention_experts), 8 * 768);
}

TEST(PlannableModels, WindowsStandInTheLayersThatHaveThem) {
  const Architecture mistral = planned("mistral-7b-v0.1");
  EXPECT_EQ(mistral.layers_of(LayerKind::sliding_attention), 32);
  EXPECT_EQ(mistral.window_of(LayerKind::sliding_attention), 4096);
  EXPECT_EQ(planned("qwen2.5-7b").layers_of(LayerKind::sliding_attention), 0);  // use_sliding_window is false
  Json config = example_config("qwen2.5-7b");
  config["use_sliding_window"] = true;
  const auto windowed = [&] {
    return architecture_of(config, "c", Purpose::plan).layers_of(LayerKind::sliding_attention);
  };
  EXPECT_EQ(windowed(), 0);  // from layer 28 of 28 on
  config["max_window_layers"] = 20;
  EXPECT_EQ(windowed(), 8);
  const Architecture qwen2 = architecture_of(config, "c", Purpose::plan);
  EXPECT_EQ(qwen2.kind_of(19), LayerKind::attention);
  EXPECT_EQ(qwen2.kind_of(20), LayerKind::sliding_attention);
  EXPECT_EQ(qwen2.window, 131072);
  config["layer_types"] =
      std::vector<std::string>(28, "full_attention");  // which count, where they are there
  config["layer_types"][3] = "sliding_attention";
  EXPECT_EQ(windowed(), 1);
  EXPECT_EQ(architecture_of(config, "c", Purpose::plan).kind_of(3), LayerKind::sliding_attention);
}

TEST(PlannableModels, BiasesStandWhereTheFamilyHasThem) {
  const Architecture qwen2 = planned("qwen2.5-7b");
  EXPECT_TRUE(qwen2.attention_bias);
  EXPECT_FALSE(qwen2.output_bias);
  EXPECT_FALSE(qwen2.query_key_norm);
  const Architecture qwen3 = planned("qwen3-8b");
  EXPECT_FALSE(qwen3.attention_bias);
  EXPECT_TRUE(qwen3.query_key_norm);
}

std::string refusal(const Json& config, Purpose purpose = Purpose::plan) {
  const auto failure = failure_of([&] { architecture_of(config, "c", purpose); });
  if (!failure) return "accepted";
  EXPECT_EQ(failure->code, ExitCode::model_file);
  return failure->message;
}

TEST(PlannableModels, AreRefusedForTrainingInOneSentence) {
  EXPECT_EQ(refusal(example_config("qwen3-30b-a3b"), Purpose::train),
            "c: model_type is \"qwen3_moe\"; such models can be planned but not trained yet, only models of "
            "the types llama, mistral, qwen2 and qwen3 can be trained");
  EXPECT_EQ(
      refusal(example_config("qwen3.6-27b"), Purpose::train),
      "c: model_type is \"qwen3_5_text\"; such models can be planned but not trained yet, only models of "
      "the types llama, mistral, qwen2 and qwen3 can be trained");
  EXPECT_EQ(refusal(example_config("llama-3.1-8b"), Purpose::train), "accepted");
}

TEST(PlannableModels, WhatCannotBePlannedIsNamed) {
  const auto changed = [](const std::string& name, const std::string& key, const Json& value) {
    Json config = example_config(name);
    Json& settings = config.contains("text_config") ? config["text_config"] : config;
    settings[key] = value;
    return refusal(config);
  };
  EXPECT_EQ(changed("qwen3-8b", "model_type", "mamba"),
            "c: model_type is \"mamba\"; only models of the types llama, mistral, qwen2, qwen2_moe, qwen3, "
            "qwen3_moe, qwen3_next, qwen3_5, qwen3_5_text, qwen3_5_moe and qwen3_5_moe_text can be planned");
  EXPECT_EQ(changed("qwen3-8b", "architectures", Json::array({"Qwen3ForSequenceClassification"})),
            "c: architectures names \"Qwen3ForSequenceClassification\"; only language models can be planned");
  EXPECT_EQ(changed("qwen3-8b", "hidden_act", "gelu"),
            "c: hidden_act is \"gelu\"; only 'silu' can be planned");
  EXPECT_EQ(changed("qwen3-8b", "layer_types", Json::array({"full_attention"})),
            "c: layer_types must be a list of one name for each of the 36 layers");
  EXPECT_EQ(
      changed("qwen3-8b", "layer_types", Json(std::vector<std::string>(36, "recurrent"))),
      "c: layer_types names \"recurrent\"; only full_attention, sliding_attention and linear_attention can "
      "be planned");
  EXPECT_EQ(changed("qwen3-8b", "layer_types", Json(std::vector<std::string>(36, "linear_attention"))),
            "c: layer_types names \"linear_attention\", which models of the type qwen3 do not have; get the "
            "file again");
  EXPECT_EQ(
      changed("qwen3-8b", "layer_types", Json(std::vector<std::string>(36, "sliding_attention"))),
      "c: layer_types names \"sliding_attention\", but there is no window: sliding_window is not set, or "
      "use_sliding_window is not true, or models of the type qwen3 have none");
  EXPECT_EQ(
      changed("mistral-7b-v0.1", "layer_types", Json(std::vector<std::string>(32, "full_attention"))),
      "c: layer_types names \"full_attention\", but with sliding_window set all layers of models of the "
      "type mistral have the window");
  EXPECT_EQ(changed("qwen3.6-27b", "linear_num_value_heads", 40),
            "c: text_config.linear_num_value_heads is 40, which linear_num_key_heads, 16, does not divide; "
            "get the file again");
  EXPECT_EQ(
      changed("qwen3.6-27b", "linear_conv_kernel_dim", nullptr),
      "c: the key text_config.linear_conv_kernel_dim is missing; add it as the model's authors published "
      "it");
  EXPECT_EQ(changed("qwen3-30b-a3b", "num_experts_per_tok", 200),
            "c: num_experts_per_tok is 200; it must be at most num_experts, 128");
  EXPECT_EQ(changed("qwen3-30b-a3b", "num_experts", 4096),
            "c: num_experts is 4096 in 48 layers, far above every model; correct it");
  EXPECT_EQ(changed("qwen3-30b-a3b", "mlp_only_layers", Json::array({48})),
            "c: mlp_only_layers holds 48; it must hold layers from 0 to 47");
  EXPECT_EQ(changed("qwen3-30b-a3b", "mlp_only_layers", 3),
            "c: mlp_only_layers is 3; it must be a list of layers");
}

}  // namespace
}  // namespace lazytrain
