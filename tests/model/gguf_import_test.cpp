// GGUF -> Hugging Face folder: settings, row order, rounding, tokenizer, refusals, and nothing left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/gguf_import_support.h"
#include "model/rope.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Two layers of hidden 32, four query heads and two key heads of 8, ffn 48, eight tokens.
std::vector<Shape> shapes(bool biases, bool untied) {
  std::vector<Shape> list = {{"token_embd.weight", {8, 32}}};
  for (const std::string layer : {"0", "1"}) {
    const std::string p = "blk." + layer + ".";
    for (const Shape& shape : std::vector<Shape>{{"attn_norm.weight", {32}},
                                                 {"attn_q.weight", {32, 32}},
                                                 {"attn_k.weight", {16, 32}},
                                                 {"attn_v.weight", {16, 32}},
                                                 {"attn_output.weight", {32, 32}},
                                                 {"ffn_norm.weight", {32}},
                                                 {"ffn_gate.weight", {48, 32}},
                                                 {"ffn_up.weight", {48, 32}},
                                                 {"ffn_down.weight", {32, 48}}}) {
      list.push_back({p + shape.name, shape.sizes});
      const std::string stem = p + shape.name.substr(0, shape.name.find('.'));
      if (biases && shape.sizes.size() == 2) list.push_back({stem + ".bias", {shape.sizes[0]}});
    }
  }
  list.push_back({"output_norm.weight", {32}});
  if (untied) list.push_back({"output.weight", {8, 32}});
  return list;
}

GgufBuilder small_gguf(bool biases = false, bool untied = false) {
  GgufBuilder file;
  file.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.context_length", 64)
      .u32("llama.embedding_length", 32)
      .u32("llama.feed_forward_length", 48)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.rope.freq_base", 100000.0F)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5F)
      .u32("llama.rope.dimension_count", 8)
      .text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "smollm")
      .texts("tokenizer.ggml.tokens", {"<|end|>", "<tool>", "a", "b", "\xC4\xA0", "ab",
                                       "\xC4\xA0"
                                       "ab",
                                       "[PAD7]"})
      .ints("tokenizer.ggml.token_type", {3, 4, 1, 1, 1, 1, 1, 5})
      .texts("tokenizer.ggml.merges", {"a b", "\xC4\xA0 ab"})
      .u32("tokenizer.ggml.bos_token_id", 0)
      .u32("tokenizer.ggml.eos_token_id", 0)
      .text("tokenizer.chat_template", "{{ messages[0]['content'] }}");
  const std::vector<Shape> list = shapes(biases, untied);
  for (std::size_t t = 0; t < list.size(); ++t) {
    std::size_t elements = 1;
    for (const std::int64_t size : list[t].sizes) elements *= static_cast<std::size_t>(size);
    std::vector<float> values(elements);
    for (std::size_t i = 0; i < elements; ++i) values[i] = cell(t, i);
    file.tensor(list[t].name, list[t].sizes, values);
  }
  return file;
}

std::size_t index_of(const std::vector<Shape>& list, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::find(list, name, &Shape::name) - list.begin());
}

TEST(GgufImport, ConfigHasTheFilesSettings) {
  const Imported model(small_gguf().bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  EXPECT_EQ(model.json("config.json"), Json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 0,
    "eos_token_id": 0, "head_dim": 8, "hidden_act": "silu", "hidden_size": 32, "intermediate_size": 48,
    "max_position_embeddings": 64, "mlp_bias": false, "model_type": "llama", "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "pad_token_id": null, "rms_norm_eps": 1e-05,
    "rope_scaling": null, "rope_theta": 100000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
    "use_cache": true, "vocab_size": 8})"));
  EXPECT_EQ(model.json("generation_config.json"), Json::parse(R"({"bos_token_id": 0, "eos_token_id": 0})"));
  EXPECT_EQ(ModelFolder(model.out).architecture().rope.theta, 100000.0);
}

// Row r of head h in Hugging Face's order was stored at 2 r for r < 4, and at 2 (r - 4) + 1 above.
TEST(GgufImport, RowsOfQueriesAndKeysComeBackInOrder) {
  const Imported model(small_gguf(true).bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const std::vector<Shape> list = shapes(true, false);
  constexpr std::size_t stored_row[] = {0, 2, 4, 6, 1, 3, 5, 7};
  for (const auto& [theirs, ours, heads] :
       {std::tuple{"blk.1.attn_q", "model.layers.1.self_attn.q_proj", 4},
        std::tuple{"blk.0.attn_k", "model.layers.0.self_attn.k_proj", 2}}) {
    const auto weight = values_of(model.out, std::string(ours) + ".weight");
    const auto bias = values_of(model.out, std::string(ours) + ".bias");
    const std::size_t weight_index = index_of(list, std::string(theirs) + ".weight");
    const std::size_t bias_index = index_of(list, std::string(theirs) + ".bias");
    ASSERT_EQ(bias.size(), static_cast<std::size_t>(heads) * 8);
    for (std::size_t row = 0; row < bias.size(); ++row) {
      const std::size_t from = row / 8 * 8 + stored_row[row % 8];
      EXPECT_EQ(bias[row], cell(bias_index, from)) << ours << " row " << row;
      for (std::size_t column = 0; column < 32; ++column) {
        ASSERT_EQ(weight[row * 32 + column], cell(weight_index, from * 32 + column))
            << ours << " row " << row;
      }
    }
  }
}

TEST(GgufImport, OtherTensorsKeepTheirOrder) {
  const Imported model(small_gguf(true, true).bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const std::vector<Shape> list = shapes(true, true);
  for (const auto& [theirs, ours] :
       {std::pair{"token_embd.weight", "model.embed_tokens.weight"},
        std::pair{"output_norm.weight", "model.norm.weight"}, std::pair{"output.weight", "lm_head.weight"},
        std::pair{"blk.1.attn_norm.weight", "model.layers.1.input_layernorm.weight"},
        std::pair{"blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"},
        std::pair{"blk.0.attn_v.bias", "model.layers.0.self_attn.v_proj.bias"},
        std::pair{"blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"},
        std::pair{"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        std::pair{"blk.1.ffn_gate.weight", "model.layers.1.mlp.gate_proj.weight"},
        std::pair{"blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"},
        std::pair{"blk.1.ffn_up.bias", "model.layers.1.mlp.up_proj.bias"},
        std::pair{"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"}}) {
    const auto values = values_of(model.out, ours);
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], cell(index_of(list, theirs), i)) << ours;
  }
  EXPECT_FALSE(ModelFolder(model.out).architecture().tied_head);
}

// 1 + 2^-8 lies between two bf16 numbers: to even it goes down to 1; 1 + 3 x 2^-8 goes up to 1 + 2^-6.
TEST(GgufImport, WeightsAreRoundedToNearestEven) {
  GgufBuilder file = small_gguf();
  std::vector<float> norm(32, 1.00390625F);
  norm[1] = 1.01171875F;
  const Imported model(file.tensor("output_norm.weight", {32}, norm).bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const auto values = values_of(model.out, "model.norm.weight");
  EXPECT_EQ(values[0], 1.0F);
  EXPECT_EQ(values[1], 1.015625F);
}

TEST(GgufImport, TokenizerOfSmolLM) {
  const Imported model(small_gguf().bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const Json tokenizer = model.json("tokenizer.json");
  EXPECT_EQ(tokenizer["normalizer"], nullptr);
  EXPECT_EQ(tokenizer["post_processor"], nullptr);
  EXPECT_EQ(tokenizer["pre_tokenizer"], Json::parse(R"({"type": "Sequence", "pretokenizers": [
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})"));
  EXPECT_EQ(tokenizer["decoder"]["type"], "ByteLevel");
  EXPECT_EQ(tokenizer["added_tokens"], Json::parse(R"([
    {"id": 0, "content": "<|end|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
     "special": true},
    {"id": 1, "content": "<tool>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
     "special": false}])"));
  EXPECT_EQ(tokenizer["model"]["type"], "BPE");
  EXPECT_EQ(tokenizer["model"]["ignore_merges"], false);
  // The padding token has no text of its own.
  EXPECT_EQ(tokenizer["model"]["vocab"],
            Json::parse(R"({"<|end|>": 0, "<tool>": 1, "a": 2, "b": 3, "Ġ": 4, "ab": 5, "Ġab": 6})"));
  EXPECT_EQ(tokenizer["model"]["merges"], Json::parse(R"(["a b", "Ġ ab"])"));
  EXPECT_EQ(model.json("special_tokens_map.json"),
            Json::parse(R"({"bos_token": "<|end|>", "eos_token": "<|end|>"})"));
  const Json settings = model.json("tokenizer_config.json");
  EXPECT_EQ(settings["chat_template"], "{{ messages[0]['content'] }}");
  EXPECT_EQ(settings["model_max_length"], 64);
  EXPECT_EQ(settings["eos_token"], "<|end|>");
}

TEST(GgufImport, OtherPreTokenizers) {
  const Imported gpt2(small_gguf().text("tokenizer.ggml.pre", "gpt-2").bytes());
  ASSERT_FALSE(gpt2.failure) << gpt2.failure->message;
  EXPECT_EQ(gpt2.json("tokenizer.json")["pre_tokenizer"]["type"], "ByteLevel");

  const Imported qwen(small_gguf().text("tokenizer.ggml.pre", "qwen2").bytes());
  ASSERT_FALSE(qwen.failure) << qwen.failure->message;
  EXPECT_EQ(qwen.json("tokenizer.json")["normalizer"]["type"], "NFC");
  EXPECT_EQ(
      qwen.json("tokenizer.json")["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"],
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");

  const Imported llama(
      small_gguf().text("tokenizer.ggml.pre", "llama-bpe").u32("tokenizer.ggml.eot_token_id", 2).bytes());
  ASSERT_FALSE(llama.failure) << llama.failure->message;
  const Json tokenizer = llama.json("tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["ignore_merges"], true);
  EXPECT_EQ(tokenizer["post_processor"]["processors"][1], Json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "<|end|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "<|end|>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}}})"));
  EXPECT_EQ(llama.json("config.json")["eos_token_id"], Json::parse("[0, 2]"));
  EXPECT_EQ(llama.json("generation_config.json")["eos_token_id"], Json::parse("[0, 2]"));
}

// Merges by hand: "▁ab" (score -1) comes of ▁ + ab or ▁a + b, and goes before "ab" and "▁a".
GgufBuilder sentencepiece_gguf() {
  return small_gguf()
      .text("tokenizer.ggml.model", "llama")
      .remove("tokenizer.ggml.pre")
      .remove("tokenizer.ggml.merges")
      .texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "\u2581", "a", "b", "ab",
                                       "\u2581"
                                       "ab",
                                       "\u2581"
                                       "a"})
      .ints("tokenizer.ggml.token_type", {2, 3, 1, 1, 1, 1, 1, 1})
      .floats("tokenizer.ggml.scores", {0, 0, -9, -8, -7, -2, -1, -3})
      .u32("tokenizer.ggml.bos_token_id", 1)
      .u32("tokenizer.ggml.eos_token_id", 1);
}

TEST(GgufImport, SentencepieceScoresBecomeMerges) {
  const Imported model(sentencepiece_gguf().bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  const Json tokenizer = model.json("tokenizer.json");
  EXPECT_EQ(tokenizer["model"]["merges"],
            Json::parse(R"([["▁", "ab"], ["▁a", "b"], ["a", "b"], ["▁", "a"]])"));
  EXPECT_EQ(tokenizer["model"]["byte_fallback"], true);
  EXPECT_EQ(tokenizer["model"]["unk_token"], "<unk>");
  EXPECT_EQ(tokenizer["normalizer"]["normalizers"].size(), 2);
  EXPECT_EQ(tokenizer["pre_tokenizer"], nullptr);
  EXPECT_EQ(tokenizer["decoder"]["decoders"].size(), 4);
  EXPECT_EQ(tokenizer["post_processor"]["type"], "TemplateProcessing");
  EXPECT_EQ(tokenizer["added_tokens"].size(), 2);

  const Imported bare(sentencepiece_gguf()
                          .boolean("tokenizer.ggml.add_space_prefix", false)
                          .boolean("tokenizer.ggml.add_bos_token", false)
                          .bytes());
  ASSERT_FALSE(bare.failure) << bare.failure->message;
  EXPECT_EQ(bare.json("tokenizer.json")["normalizer"]["normalizers"].size(), 1);
  EXPECT_EQ(bare.json("tokenizer.json")["decoder"]["decoders"].size(), 3);
  EXPECT_EQ(bare.json("tokenizer.json")["post_processor"], nullptr);
}

// Converters store the divisors of the frequencies; factor 8, low 1, high 4, original 8192 (formulas of
// rope.h).
TEST(GgufImport, Llama3ScalingIsRecognised) {
  GgufBuilder file = small_gguf();
  file.f32("llama.rope.freq_base", 500000.0F);
  std::vector<float> divisors;
  for (int i = 0; i < 4; ++i) {
    const double wavelength = 2 * M_PI * std::pow(500000.0, 2.0 * i / 8);
    double divisor = 1.0;
    if (wavelength > 8192.0) {
      divisor = 8.0;
    } else if (wavelength > 2048.0) {
      const double t = (8192.0 / wavelength - 1.0) / 3.0;
      divisor = 1.0 / ((1 - t) / 8.0 + t);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  const Imported model(file.tensor("rope_freqs.weight", {4}, divisors).bytes());
  ASSERT_FALSE(model.failure) << model.failure->message;
  EXPECT_EQ(
      model.json("config.json")["rope_scaling"],
      Json::parse(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 8192})"));
  divisors[1] *= 1.5F;
  const Imported other(file.tensor("rope_freqs.weight", {4}, divisors).bytes());
  ASSERT_TRUE(other.failure);
  EXPECT_THAT(other.failure->message,
              testing::EndsWith(
                  ": rope_freqs.weight is not the scaling of a Llama 3 model; no other can be trained"));
}

TEST(GgufImport, LinearAndYarnScaling) {
  const auto scaling = [](const GgufBuilder& file) {
    const Imported model(file.bytes());
    EXPECT_FALSE(model.failure) << model.failure->message;
    return model.json("config.json")["rope_scaling"];
  };
  EXPECT_EQ(scaling(small_gguf().f32("llama.rope.scale_linear", 2.0F)),
            Json::parse(R"({"rope_type": "linear", "factor": 2.0})"));
  EXPECT_EQ(
      scaling(small_gguf().text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0F)),
      Json::parse(R"({"rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(scaling(small_gguf()
                        .text("llama.rope.scaling.type", "yarn")
                        .f32("llama.rope.scaling.factor", 4.0F)
                        .u32("llama.rope.scaling.original_context_length", 16)),
            Json::parse(R"({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})"));
  EXPECT_EQ(scaling(small_gguf().text("llama.rope.scaling.type", "none")), nullptr);
}

void expect_refusal(const GgufBuilder& file, const std::string& sentence) {
  const Imported model(file.bytes());
  ASSERT_TRUE(model.failure) << sentence;
  EXPECT_EQ(model.failure->code, ExitCode::model_file);
  EXPECT_EQ(model.failure->message, (model.folder.path() / "model.gguf").string() + sentence);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(model.folder.path())) ++files;
  EXPECT_EQ(files, 1) << "something besides model.gguf is left in the folder";
}

TEST(GgufImport, RefusesWhatItCannotTurnIntoALlama) {
  expect_refusal(small_gguf().text("general.architecture", "gemma3"),
                 ": general.architecture is 'gemma3'; only llama, qwen2 and qwen3 can be imported");
  expect_refusal(small_gguf().u32("llama.expert_count", 8),
                 ": llama.expert_count is 8; models with experts cannot be imported; take one without");
  expect_refusal(
      small_gguf().text("llama.rope.scaling.type", "longrope"),
      ": llama.rope.scaling.type is 'longrope'; only none, linear, yarn and llama3's can be trained");
  expect_refusal(small_gguf().f32("llama.rope.scaling.attn_factor", 1.5F),
                 ": llama.rope.scaling.attn_factor is 1.5; only 1 can be trained");
  expect_refusal(small_gguf().u32("llama.rope.dimension_count", 4),
                 ": llama.rope.dimension_count is 4, the head dimension 8; only equal ones can be trained");
  expect_refusal(small_gguf().u32("llama.attention.key_length", 8).u32("llama.attention.value_length", 16),
                 ": llama.attention.key_length is 8 but value_length 16; only equal ones can be trained");
  expect_refusal(small_gguf().u32("llama.attention.head_count", 5),
                 ": llama.embedding_length is 32, which llama.attention.head_count, 5, does not divide; "
                 "convert the file anew");
  expect_refusal(
      small_gguf().u32("llama.attention.head_count_kv", 3),
      ": num_attention_heads is 4, which num_key_value_heads, 3, does not divide; get the file again");
}

TEST(GgufImport, RefusesTensorsThatDoNotFit) {
  expect_refusal(small_gguf().remove_tensor("blk.1.ffn_up.weight"),
                 ": tensor blk.1.ffn_up.weight is missing; the file is incomplete: download it again");
  expect_refusal(small_gguf().tensor("blk.1.ffn_up.weight", {16, 32}, std::vector<float>(512)),
                 ": tensor blk.1.ffn_up.weight has the shape [16, 32], but the file's settings make it [48, "
                 "32]; convert the file anew");
  expect_refusal(small_gguf().tensor("blk.1.attn_q_norm.weight", {8}, std::vector<float>(8)),
                 ": tensor 'blk.1.attn_q_norm.weight' is not part of a llama model and would be lost; import "
                 "a file without it");
}

TEST(GgufImport, RefusesTokenizersItCannotWrite) {
  expect_refusal(
      small_gguf().text("tokenizer.ggml.model", "t5"),
      ": tokenizer.ggml.model is 't5'; only 'gpt2' (byte-level BPE) and 'llama' (BPE by scores) can "
      "be imported");
  expect_refusal(sentencepiece_gguf().floats("tokenizer.ggml.scores", {1}),
                 ": tokenizer.ggml.scores has 1 entries for 8 tokens; convert the file anew");
  expect_refusal(sentencepiece_gguf().floats("tokenizer.ggml.scores", {0, 0, 0, 0, NAN, 0, 0, 0}),
                 ": tokenizer.ggml.scores has one that is not a number; convert the file anew");
  expect_refusal(
      small_gguf().text("tokenizer.ggml.pre", "deepseek-llm"),
      ": tokenizer.ggml.pre is 'deepseek-llm'; only smollm, gpt-2, llama-bpe and qwen2 can be imported");
  expect_refusal(small_gguf().u32("tokenizer.ggml.eos_token_id", 8),
                 ": tokenizer.ggml.eos_token_id is 8, but there are 8 tokens; convert the file anew");
  expect_refusal(small_gguf().ints("tokenizer.ggml.token_type", {1, 2}),
                 ": tokenizer.ggml.token_type has 2 entries for 8 tokens; convert the file anew");
  expect_refusal(small_gguf().texts("tokenizer.ggml.tokens", {"x", "y", "a", "b", "c", "ab", "\xFF", "z"}),
                 ": token 6 of tokenizer.ggml.tokens is not UTF-8 text; convert the file anew");
  expect_refusal(small_gguf().texts("tokenizer.ggml.tokens", {"x", "y", "a", "b", "c", "ab", "a", "z"}),
                 ": token 6 of tokenizer.ggml.tokens, 'a', is there twice; convert the file anew");
  expect_refusal(small_gguf().texts("tokenizer.ggml.merges", {"a b", "b a"}),
                 ": merge 1 of tokenizer.ggml.merges, 'b a', does not join two tokens to a third; convert "
                 "the file anew");
  expect_refusal(small_gguf().text("tokenizer.chat_template", "\xC3"),
                 ": tokenizer.chat_template is not UTF-8 text; convert the file anew");
}

TEST(GgufImport, TheFolderMustBeEmptyOrAbsent) {
  const TemporaryFolder folder;
  const fs::path gguf = folder.write("model.gguf", small_gguf().bytes());
  fs::create_directories(folder.path() / "deep" / "empty");
  std::int64_t last = 0, whole = 0;
  import_gguf(gguf, folder.path() / "deep" / "empty" / "", [&](std::int64_t done, std::int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    whole = total;
  });
  EXPECT_EQ(last, whole);
  EXPECT_EQ(whole, 2 * parameter_count(read_architecture(folder.path() / "deep" / "empty")));
  EXPECT_FALSE(fs::exists(folder.path() / "deep" / ("empty.tmp-" + std::to_string(::getpid()))));

  const auto full = failure_of([&] { import_gguf(gguf, folder.path() / "deep" / "empty", {}); });
  ASSERT_TRUE(full);
  EXPECT_EQ(full->code, ExitCode::usage);
  EXPECT_EQ(full->message, (folder.path() / "deep" / "empty").string() +
                               ": this folder is not empty; choose another one or empty it");
  const auto file = failure_of([&] { import_gguf(gguf, gguf, {}); });
  ASSERT_TRUE(file);
  EXPECT_EQ(file->message, gguf.string() + ": a file of that name is there; choose another folder");
}

// Damage before the payload: refused in one line or imported, never worse.
TEST(GgufImport, DamagedFilesAreRefusedOrRead) {
  std::size_t metadata = 0;
  const std::string whole = small_gguf().bytes(&metadata);
  Random random(11);
  int accepted = 0;
  for (int round = 0; round < 400; ++round) {
    std::string damaged = whole;
    for (std::uint64_t i = 0; i <= random.below(3); ++i) {
      damaged[random.below(metadata)] =
          static_cast<char>(random.below(4) == 0 ? random.below(256) : random.below(9));
    }
    const Imported model(damaged);
    if (!model.failure) {
      ++accepted;
      continue;
    }
    EXPECT_EQ(model.failure->code, ExitCode::model_file) << model.failure->message;
    EXPECT_EQ(model.failure->message.find('\n'), std::string::npos) << model.failure->message;
    EXPECT_FALSE(fs::exists(model.out));
  }
  EXPECT_LT(accepted, 400);
}

// The demo's model, where the checkout has it. Sums and norms are those of an independent dequantisation.
TEST(GgufImport, SmolLM2) {
  const fs::path gguf = fs::path(LAZYTRAIN_SOURCE_DIR) / "build/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!fs::exists(gguf)) GTEST_SKIP() << gguf << " is not there; `make demo` fetches it";
  const TemporaryFolder folder;
  import_gguf(gguf, folder.path() / "model", {});
  const ModelFolder model(folder.path() / "model");
  EXPECT_EQ(parameter_count(model.architecture()), 134'515'008);
  EXPECT_TRUE(model.architecture().tied_head);
  struct Expected {
    const char* name;
    double sum, norm;
    float first;
  };
  for (const Expected& expected :
       {Expected{"model.embed_tokens.weight", -15355.332664489746, 721.3912048782497, -0.10644531F},
        Expected{"model.layers.0.self_attn.q_proj.weight", 59.65101623535156, 163.55194688285167,
                 -0.09619141F},
        Expected{"model.layers.0.self_attn.k_proj.weight", 26.967453002929688, 132.28586863991404,
                 -0.15527344F},
        Expected{"model.layers.0.self_attn.v_proj.weight", 4.777923583984375, 15.565775585679223,
                 0.10546875F}}) {
    const auto values = values_of(folder.path() / "model", expected.name);
    double sum = 0, squares = 0;
    for (const float value : values) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    EXPECT_NEAR(sum, expected.sum, 1e-6) << expected.name;
    EXPECT_NEAR(std::sqrt(squares), expected.norm, 1e-6) << expected.name;
    EXPECT_FLOAT_EQ(values[0], expected.first) << expected.name;
  }
}

}  // namespace
}  // namespace lazytrain
