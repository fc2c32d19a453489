// Reading parameter groups from a folder and writing folders: bytes, names, shards and small files.
#include "model/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/bfloat16.h"
#include "formats/safetensors.h"
#include "model/model_support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kEmbedding = "model.embed_tokens.weight";
const std::string kNorm = "model.norm.weight";

// Norms of 72 and a head_dim of 18 leave gaps in the groups.
Json odd_config() {
  Json config = small_config();
  config["hidden_size"] = 72;
  config["attention_bias"] = true;
  config["mlp_bias"] = true;
  config["tie_word_embeddings"] = false;
  return config;
}

std::vector<float> stored_values(const Safetensors& file, const std::string& name) {
  const TensorView& tensor = file.at(name);
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  convert_to_float(tensor.type, tensor.bytes, values);
  return values;
}

// An export that changes nothing.
void export_unchanged(const ModelFolder& model, const fs::path& out, const std::string& dtype = "") {
  model.export_to(out, dtype, [&](std::size_t group, std::int64_t first, std::span<float> values) {
    std::vector<float> whole(static_cast<std::size_t>(model.groups()[group].elements));
    model.read_group(group, whole);
    std::ranges::copy(std::span(whole).subspan(static_cast<std::size_t>(first), values.size()),
                      values.begin());
  });
}

void expect_same_tensors(const fs::path& a, const fs::path& b) {
  const Safetensors first = Safetensors::open_folder(a), second = Safetensors::open_folder(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  ASSERT_EQ(first.shards().size(), second.shards().size());
  for (std::size_t i = 0; i < first.tensors().size(); ++i) {
    const TensorView &x = first.tensors()[i], &y = second.tensors()[i];
    EXPECT_EQ(x.name, y.name);
    EXPECT_EQ(x.type, y.type) << x.name;
    EXPECT_EQ(x.shape, y.shape) << x.name;
    EXPECT_EQ(x.shard, y.shard) << x.name;
    EXPECT_TRUE(std::ranges::equal(x.bytes, y.bytes)) << x.name;
  }
}

TEST(ModelFolder, GroupsHoldTheStoredValuesAndZerosBetween) {
  const TemporaryFolder folder;
  write_model(folder.path(), odd_config());
  const ModelFolder model(folder.path());
  const Safetensors file = Safetensors::open_folder(folder.path());
  std::int64_t values_seen = 0, gaps_seen = 0;
  for (std::size_t g = 0; g < model.groups().size(); ++g) {
    const ParameterGroup& group = model.groups()[g];
    std::vector<float> values(static_cast<std::size_t>(group.elements),
                              std::numeric_limits<float>::quiet_NaN());
    model.read_group(g, values);
    std::vector<bool> covered(values.size());
    for (const ParameterTensor& tensor : group.tensors) {
      const std::vector<float> expected = stored_values(file, tensor.name);
      const auto begin = static_cast<std::size_t>(tensor.offset);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(values[begin + i], expected[i]) << tensor.name;
        ASSERT_FALSE(covered[begin + i]) << tensor.name;
        covered[begin + i] = true;
      }
      values_seen += tensor.elements;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (covered[i]) continue;
      EXPECT_EQ(values[i], 0.0F);
      ++gaps_seen;
    }
  }
  EXPECT_EQ(values_seen, parameter_count(model.architecture()));
  EXPECT_GT(gaps_seen, 0);
}

TEST(ModelFolder, GoldensAreExportedByteForByte) {
  for (const char* name :
       {"llama-gqa-tied", "llama-untied-bias", "llama3-rope", "qwen2", "qwen2-sliding", "qwen3"}) {
    const TemporaryFolder out;
    const ModelFolder model(golden_folder(name));
    export_unchanged(model, out.path() / "a" / "b");
    expect_same_tensors(golden_folder(name), out.path() / "a" / "b");
    EXPECT_EQ(content_of(out.path() / "a" / "b" / "config.json"),
              content_of(golden_folder(name) / "config.json"));
    EXPECT_EQ(content_of(out.path() / "a" / "b" / "generation_config.json"),
              content_of(golden_folder(name) / "generation_config.json"));
  }
}

TEST(ModelFolder, MixedTypesAndShardsAreKept) {
  const TemporaryFolder folder, out;
  ModelFiles files;
  files.type = [](const std::string& name) {
    if (name.find("norm") != std::string::npos) return TensorType::f32;
    return name.find("mlp") != std::string::npos ? TensorType::f16 : TensorType::bf16;
  };
  files.largest_shard = 60'000;
  write_model(folder.path(), odd_config(), files);
  const ModelFolder model(folder.path());
  export_unchanged(model, out.path());
  expect_same_tensors(folder.path(), out.path());
  EXPECT_GT(Safetensors::open_folder(out.path()).shards().size(), 3u);
  EXPECT_EQ(Json::parse(content_of(folder.path() / "model.safetensors.index.json"))["weight_map"],
            Json::parse(content_of(out.path() / "model.safetensors.index.json"))["weight_map"]);
}

TEST(ModelFolder, SmallFilesGoAlongAndWeightsOfOtherFormatsDoNot) {
  const TemporaryFolder folder, out;
  write_model(folder.path(), small_config());
  const std::string tokenizer = "{\"not\":  \"looked at\"}\r\n";
  folder.write("tokenizer.json", tokenizer);
  folder.write("chat_template.jinja", "{{ messages }}");
  folder.write("pytorch_model.bin", "x");
  folder.write("pytorch_model.bin.index.json", "{}");
  folder.write("trainer_state.json", "{}");
  folder.write(".gitattributes", "x");
  fs::create_directory(folder.path() / "onnx");
  export_unchanged(ModelFolder(folder.path()), out.path());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(out.path()))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, testing::UnorderedElementsAre("config.json", "model.safetensors", "tokenizer.json",
                                                   "chat_template.jinja"));
  EXPECT_EQ(content_of(out.path() / "tokenizer.json"), tokenizer);
}

// 1 + 2^-8 lies between two bf16 numbers: away from zero it goes to 0x3F81 (ties to even would give 0x3F80).
TEST(ModelFolder, ExportToBfloat16RoundsLikeMasterWeights) {
  const TemporaryFolder folder, out;
  Json config = small_config();
  config["torch_dtype"] = "float32";
  write_model(folder.path(), config);
  const ModelFolder model(folder.path());
  model.export_to(out.path(), "bfloat16", [](std::size_t, std::int64_t, std::span<float> values) {
    std::ranges::fill(values, 1.00390625F);
  });
  const Safetensors file = Safetensors::open_folder(out.path());
  EXPECT_EQ(file.at(kNorm).type, TensorType::bf16);
  for (std::uint64_t i = 0; i < 16; ++i) {
    bfloat16 stored;
    std::memcpy(&stored, file.at(kNorm).bytes.data() + 2 * i, 2);
    EXPECT_EQ(stored, master_to_bfloat16(1.00390625F, i)) << i;
  }
  config["torch_dtype"] = "bfloat16";
  EXPECT_EQ(Json::parse(content_of(out.path() / "config.json")), config);
}

TEST(ModelFolder, TheDtypeKeyKeepsItsSpelling) {
  const TemporaryFolder out;
  const ModelFolder model(golden_folder("llama-gqa-tied"));
  export_unchanged(model, out.path(), "bfloat16");
  Json config = Json::parse(content_of(golden_folder("llama-gqa-tied") / "config.json"));
  config["dtype"] = "bfloat16";
  EXPECT_EQ(Json::parse(content_of(out.path() / "config.json")), config);
}

TEST(ModelFolder, CopiesOfTiedHeadsAndRotaryBuffersAreCarriedAlong) {
  const TemporaryFolder folder, out;
  ModelFiles files;
  files.extra = {{"lm_head.weight", {300, 64}}, {"model.layers.0.self_attn.rotary_emb.inv_freq", {8}}};
  files.copy_of_embedding = "lm_head.weight";
  write_model(folder.path(), small_config(), files);
  const ModelFolder model(folder.path());
  EXPECT_EQ(parameter_count(model.architecture()),
            300 * 64 + 2 * (64 * 128 + 64 * 64 + 3 * 64 * 160 + 128) + 64);
  export_unchanged(model, out.path());
  expect_same_tensors(folder.path(), out.path());

  const TemporaryFolder rounded;
  export_unchanged(model, rounded.path(), "bfloat16");
  const Safetensors file = Safetensors::open_folder(rounded.path());
  EXPECT_EQ(file.at("model.layers.0.self_attn.rotary_emb.inv_freq").type, TensorType::f32);
  EXPECT_TRUE(std::ranges::equal(file.at("lm_head.weight").bytes, file.at(kEmbedding).bytes));
}

std::string open_failure(const Json& config, const ModelFiles& files, const Json& config_after) {
  const TemporaryFolder folder;
  write_model(folder.path(), config, files);
  folder.write("config.json", config_after.dump());
  const auto failure = failure_of([&] { ModelFolder model(folder.path()); });
  if (!failure) return "opened";
  EXPECT_EQ(failure->code, ExitCode::model_file);
  EXPECT_TRUE(failure->message.starts_with(folder.path().string())) << failure->message;
  return failure->message.substr(folder.path().string().size());
}

TEST(ModelFolder, RefusesWhatIsNotTheModel) {
  const Json config = small_config();
  ModelFiles files;
  files.without = {"model.layers.1.mlp.up_proj.weight"};
  EXPECT_EQ(
      open_failure(config, files, config),
      ": tensor model.layers.1.mlp.up_proj.weight is missing, which config.json asks for; the download is "
      "incomplete or of another model");

  Json wider = config;
  wider["intermediate_size"] = 192;
  EXPECT_EQ(open_failure(config, {}, wider),
            ": tensor model.layers.0.mlp.gate_proj.weight has the shape [160, 64], but config.json makes it "
            "[192, 64]; "
            "one of them is not of this model: get both from one place");

  Json biased = config;
  biased["attention_bias"] = true;
  EXPECT_EQ(open_failure(biased, {}, config),
            ": tensor 'model.layers.0.self_attn.q_proj.bias' is not part of the model that config.json "
            "describes and would be lost; get both from one place");

  files = {};
  files.type = [](const std::string& name) { return name == kNorm ? TensorType::f64 : TensorType::f32; };
  EXPECT_EQ(open_failure(config, files, config),
            ": tensor model.norm.weight is stored as F64; only F32, F16 and BF16 can be trained");

  Json untied = config;
  untied["tie_word_embeddings"] = false;
  EXPECT_EQ(open_failure(untied, {}, config),
            ": lm_head.weight differs from model.embed_tokens.weight although config.json sets "
            "tie_word_embeddings; "
            "set it to false if the head is its own");
  EXPECT_EQ(open_failure(config, {}, untied),
            ": tensor lm_head.weight is missing, which config.json asks for; the download is incomplete or "
            "of another "
            "model");
}

TEST(ModelFolder, ExportRefusesWhatItCannotDo) {
  const TemporaryFolder folder, out;
  ModelFiles halves;
  halves.type = [](const std::string&) { return TensorType::f16; };
  write_model(folder.path(), small_config(), halves);
  const ModelFolder model(folder.path());
  const auto too_large = failure_of([&] {
    model.export_to(out.path(), "", [](std::size_t, std::int64_t, std::span<float> values) {
      std::ranges::fill(values, 70000.0F);
    });
  });
  ASSERT_TRUE(too_large);
  EXPECT_EQ(too_large->code, ExitCode::numerics);
  EXPECT_EQ(too_large->message,
            "tensor model.embed_tokens.weight holds 70000, which float16 cannot; export with dtype bfloat16 "
            "or float32");
  EXPECT_TRUE(fs::is_empty(out.path()));

  const auto type = failure_of([&] { export_unchanged(model, out.path(), "int8"); });
  ASSERT_TRUE(type);
  EXPECT_EQ(type->code, ExitCode::usage);
  EXPECT_EQ(
      type->message,
      "'int8' is no type to export to; choose bfloat16 or float32, or leave it out to keep the model's");

  const auto itself = failure_of([&] { export_unchanged(model, folder.path() / "."); });
  ASSERT_TRUE(itself);
  EXPECT_EQ(itself->code, ExitCode::usage);
  EXPECT_EQ(itself->message, (folder.path() / ".").string() +
                                 ": this is the folder the model is read from; choose another one");

  const auto in_the_way = failure_of([&] { export_unchanged(model, out.write("file", "x")); });
  ASSERT_TRUE(in_the_way);
  EXPECT_EQ(in_the_way->code, ExitCode::disk);
}

}  // namespace
}  // namespace lazytrain
