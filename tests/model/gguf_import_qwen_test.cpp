// GGUF files of Qwen models -> Hugging Face folders: biases, norms of heads, heads of their own width.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/gguf_import_support.h"

namespace lazytrain {
namespace {

using Json = nlohmann::json;

// The small model's metadata under another architecture's name.
GgufBuilder qwen_gguf(const std::string& architecture) {
  GgufBuilder file;
  const std::string prefix = architecture + ".";
  file.text("general.architecture", architecture)
      .u32(prefix + "block_count", 1)
      .u32(prefix + "context_length", 64)
      .u32(prefix + "embedding_length", 32)
      .u32(prefix + "feed_forward_length", 48)
      .u32(prefix + "attention.head_count", 4)
      .u32(prefix + "attention.head_count_kv", 2)
      .f32(prefix + "rope.freq_base", 1000000.0F)
      .f32(prefix + "attention.layer_norm_rms_epsilon", 1e-6F)
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "qwen2")
      .texts("tokenizer.ggml.tokens", {"<|end|>", "a", "b", "ab"})
      .ints("tokenizer.ggml.token_type", {3, 1, 1, 1})
      .texts("tokenizer.ggml.merges", {"a b"})
      .u32("tokenizer.ggml.eos_token_id", 0);
  return file;
}

// Fills in every tensor of the list; returns the values by its name.
std::map<std::string, std::vector<float>> add_tensors(GgufBuilder& file, const std::vector<Shape>& list) {
  std::map<std::string, std::vector<float>> values;
  for (std::size_t t = 0; t < list.size(); ++t) {
    std::int64_t elements = 1;
    for (const std::int64_t size : list[t].sizes) elements *= size;
    std::vector<float>& mine = values[list[t].name];
    for (std::int64_t i = 0; i < elements; ++i) mine.push_back(cell(t, static_cast<std::size_t>(i)));
    file.tensor(list[t].name, list[t].sizes, mine);
  }
  return values;
}

// Rows of q and k stay where they are, as both sides rotate the same pairs.
TEST(GgufImport, Qwen2HasBiasesAndKeepsItsRows) {
  GgufBuilder file = qwen_gguf("qwen2");
  const auto values = add_tensors(file, {{"token_embd.weight", {4, 32}},
                                         {"blk.0.attn_norm.weight", {32}},
                                         {"blk.0.attn_q.weight", {32, 32}},
                                         {"blk.0.attn_q.bias", {32}},
                                         {"blk.0.attn_k.weight", {16, 32}},
                                         {"blk.0.attn_k.bias", {16}},
                                         {"blk.0.attn_v.weight", {16, 32}},
                                         {"blk.0.attn_v.bias", {16}},
                                         {"blk.0.attn_output.weight", {32, 32}},
                                         {"blk.0.ffn_norm.weight", {32}},
                                         {"blk.0.ffn_gate.weight", {48, 32}},
                                         {"blk.0.ffn_up.weight", {48, 32}},
                                         {"blk.0.ffn_down.weight", {32, 48}},
                                         {"output_norm.weight", {32}},
                                         {"output.weight", {4, 32}}});
  const Imported model(file.bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const Json config = model.json("config.json");
  EXPECT_EQ(config["model_type"], "qwen2");
  EXPECT_EQ(config["architectures"], Json::array({"Qwen2ForCausalLM"}));
  EXPECT_EQ(config["rope_theta"], 1e6);
  EXPECT_FALSE(config.contains("attention_bias"));
  EXPECT_EQ(model.json("tokenizer_config.json")["model_max_length"], 64);
  const ModelFolder folder(model.out);
  EXPECT_TRUE(folder.architecture().attention_bias);
  EXPECT_FALSE(folder.architecture().output_bias);
  EXPECT_FALSE(folder.architecture().tied_head);
  for (const auto& [theirs, ours] : {std::pair{"blk.0.attn_q.weight", "self_attn.q_proj.weight"},
                                     std::pair{"blk.0.attn_q.bias", "self_attn.q_proj.bias"},
                                     std::pair{"blk.0.attn_k.weight", "self_attn.k_proj.weight"},
                                     std::pair{"blk.0.attn_k.bias", "self_attn.k_proj.bias"},
                                     std::pair{"blk.0.attn_v.bias", "self_attn.v_proj.bias"}})
    EXPECT_EQ(values_of(model.out, std::string("model.layers.0.") + ours), values.at(theirs)) << ours;
  const Imported without(file.remove_tensor("blk.0.attn_k.bias").bytes());
  ASSERT_TRUE(without.failure);
  EXPECT_THAT(
      without.failure->message,
      testing::EndsWith(": tensor blk.0.attn_k.bias is missing; the file is incomplete: download it again"));
}

TEST(GgufImport, Qwen3HasHeadNormsAndHeadsOfTheirOwnWidth) {
  GgufBuilder file = qwen_gguf("qwen3");
  file.u32("qwen3.attention.key_length", 16).u32("qwen3.attention.value_length", 16);
  const auto values = add_tensors(file, {{"token_embd.weight", {4, 32}},
                                         {"blk.0.attn_norm.weight", {32}},
                                         {"blk.0.attn_q.weight", {64, 32}},
                                         {"blk.0.attn_k.weight", {32, 32}},
                                         {"blk.0.attn_v.weight", {32, 32}},
                                         {"blk.0.attn_q_norm.weight", {16}},
                                         {"blk.0.attn_k_norm.weight", {16}},
                                         {"blk.0.attn_output.weight", {32, 64}},
                                         {"blk.0.ffn_norm.weight", {32}},
                                         {"blk.0.ffn_gate.weight", {48, 32}},
                                         {"blk.0.ffn_up.weight", {48, 32}},
                                         {"blk.0.ffn_down.weight", {32, 48}},
                                         {"output_norm.weight", {32}}});
  const Imported model(file.bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  EXPECT_EQ(model.json("config.json")["architectures"], Json::array({"Qwen3ForCausalLM"}));
  EXPECT_EQ(model.json("config.json")["head_dim"], 16);
  const ModelFolder folder(model.out);
  EXPECT_TRUE(folder.architecture().query_key_norm);
  EXPECT_TRUE(folder.architecture().tied_head);
  for (const auto& [theirs, ours] : {std::pair{"blk.0.attn_q.weight", "self_attn.q_proj.weight"},
                                     std::pair{"blk.0.attn_k.weight", "self_attn.k_proj.weight"},
                                     std::pair{"blk.0.attn_q_norm.weight", "self_attn.q_norm.weight"},
                                     std::pair{"blk.0.attn_k_norm.weight", "self_attn.k_norm.weight"}})
    EXPECT_EQ(values_of(model.out, std::string("model.layers.0.") + ours), values.at(theirs)) << ours;
}

}  // namespace
}  // namespace lazytrain
