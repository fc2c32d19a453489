// config.json -> Architecture: both spellings, defaults, and the groups and counts that follow from it.
#include "model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "model/model_support.h"

namespace lazytrain {
namespace {

Architecture read(const nlohmann::json& config) {
  const TemporaryFolder folder;
  return read_architecture(folder.write("config.json", config.dump()));
}

TEST(Architecture, BothSpellingsOfTheGoldensAreTheSameModel) {
  for (const char* name :
       {"llama-gqa-tied", "llama-untied-bias", "llama3-rope", "qwen2", "qwen2-sliding", "qwen3"}) {
    const Architecture now = read_architecture(golden_folder(name));
    const Architecture legacy = read_architecture(golden_folder(name) / "config.legacy.json");
    EXPECT_EQ(now, legacy) << name;
    EXPECT_EQ(now.checkpoint_dtype, "float32") << name;
  }
}

TEST(Architecture, ReadsEveryValueOfTheLlama3Config) {
  const Architecture a = read_architecture(golden_folder("llama3-rope"));
  EXPECT_EQ(a.model_type, "llama");
  EXPECT_EQ(a.layers, 2);
  EXPECT_EQ(a.hidden, 64);
  EXPECT_EQ(a.heads, 2);
  EXPECT_EQ(a.kv_heads, 1);
  EXPECT_EQ(a.head_dim, 32);
  EXPECT_EQ(a.ffn, 160);
  EXPECT_EQ(a.vocab, 300);
  EXPECT_EQ(a.max_position, 131072);
  EXPECT_TRUE(a.tied_head);
  EXPECT_FALSE(a.attention_bias);
  EXPECT_FALSE(a.mlp_bias);
  EXPECT_EQ(a.rms_epsilon, 1e-5);
  EXPECT_EQ(a.rope.kind, RopeKind::llama3);
  EXPECT_EQ(a.rope.theta, 500000.0);
  EXPECT_EQ(a.rope.factor, 32.0);
  EXPECT_EQ(a.rope.low_frequency_factor, 1.0);
  EXPECT_EQ(a.rope.high_frequency_factor, 4.0);
  EXPECT_EQ(a.rope.original_max_position, 8192.0);
  EXPECT_EQ(a.bos_token, 1);
  EXPECT_THAT(a.eos_tokens, testing::ElementsAre(2));
}

TEST(Architecture, FillsInWhatTransformersFillsIn) {
  nlohmann::json config = small_config();
  for (const char* key :
       {"num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "hidden_act",
        "tie_word_embeddings", "bos_token_id", "eos_token_id", "torch_dtype", "architectures"}) {
    config.erase(key);
  }
  const Architecture a = read(config);
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_EQ(a.max_position, 2048);
  EXPECT_EQ(a.rms_epsilon, 1e-6);
  EXPECT_EQ(a.rope.theta, 10000.0);
  EXPECT_FALSE(a.tied_head);
  EXPECT_EQ(a.bos_token, std::nullopt);
  EXPECT_TRUE(a.eos_tokens.empty());
  EXPECT_EQ(a.checkpoint_dtype, "");
}

TEST(Architecture, PaddingTokenIsCountedAsTorchCountsIt) {
  nlohmann::json config = small_config();
  config.erase("pad_token_id");
  EXPECT_EQ(read(config).padding_token, std::nullopt);
  config["pad_token_id"] = nullptr;
  EXPECT_EQ(read(config).padding_token, std::nullopt);
  config["pad_token_id"] = 2;
  EXPECT_EQ(read(config).padding_token, 2);
  config["pad_token_id"] = -1;
  EXPECT_EQ(read(config).padding_token, config["vocab_size"].get<std::int32_t>() - 1);
  config["pad_token_id"] = config["vocab_size"];
  EXPECT_TRUE(failure_of([&] { read(config); }));
}

TEST(Architecture, NullCountsAsAbsentAndUnknownKeysAreIgnored) {
  nlohmann::json config = small_config();
  for (const char* key : {"rope_scaling", "rope_parameters", "head_dim", "sliding_window",
                          "quantization_config", "layer_types", "num_key_value_heads", "pad_token_id"}) {
    config[key] = nullptr;
  }
  config["transformers.js_config"] = {{"kv_cache_dtype", "float16"}};
  config["is_llama_config"] = true;
  config["eos_token_id"] = -1;
  const Architecture a = read(config);
  EXPECT_EQ(a.head_dim, 16);
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_TRUE(a.eos_tokens.empty());
}

TEST(Architecture, AcceptsTheHarmlessFormsOfRefusedKeys) {
  nlohmann::json config = small_config();
  config["head_dim"] = 128;  // not hidden / heads
  config["rope_scaling"] = {{"type", "default"}};
  config["sliding_window"] = 4096;
  config["use_sliding_window"] = false;
  config["layer_types"] = {"full_attention", "full_attention"};
  config["attention_dropout"] = 0;
  config["torch_dtype"] = "torch.float16";
  const Architecture a = read(config);
  EXPECT_EQ(a.query_width(), 512);
  EXPECT_EQ(a.kv_width(), 256);
  EXPECT_EQ(a.qkv_width(), 1024);
  EXPECT_EQ(a.checkpoint_dtype, "float16");
  EXPECT_THAT(a.eos_tokens, testing::ElementsAre(2, 7));
}

// Counts of published models (tensor by tensor from their checkpoints).
TEST(Architecture, CountsTheParametersOfPublishedModels) {
  Architecture smollm2;
  smollm2.layers = 30;
  smollm2.hidden = 576;
  smollm2.heads = 9;
  smollm2.kv_heads = 3;
  smollm2.head_dim = 64;
  smollm2.ffn = 1536;
  smollm2.vocab = 49152;
  smollm2.tied_head = true;
  EXPECT_EQ(parameter_count(smollm2), 134'515'008);
  Architecture llama_8b;
  llama_8b.layers = 32;
  llama_8b.hidden = 4096;
  llama_8b.heads = 32;
  llama_8b.kv_heads = 8;
  llama_8b.head_dim = 128;
  llama_8b.ffn = 14336;
  llama_8b.vocab = 128256;
  EXPECT_EQ(parameter_count(llama_8b), 8'030'261'248);
}

TEST(ParameterGroups, NameEveryTensorOfTheGoldensOnce) {
  const Architecture a = read_architecture(golden_folder("llama-untied-bias"));
  const auto groups = parameter_groups(a);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].kind, GroupKind::embedding);
  EXPECT_EQ(groups[2].kind, GroupKind::layer);
  EXPECT_EQ(groups[2].layer, 1);
  EXPECT_EQ(groups[3].kind, GroupKind::head);
  std::vector<std::string> names;
  for (const ParameterTensor& tensor : groups[2].tensors) names.push_back(tensor.name.substr(15));
  EXPECT_THAT(names, testing::ElementsAre("input_layernorm.weight", "self_attn.q_proj.weight",
                                          "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                                          "self_attn.q_proj.bias", "self_attn.k_proj.bias",
                                          "self_attn.v_proj.bias", "self_attn.o_proj.weight",
                                          "self_attn.o_proj.bias", "post_attention_layernorm.weight",
                                          "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.gate_proj.bias",
                                          "mlp.up_proj.bias", "mlp.down_proj.weight", "mlp.down_proj.bias"));
  EXPECT_EQ(groups[3].tensors[1].name, "lm_head.weight");
}

TEST(ParameterGroups, KeepFusedMatricesTogetherAndAligned) {
  Architecture a = read_architecture(golden_folder("llama-untied-bias"));
  a.hidden = 72;  // norms and biases of 72 leave gaps before what follows
  const ParameterGroup layer = parameter_groups(a)[1];
  const LayerOffsets offsets = layer_offsets(a);
  EXPECT_EQ(offsets.input_norm, 0);
  EXPECT_EQ(offsets.qkv, 128);
  // q, k, v: (64 + 32 + 32) rows of 72; then their biases, then o [72, 64], its bias of 72 and the norm
  // of 72.
  EXPECT_EQ(offsets.qkv_bias, 128 + 128 * 72);
  EXPECT_EQ(offsets.output, offsets.qkv_bias + 128);
  EXPECT_EQ(offsets.output_bias, offsets.output + 72 * 64);
  EXPECT_EQ(offsets.post_norm, offsets.output_bias + 128);
  EXPECT_EQ(offsets.gate_up, offsets.post_norm + 128);
  EXPECT_EQ(offsets.gate_up_bias, offsets.gate_up + 320 * 72);
  EXPECT_EQ(offsets.down, offsets.gate_up_bias + 320);
  EXPECT_EQ(offsets.down_bias, offsets.down + 72 * 160);
  EXPECT_EQ(layer.elements, offsets.down_bias + 128);
  EXPECT_EQ(layer.tensors[2].offset, offsets.qkv + 64 * 72);  // k right behind q
  EXPECT_EQ(layer.tensors[3].offset, offsets.qkv + 96 * 72);  // v right behind k
  for (const std::int64_t offset : {offsets.qkv, offsets.output, offsets.gate_up, offsets.down}) {
    EXPECT_EQ(offset % 64, 0);
  }
  a.attention_bias = a.output_bias = a.mlp_bias = false;
  EXPECT_EQ(layer_offsets(a).qkv_bias, -1);
  EXPECT_EQ(layer_offsets(a).output_bias, -1);
  EXPECT_EQ(layer_offsets(a).gate_up_bias, -1);
  EXPECT_EQ(layer_offsets(a).down_bias, -1);
}

TEST(ParameterGroups, DecayMatricesButNoNormsAndNoBiases) {
  const Architecture a = read_architecture(golden_folder("llama-untied-bias"));
  for (const ParameterGroup& group : parameter_groups(a)) {
    for (const ParameterTensor& tensor : group.tensors) {
      const bool matrix = tensor.shape.size() == 2;
      EXPECT_EQ(tensor.decay, matrix) << tensor.name;
    }
  }
}

TEST(Stash, ItemsAndBytesByHand) {
  const Architecture a = read_architecture(golden_folder("llama-gqa-tied"));
  // Per token in bf16: qkv 128, core 64, mid 64, gate_up 320 elements; lse 4 floats.
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::none, 24, 2).value, 0);
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::attention, 24, 2).value,
            24 * (256 + 128 + 16 + 128));
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::mlp, 24, 2).value, 24 * (128 + 640));
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::all, 24, 2).value,
            24 * (256 + 128 + 16 + 128 + 640));
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::all, 24, 4).value,
            24 * (512 + 256 + 16 + 256 + 1280));
  // One token: the 16 bytes of lse take a cache line.
  EXPECT_EQ(stash_bytes(a, LayerKind::attention, StashLevel::attention, 1, 2).value, 256 + 128 + 64 + 128);
}

TEST(Stash, LevelsHaveNames) {
  for (const StashLevel level : kStashLevels) EXPECT_EQ(stash_level_from(to_string(level)), level);
  const auto failure = failure_of([] { stash_level_from("some"); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code, ExitCode::usage);
  EXPECT_EQ(failure->message, "'some' is not a stash level; choose none, attention, mlp or all");
}

TEST(Flops, ByHand) {
  const Architecture a = read_architecture(golden_folder("llama-gqa-tied"));
  const LayerFlops flops = layer_flops(a, LayerKind::attention, 10.0);
  EXPECT_EQ(flops.attention_block, 2.0 * 64 * 128 + 4.0 * 64 * 10 + 2.0 * 64 * 64);
  EXPECT_EQ(flops.mlp_up, 2.0 * 64 * 320);
  EXPECT_EQ(flops.down_projection, 2.0 * 64 * 160);
  EXPECT_EQ(flops.forward, flops.attention_block + flops.mlp_up + flops.down_projection);
  EXPECT_EQ(head_flops(a), 2.0 * 64 * 300);
}

// 2 key heads of 8, 4 value heads of 16, 3 taps; 4 experts of 24, 2 of them active, and a shared one of 40.
Architecture hybrid() {
  Architecture a;
  a.model_type = "qwen3_5_moe_text";
  a.layers = 4;
  a.hidden = 32;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 8;
  a.ffn = 80;
  a.vocab = 48;
  a.attention_gate = a.query_key_norm = true;
  a.linear = {.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16, .taps = 3};
  a.experts = {.count = 4, .active = 2, .ffn = 24, .shared_ffn = 40};
  a.kinds = {LayerKind::linear_attention, LayerKind::attention, LayerKind::linear_attention_experts,
             LayerKind::attention_experts};
  return a;
}

TEST(LayerKinds, TensorsOfEachKind) {
  const Architecture a = hybrid();
  const auto groups = parameter_groups(a);
  const auto shape = [&](std::size_t group, const std::string& name) {
    for (const ParameterTensor& tensor : groups[group].tensors)
      if (tensor.name == "model.layers." + std::to_string(group - 1) + "." + name) return tensor.shape;
    return std::vector<std::int64_t>{};
  };
  using Shape = std::vector<std::int64_t>;
  EXPECT_EQ(shape(1, "linear_attn.in_proj_qkv.weight"), (Shape{2 * 16 + 64, 32}));
  EXPECT_EQ(shape(1, "linear_attn.in_proj_z.weight"), (Shape{64, 32}));
  EXPECT_EQ(shape(1, "linear_attn.in_proj_a.weight"), (Shape{4, 32}));
  EXPECT_EQ(shape(1, "linear_attn.conv1d.weight"), (Shape{96, 1, 3}));
  EXPECT_EQ(shape(1, "linear_attn.norm.weight"), (Shape{16}));
  EXPECT_EQ(shape(1, "linear_attn.out_proj.weight"), (Shape{32, 64}));
  EXPECT_EQ(shape(1, "self_attn.q_proj.weight"), Shape{});
  EXPECT_EQ(shape(1, "mlp.down_proj.weight"), (Shape{32, 80}));
  EXPECT_EQ(shape(2, "self_attn.q_proj.weight"), (Shape{2 * 32, 32}));
  EXPECT_EQ(shape(2, "self_attn.q_norm.weight"), (Shape{8}));
  EXPECT_EQ(shape(2, "self_attn.o_proj.weight"), (Shape{32, 32}));
  EXPECT_EQ(shape(3, "mlp.gate.weight"), (Shape{4, 32}));
  EXPECT_EQ(shape(3, "mlp.experts.3.up_proj.weight"), (Shape{24, 32}));
  EXPECT_EQ(shape(3, "mlp.shared_expert.down_proj.weight"), (Shape{32, 40}));
  EXPECT_EQ(shape(3, "mlp.shared_expert_gate.weight"), (Shape{1, 32}));
  // By hand: two norms of 32 in every layer.
  const std::int64_t linear = (96 + 64 + 4 + 4) * 32 + 96 * 3 + 4 + 4 + 16 + 64 * 32 + 64;
  const std::int64_t attention = (64 + 16 + 16) * 32 + 8 + 8 + 32 * 32 + 64;
  const std::int64_t dense = 3 * 80 * 32, experts = 4 * 32 + 4 * 3 * 24 * 32 + 3 * 40 * 32 + 32;
  EXPECT_EQ(parameter_count(a), 2 * (linear + attention) + 2 * (dense + experts) + 2 * 48 * 32 + 32);
}

TEST(LayerKinds, StashAndFlopsByHand) {
  const Architecture a = hybrid();
  // Projected in: 96 + 64 + 8; core 64; mid 32; twice the widths of the MLP; lse of softmax attention alone.
  const auto bytes = [&](LayerKind kind, StashLevel level) {
    return stash_bytes(a, kind, level, 32, 2).value;
  };
  EXPECT_EQ(bytes(LayerKind::linear_attention, StashLevel::attention), 64 * (168 + 64 + 32));
  EXPECT_EQ(bytes(LayerKind::linear_attention, StashLevel::mlp), 64 * (32 + 160));
  EXPECT_EQ(bytes(LayerKind::attention, StashLevel::attention), 64 * (96 + 32 + 32) + 32 * 4 * 4);
  EXPECT_EQ(bytes(LayerKind::attention_experts, StashLevel::mlp), 64 * (32 + 2 * (2 * 24 + 40)));
  const LayerFlops linear = layer_flops(a, LayerKind::linear_attention, 10.0);
  EXPECT_EQ(linear.attention_block, 2.0 * 32 * (168 + 64) + 6.0 * 8 * 64);
  const LayerFlops experts = layer_flops(a, LayerKind::attention_experts, 10.0);
  EXPECT_EQ(experts.attention_block, 2.0 * 32 * (96 + 32) + 4.0 * 32 * 10);
  EXPECT_EQ(experts.mlp_up, 4.0 * 32 * 88 + 2.0 * 32 * 4);  // and the router
  EXPECT_EQ(experts.down_projection, 2.0 * 32 * 88);
}

}  // namespace
}  // namespace lazytrain
