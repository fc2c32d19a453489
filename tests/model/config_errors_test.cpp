// Every refusal of a config.json with its sentence, and thousands of damaged ones.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/random.h"
#include "formats/json.h"
#include "model/architecture.h"
#include "model/config_document.h"
#include "model/model_support.h"

namespace lazytrain {
namespace {

using Json = nlohmann::json;

// The message for a config.json with this text, the path before ": " taken off.
std::string refusal_of_text(const std::string& text) {
  const TemporaryFolder folder;
  const auto path = folder.write("config.json", text);
  const auto failure = failure_of([&] { read_architecture(path); });
  if (!failure) return "accepted";
  EXPECT_EQ(failure->code, ExitCode::model_file);
  EXPECT_TRUE(failure->message.starts_with(path.string() + ":")) << failure->message;
  return failure->message.substr(path.string().size());
}

std::string refusal(const std::string& key, const Json& value) {
  Json config = small_config();
  config[key] = value;
  return refusal_of_text(config.dump());
}

std::string refusal_without(const std::string& key) {
  Json config = small_config();
  config.erase(key);
  return refusal_of_text(config.dump());
}

TEST(ConfigErrors, OtherModels) {
  EXPECT_EQ(refusal("model_type", "qwen3_moe"),
            ": model_type is \"qwen3_moe\"; such models can be planned but not trained yet, only models of "
            "the types "
            "llama, mistral, qwen2 and qwen3 can be trained");
  EXPECT_EQ(
      refusal("model_type", "gpt2"),
      ": model_type is \"gpt2\"; only models of the types llama, mistral, qwen2 and qwen3 can be trained");
  EXPECT_EQ(refusal_without("model_type"),
            ": the key model_type is missing; give the config.json of a language model");
  EXPECT_EQ(refusal("architectures", Json::array({"LlamaForSequenceClassification"})),
            ": architectures names \"LlamaForSequenceClassification\"; of models of the type llama only "
            "LlamaForCausalLM can be trained");
  EXPECT_EQ(refusal("architectures", "LlamaForCausalLM"),
            ": architectures is \"LlamaForCausalLM\"; it must be a list of class names");
  EXPECT_EQ(refusal("hidden_act", "gelu"), ": hidden_act is \"gelu\"; only 'silu' can be trained");
  EXPECT_EQ(
      refusal("quantization_config", {{"bits", 4}}),
      ": quantization_config is set, so the weights are quantised; take the model's unquantised version");
  EXPECT_EQ(refusal("sliding_window", 4096),
            ": sliding_window is 4096; models of the type llama are trained without windows only");
  EXPECT_EQ(
      refusal("layer_types", {"full_attention", "sliding_attention"}),
      ": layer_types names \"sliding_attention\", but there is no window: sliding_window is not set, or "
      "use_sliding_window is not true, or models of the type llama have none");
  EXPECT_EQ(refusal("attention_dropout", 0.1),
            ": attention_dropout is 0.1; dropout cannot be trained, set it to 0");
}

TEST(ConfigErrors, Sizes) {
  EXPECT_EQ(refusal("hidden_size", 0), ": hidden_size is 0; it must be a whole number from 1 to 1048576");
  EXPECT_EQ(refusal("num_hidden_layers", -3),
            ": num_hidden_layers is -3; it must be a whole number from 1 to 1024");
  EXPECT_EQ(refusal("vocab_size", 18446744073709551615u),
            ": vocab_size is 18446744073709551615; it must be a whole number from 1 to 16777216");
  EXPECT_EQ(refusal("intermediate_size", 160.5),
            ": intermediate_size is 160.5; it must be a whole number from 1 to 4194304");
  EXPECT_EQ(refusal("num_attention_heads", "4"),
            ": num_attention_heads is \"4\"; it must be a whole number from 1 to 16384");
  EXPECT_EQ(refusal("num_key_value_heads", 3),
            ": num_attention_heads is 4, which num_key_value_heads, 3, does not divide; get the file again");
  EXPECT_EQ(refusal("num_key_value_heads", 8),
            ": num_attention_heads is 4, which num_key_value_heads, 8, does not divide; get the file again");
  EXPECT_EQ(
      refusal("hidden_size", 66),
      ": hidden_size is 66, which num_attention_heads, 4, does not divide, and there is no head_dim; add it");
  EXPECT_EQ(refusal("head_dim", 15), ": head_dim is 15; it must be an even number up to 4096");
  EXPECT_EQ(refusal("head_dim", 5000), ": head_dim is 5000; it must be a whole number from 1 to 4096");
  EXPECT_EQ(refusal("max_position_embeddings", 0),
            ": max_position_embeddings is 0; it must be a whole number from 1 to 2147483648");
  EXPECT_EQ(refusal_without("vocab_size"),
            ": the key vocab_size is missing; add it as the model's authors published it");
}

TEST(ConfigErrors, OtherValues) {
  EXPECT_EQ(refusal("rms_norm_eps", -1), ": rms_norm_eps is -1; it must be a number from 0 to 1");
  EXPECT_EQ(refusal("rms_norm_eps", "small"), ": rms_norm_eps is \"small\"; it must be a number from 0 to 1");
  EXPECT_EQ(refusal("tie_word_embeddings", 1), ": tie_word_embeddings is 1; it must be true or false");
  EXPECT_EQ(refusal("torch_dtype", 16), ": torch_dtype is 16; it must be a text");
  EXPECT_EQ(refusal("eos_token_id", {2, 300}),
            ": eos_token_id is 300; it must be a token id below vocab_size, 300");
  EXPECT_EQ(refusal("bos_token_id", "<s>"),
            ": bos_token_id is \"<s>\"; it must be a token id below vocab_size, 300");
}

TEST(ConfigErrors, Rope) {
  EXPECT_EQ(
      refusal("rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}),
      ": rope_scaling.type is \"longrope\"; only 'default', 'linear', 'dynamic', 'yarn' and 'llama3' can "
      "be trained");
  EXPECT_EQ(refusal("rope_parameters", {{"rope_type", "mrope"}}),
            ": rope_parameters.rope_type is \"mrope\"; only 'default', 'linear', 'dynamic', 'yarn' and "
            "'llama3' can be trained");
  EXPECT_EQ(refusal("rope_scaling", {{"type", "linear"}}),
            ": the key rope_scaling.factor is missing; add it as the model's authors published it");
  EXPECT_EQ(refusal("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"beta_fast", 1}, {"beta_slow", 2}}),
            ": rope_scaling.beta_fast is 1; it must be above beta_slow, which is 2");
  EXPECT_EQ(refusal("rope_scaling", {{"rope_type", "llama3"}, {"factor", 8.0}}),
            ": the key rope_scaling.low_freq_factor is missing; add it as the model's authors published it");
  EXPECT_EQ(refusal("rope_scaling", {{"rope_type", "llama3"},
                                     {"factor", 8.0},
                                     {"low_freq_factor", 4.0},
                                     {"high_freq_factor", 4.0},
                                     {"original_max_position_embeddings", 8192}}),
            ": rope_scaling.high_freq_factor is 4; it must be above low_freq_factor, which is 4");
  EXPECT_EQ(refusal("rope_scaling", {{"rope_type", "llama3"}, {"factor", 0.5}}),
            ": rope_scaling.factor is 0.5; it must be a number from 1 to 1000000");
  EXPECT_EQ(refusal("rope_scaling", {{"rope_type", "llama3"}, {"type", "linear"}}),
            ": rope_scaling.rope_type is 'llama3' but rope_scaling.type is 'linear'; keep the right one of "
            "the two");
  EXPECT_EQ(refusal("rope_scaling", 2), ": rope_scaling is 2; it must be an object");
  EXPECT_EQ(refusal("rope_theta", 0), ": rope_theta is 0; it must be a number from 1 to 1000000000000");
  EXPECT_EQ(refusal("rope_parameters", {{"rope_theta", 10000.0}}),
            ": rope_theta is 100000 but rope_parameters.rope_theta is 10000; keep the right one of the two");
  EXPECT_EQ(
      refusal("rope_parameters", {{"full_attention", {{"rope_theta", 10000.0}}}}),
      ": rope_theta is 100000 but rope_parameters.full_attention.rope_theta is 10000; keep the right one "
      "of the two");
  EXPECT_EQ(
      refusal("rope_parameters", {{"full_attention", {{"rope_type", "default"}}},
                                  {"sliding_attention", {{"rope_type", "linear"}, {"factor", 2.0}}}}),
      ": rope_parameters.full_attention and rope_parameters.sliding_attention differ; rotary settings of "
      "their own for layer types cannot be trained");
  EXPECT_EQ(refusal("rope_parameters", {{"full_attention", {{"rope_type", "default"}}}, {"factor", 2.0}}),
            ": rope_parameters.factor stands beside the settings of layer types; keep one of the two");
  EXPECT_EQ(refusal("partial_rotary_factor", 0.5),
            ": partial_rotary_factor is 0.5; only models that rotate whole heads (1.0) can be trained");
  Json both = small_config();
  both["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  both["rope_parameters"] = both["rope_scaling"];
  EXPECT_EQ(refusal_of_text(both.dump()), "accepted");
  both["rope_parameters"]["factor"] = 32.0;
  EXPECT_EQ(refusal_of_text(both.dump()),
            ": rope_scaling and rope_parameters disagree; keep the right one of the two");
}

// Each size is within its limit; together they would leave 64 bits in sums over all layers.
TEST(ConfigErrors, SizesThatTogetherMakeNoModelAreRefused) {
  Json huge = small_config();
  huge["num_hidden_layers"] = 1000;
  huge["hidden_size"] = 1 << 20;
  huge["intermediate_size"] = 1 << 22;
  huge["num_attention_heads"] = huge["num_key_value_heads"] = 1 << 14;
  huge["head_dim"] = 1 << 12;
  huge["vocab_size"] = 1 << 24;
  EXPECT_EQ(
      refusal_of_text(huge.dump()),
      ": its sizes together (num_hidden_layers, hidden_size, intermediate_size, heads, vocab_size) make "
      "2.9e+17 parameters, far above every model; correct them");
}

TEST(ConfigErrors, Files) {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  EXPECT_EQ(failure_of([&] { read_architecture(folder.path()); })->message,
            here + ": there is no config.json in this folder; give the folder of a Hugging Face model");
  EXPECT_EQ(failure_of([&] { read_architecture(folder.path() / "nowhere"); })->message,
            here + "/nowhere: no such model folder; check the path");
  const auto gguf = folder.write("model.gguf", "GGUF");
  EXPECT_EQ(failure_of([&] { read_architecture(gguf); })->message,
            gguf.string() + ": this is a GGUF file; make a model folder of it with 'lazytrain import' first");
  EXPECT_EQ(refusal_of_text("[1]"), ": a list where an object of settings was expected; get the file again");
  EXPECT_EQ(refusal_of_text("{\"a\": ").substr(0, 6), ":1:7: ");
  EXPECT_EQ(refusal_of_text("version https://git-lfs.github.com/spec/v1\n"),
            ": a Git-LFS pointer of 43 bytes, not the file itself; fetch it with `git lfs pull`");
}

// Damage at random bytes, and values of random kinds at random keys: refused or read, never worse.
TEST(ConfigErrors, DamagedFilesAreRefusedOrRead) {
  const Json base = small_config();
  const std::string text = base.dump();
  const std::vector<Json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1,
                                    1e300,
                                    9223372036854775807,
                                    18446744073709551615u,
                                    "",
                                    "llama3",
                                    Json::array(),
                                    Json::object(),
                                    {{"rope_type", "llama3"}, {"factor", 1e300}},
                                    Json::array({nullptr, -5}),
                                    3,
                                    0.5};
  Random random(2026);
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string damaged;
    if (round % 2 == 0) {
      damaged = text;
      for (std::uint64_t i = 0; i <= random.below(4); ++i) {
        damaged[random.below(damaged.size())] = static_cast<char>(random.below(256));
      }
      if (random.below(8) == 0) damaged.resize(random.below(damaged.size()));
    } else {
      Json config = base;
      const char* more[] = {"rope_scaling", "rope_parameters", "head_dim", "layer_types", "sliding_window"};
      for (const char* key : more) config[key] = nullptr;
      for (std::uint64_t i = 0; i <= random.below(2); ++i) {
        auto at = config.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(random.below(config.size())));
        *at = values[random.below(values.size())];
      }
      damaged = config.dump();
    }
    const auto failure = failure_of([&] {
      const Architecture a =
          architecture_of(parse_json(damaged, "config.json", ExitCode::model_file), "config.json");
      EXPECT_GT(parameter_count(a), 0);
      EXPECT_GT(stash_bytes(a, a.kind_of(0), StashLevel::all, 1 << 12, 4).value, 0);
      ++accepted;
    });
    if (failure) {
      EXPECT_EQ(failure->code, ExitCode::model_file) << damaged;
      EXPECT_EQ(failure->message.find('\n'), std::string::npos) << failure->message;
      EXPECT_LT(failure->message.size(), 400u) << failure->message;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 4900);
}

}  // namespace
}  // namespace lazytrain
