#include "model/model_family.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"

namespace lazytrain {
namespace {

// Far above every published model.
constexpr std::int64_t kMostExperts = 1 << 12;
constexpr std::int64_t kMostExpertsOfAllLayers = 1 << 17;
constexpr std::int64_t kWidestFfn = 1 << 22;
constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kWidestHead = 1 << 12;
constexpr std::int64_t kMostTaps = 64;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 31;

constexpr ModelFamily kFamilies[] = {
    {.model_type = "llama", .trained_class = "LlamaForCausalLM", .windows = Windows::none},
    {.model_type = "mistral", .trained_class = "MistralForCausalLM", .windows = Windows::everywhere},
    {.model_type = "qwen2", .trained_class = "Qwen2ForCausalLM", .bias = AttentionBias::query_key_value},
    {.model_type = "qwen2_moe", .bias = AttentionBias::qkv_unless_denied, .experts = true},
    {.model_type = "qwen3", .trained_class = "Qwen3ForCausalLM", .query_key_norm = true, .head_dim = 128},
    {.model_type = "qwen3_moe", .query_key_norm = true, .experts = true},
    {.model_type = "qwen3_next", .query_key_norm = true, .experts = true, .linear_attention = true},
    {.model_type = "qwen3_5", .query_key_norm = true, .linear_attention = true},
    {.model_type = "qwen3_5_text", .query_key_norm = true, .linear_attention = true},
    {.model_type = "qwen3_5_moe", .query_key_norm = true, .experts = true, .linear_attention = true},
    {.model_type = "qwen3_5_moe_text", .query_key_norm = true, .experts = true, .linear_attention = true}};

void read_biases(const ConfigReader& config, const ModelFamily& family, Architecture& a) {
  switch (family.bias) {
    case AttentionBias::by_key:
      a.attention_bias = a.output_bias = config.flag("attention_bias", false);
      break;
    case AttentionBias::query_key_value:
      a.attention_bias = true;
      break;
    case AttentionBias::qkv_unless_denied:
      a.attention_bias = config.flag("qkv_bias", true);
      break;
  }
  a.mlp_bias = config.flag("mlp_bias", false);
}

// layer_types where the config has it, else an empty list.
std::vector<std::string> layer_types(const ConfigReader& config, const Architecture& a) {
  const nlohmann::json* types = config.find("layer_types");
  if (types == nullptr) return {};
  if (!types->is_array() || std::ssize(*types) != a.layers)
    fail(ExitCode::model_file, "{}: {} must be a list of one name for each of the {} layers", config.where(),
         config.name("layer_types"), a.layers);
  std::vector<std::string> names;
  for (const nlohmann::json& type : *types) {
    if (type != "full_attention" && type != "sliding_attention" && type != "linear_attention")
      fail(ExitCode::model_file,
           "{}: {} names {}; only full_attention, sliding_attention and linear_attention can be planned",
           config.where(), config.name("layer_types"), shown(type));
    names.push_back(type.get<std::string>());
  }
  return names;
}

// Which layers have linear attention: layer_types, or all but every full_attention_interval-th.
std::vector<bool> linear_layers(const ConfigReader& config, const ModelFamily& family,
                                const std::vector<std::string>& types, const Architecture& a) {
  constexpr std::int64_t kUsualInterval = 4;
  std::vector<bool> linear(static_cast<std::size_t>(a.layers), false);
  const std::int64_t interval =
      config.size("full_attention_interval", std::int64_t{1} << 20).value_or(kUsualInterval);
  for (std::size_t layer = 0; layer < linear.size(); ++layer) {
    linear[layer] = types.empty()
                        ? family.linear_attention && (static_cast<std::int64_t>(layer) + 1) % interval != 0
                        : types[layer] == "linear_attention";
    if (linear[layer] && !family.linear_attention)
      fail(ExitCode::model_file,
           "{}: {} names \"linear_attention\", which models of the type {} do not have; get the file again",
           config.where(), config.name("layer_types"), a.model_type);
  }
  return linear;
}

LinearAttention read_linear_attention(const ConfigReader& config) {
  const LinearAttention linear{.key_heads = config.required_size("linear_num_key_heads", kMostHeads),
                               .value_heads = config.required_size("linear_num_value_heads", kMostHeads),
                               .key_dim = config.required_size("linear_key_head_dim", kWidestHead),
                               .value_dim = config.required_size("linear_value_head_dim", kWidestHead),
                               .taps = config.required_size("linear_conv_kernel_dim", kMostTaps)};
  if (linear.value_heads % linear.key_heads != 0)
    fail(ExitCode::model_file,
         "{}: {} is {}, which linear_num_key_heads, {}, does not divide; get the file again", config.where(),
         config.name("linear_num_value_heads"), linear.value_heads, linear.key_heads);
  return linear;
}

Experts read_experts(const ConfigReader& config, const Architecture& a) {
  const Experts experts{.count = config.required_size("num_experts", kMostExperts),
                        .active = config.required_size("num_experts_per_tok", kMostExperts),
                        .ffn = config.required_size("moe_intermediate_size", kWidestFfn),
                        .shared_ffn = config.size("shared_expert_intermediate_size", kWidestFfn).value_or(0)};
  if (experts.active > experts.count)
    fail(ExitCode::model_file, "{}: {} is {}; it must be at most num_experts, {}", config.where(),
         config.name("num_experts_per_tok"), experts.active, experts.count);
  if (experts.count * a.layers > kMostExpertsOfAllLayers)
    fail(ExitCode::model_file, "{}: {} is {} in {} layers, far above every model; correct it", config.where(),
         config.name("num_experts"), experts.count, a.layers);
  return experts;
}

// All layers but those of mlp_only_layers and those that decoder_sparse_step leaves out.
std::vector<bool> expert_layers(const ConfigReader& config, const Architecture& a) {
  std::vector<bool> experts(static_cast<std::size_t>(a.layers), true);
  const std::int64_t step = config.size("decoder_sparse_step", std::int64_t{1} << 20).value_or(1);
  for (std::size_t layer = 0; layer < experts.size(); ++layer)
    experts[layer] = (static_cast<std::int64_t>(layer) + 1) % step == 0;
  if (const nlohmann::json* dense = config.find("mlp_only_layers"); dense != nullptr) {
    if (!dense->is_array())
      fail(ExitCode::model_file, "{}: {} is {}; it must be a list of layers", config.where(),
           config.name("mlp_only_layers"), shown(*dense));
    for (const nlohmann::json& layer : *dense) {
      const std::int64_t index = layer.is_number_integer() ? layer.get<std::int64_t>() : -1;
      if (index < 0 || index >= a.layers)
        fail(ExitCode::model_file, "{}: {} holds {}; it must hold layers from 0 to {}", config.where(),
             config.name("mlp_only_layers"), shown(layer), a.layers - 1);
      experts[static_cast<std::size_t>(index)] = false;
    }
  }
  return experts;
}

// Which layers look back through a window, whose size goes to `a.window`.
std::vector<bool> window_layers(const ConfigReader& config, const ModelFamily& family,
                                const std::vector<std::string>& types, Architecture& a) {
  std::vector<bool> windowed(static_cast<std::size_t>(a.layers), false);
  const std::optional<std::int64_t> window = config.size("sliding_window", kMostPositions);
  const bool used = window && family.windows != Windows::none &&
                    config.flag("use_sliding_window", family.windows == Windows::everywhere);
  constexpr double kUsualFullLayers = 28;  // of transformers' configuration classes
  const double full_layers =
      family.windows == Windows::everywhere
          ? 0.0
          : config.number("max_window_layers", 0, kMostPositions).value_or(kUsualFullLayers);
  for (std::size_t layer = 0; layer < windowed.size(); ++layer) {
    const bool named = !types.empty() && types[layer] == "sliding_attention";
    if (named && !used)
      fail(ExitCode::model_file,
           "{}: {} names \"sliding_attention\", but there is no window: sliding_window is not set, or "
           "use_sliding_window is not true, or models of the type {} have none",
           config.where(), config.name("layer_types"), a.model_type);
    if (used && family.windows == Windows::everywhere && !types.empty() && !named)
      fail(ExitCode::model_file,
           "{}: {} names {}, but with sliding_window set all layers of models of the type {} have the window",
           config.where(), config.name("layer_types"), shown(types[layer]), a.model_type);
    windowed[layer] = types.empty() ? used && static_cast<double>(layer) >= full_layers : named;
    if (windowed[layer]) a.window = *window;
  }
  return windowed;
}

// Names of the families that are `wanted`.
template <typename Wanted>
std::string joined(Wanted wanted) {
  std::vector<std::string_view> names;
  for (const ModelFamily& family : kFamilies)
    if (wanted(family)) names.push_back(family.model_type);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace

const ModelFamily* find_family(std::string_view model_type) {
  const auto found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                  [&](const ModelFamily& family) { return family.model_type == model_type; });
  return found == std::end(kFamilies) ? nullptr : &*found;
}

std::string family_names() {
  return joined([](const ModelFamily&) { return true; });
}

std::string trained_family_names() {
  return joined([](const ModelFamily& family) { return family.is_trainable(); });
}

void read_layers(const ConfigReader& config, const ModelFamily& family, Architecture& a) {
  read_biases(config, family, a);
  a.query_key_norm = family.query_key_norm;
  const std::vector<std::string> types = layer_types(config, a);
  const std::vector<bool> windowed = window_layers(config, family, types, a);
  const std::vector<bool> linear = linear_layers(config, family, types, a);
  std::vector<bool> experts(linear.size(), false);
  if (family.linear_attention) {
    a.linear = read_linear_attention(config);
    a.attention_gate = config.flag("attn_output_gate", true);
  }
  if (family.experts) {
    a.experts = read_experts(config, a);
    experts = expert_layers(config, a);
  }
  for (std::size_t layer = 0; layer < linear.size(); ++layer) {
    if (linear[layer])
      a.kinds.push_back(experts[layer] ? LayerKind::linear_attention_experts : LayerKind::linear_attention);
    else if (experts[layer])
      a.kinds.push_back(LayerKind::attention_experts);
    else
      a.kinds.push_back(windowed[layer] ? LayerKind::sliding_attention : LayerKind::attention);
  }
  if (a.layers_of(LayerKind::attention) == a.layers) a.kinds.clear();
}

}  // namespace lazytrain
