// config.json -> Architecture. To train, whatever changes the maths and is not built here is refused; to
// plan, only what has no known sizes.
#include "model/architecture.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"
#include "model/config_document.h"
#include "model/config_reader.h"
#include "model/model_family.h"
#include "model/rope_config.h"

namespace lazytrain {
namespace {

// Far above every published model.
constexpr std::int64_t kMostLayers = 1024;
constexpr std::int64_t kWidest = 1 << 20;
constexpr std::int64_t kWidestFfn = 1 << 22;
constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kWidestHead = 1 << 12;
constexpr std::int64_t kLargestVocabulary = 1 << 24;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 31;
constexpr double kMostParameters = 1e15;  // of 18 bytes each, at most, in a step
constexpr std::uintmax_t kLargestConfig = 16 << 20;

std::filesystem::path config_path(const std::filesystem::path& given) {
  std::error_code ignored;
  if (std::filesystem::is_directory(given, ignored)) {
    require_folder(given, ExitCode::model_file);
    if (is_missing(given / "config.json")) {
      fail(ExitCode::model_file,
           "{}: there is no config.json in this folder; give the folder of a Hugging Face model",
           given.string());
    }
    return given / "config.json";
  }
  if (is_missing(given)) {
    fail(ExitCode::model_file, "{}: no such model folder; check the path", given.string());
  }
  if (given.extension() == ".gguf") {
    fail(ExitCode::model_file,
         "{}: this is a GGUF file; make a model folder of it with 'lazytrain import' first", given.string());
  }
  return given;
}

nlohmann::json parse_config(const std::filesystem::path& path) {
  std::error_code failure;
  const std::uintmax_t size = std::filesystem::file_size(path, failure);
  if (!failure && size > kLargestConfig) {
    fail(ExitCode::model_file, "{}: {} bytes are too many for a config.json; give the model's folder",
         path.string(), size);
  }
  return read_json(path, ExitCode::model_file);
}

// Classes of language models: by name, since models that see too have other endings.
bool is_language_model(const std::string& name) {
  return name.ends_with("ForCausalLM") || name.ends_with("ForConditionalGeneration");
}

const ModelFamily& check_kind(const ConfigReader& config, Purpose purpose) {
  const auto type = config.text("model_type");
  if (!type) {
    fail(ExitCode::model_file, "{}: the key model_type is missing; give the config.json of a language model",
         config.where());
  }
  const ModelFamily* family = find_family(*type);
  if (family == nullptr && purpose == Purpose::plan) {
    fail(ExitCode::model_file, "{}: model_type is {}; only models of the types {} can be planned",
         config.where(), shown(nlohmann::json(*type)), family_names());
  }
  if (family == nullptr || (purpose == Purpose::train && !family->is_trainable())) {
    fail(ExitCode::model_file, "{}: model_type is {}; {}only models of the types {} can be trained",
         config.where(), shown(nlohmann::json(*type)),
         family == nullptr ? "" : "such models can be planned but not trained yet, ", trained_family_names());
  }
  if (const nlohmann::json* classes = config.find("architectures"); classes != nullptr) {
    if (!classes->is_array()) {
      fail(ExitCode::model_file, "{}: architectures is {}; it must be a list of class names", config.where(),
           shown(*classes));
    }
    const bool known = std::any_of(classes->begin(), classes->end(), [&](const nlohmann::json& name) {
      if (!name.is_string()) return false;
      return purpose == Purpose::train ? name == family->trained_class
                                       : is_language_model(name.get<std::string>());
    });
    if (!classes->empty() && !known) {
      if (purpose == Purpose::plan)
        fail(ExitCode::model_file, "{}: architectures names {}; only language models can be planned",
             config.where(), shown(classes->front()));
      fail(ExitCode::model_file,
           "{}: architectures names {}; of models of the type {} only {} can be trained", config.where(),
           shown(classes->front()), *type, family->trained_class);
    }
  }
  return *family;
}

// Settings that change what the model computes and that nothing here implements.
void refuse_unsupported(const ConfigReader& config, const ModelFamily& family, Purpose purpose) {
  const std::string activation = config.text("hidden_act").value_or("silu");
  if (activation != "silu") {
    fail(ExitCode::model_file, "{}: hidden_act is {}; only 'silu' can be {}", config.where(),
         shown(nlohmann::json(activation)), purpose == Purpose::train ? "trained" : "planned");
  }
  if (config.find("quantization_config") != nullptr) {
    fail(ExitCode::model_file,
         "{}: quantization_config is set, so the weights are quantised; take the model's unquantised version",
         config.where());
  }
  if (purpose == Purpose::plan) return;
  if (const nlohmann::json* window = config.find("sliding_window");
      family.windows == Windows::none && window != nullptr && config.flag("use_sliding_window", true)) {
    fail(ExitCode::model_file,
         "{}: sliding_window is {}; models of the type {} are trained without windows only", config.where(),
         shown(*window), family.model_type);
  }
  if (const auto dropout = config.number("attention_dropout", 0.0, 1.0); dropout && *dropout != 0.0) {
    fail(ExitCode::model_file, "{}: attention_dropout is {}; dropout cannot be trained, set it to 0",
         config.where(), *dropout);
  }
}

// Each size alone may be as large as it is; all of them together must leave every sum of bytes in 63 bits.
void check_total(const ConfigReader& config, const Architecture& a) {
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };
  const double attention = number(a.heads + a.kv_heads) * number(a.head_dim) * 2;
  const double linear = number(a.linear.projected_width() + a.linear.value_width());
  const double experts = number(a.experts.count) * number(a.experts.ffn) + number(a.experts.shared_ffn);
  const double layer = number(a.hidden) * (attention + linear + 3 * (number(a.ffn) + experts));
  const double parameters = number(a.layers) * layer + 2 * number(a.vocab) * number(a.hidden);
  if (parameters <= kMostParameters) return;
  fail(ExitCode::model_file,
       "{}: its sizes together (num_hidden_layers, hidden_size, intermediate_size, heads, vocab_size) make "
       "{:.1e} parameters, far above every model; correct them",
       config.where(), parameters);
}

void read_sizes(const ConfigReader& config, const ModelFamily& family, Architecture& a) {
  a.layers = config.required_size("num_hidden_layers", kMostLayers);
  a.hidden = config.required_size("hidden_size", kWidest);
  // Where all layers have experts, there is no dense MLP.
  a.ffn = family.experts ? config.size("intermediate_size", kWidestFfn).value_or(0)
                         : config.required_size("intermediate_size", kWidestFfn);
  a.vocab = config.required_size("vocab_size", kLargestVocabulary);
  a.max_position = config.size("max_position_embeddings", kMostPositions)
                       .value_or(family.is_trainable() ? 2048 : kMostPositions);
  a.heads = config.required_size("num_attention_heads", kMostHeads);
  a.kv_heads = config.size("num_key_value_heads", kMostHeads).value_or(a.heads);
  if (a.heads % a.kv_heads != 0) {
    fail(ExitCode::model_file,
         "{}: num_attention_heads is {}, which num_key_value_heads, {}, does not divide; get the file again",
         config.where(), a.heads, a.kv_heads);
  }
  if (const auto head_dim = config.size("head_dim", kWidestHead)) {
    a.head_dim = *head_dim;
  } else if (family.head_dim > 0) {
    a.head_dim = family.head_dim;
  } else {
    if (a.hidden % a.heads != 0) {
      fail(ExitCode::model_file,
           "{}: hidden_size is {}, which num_attention_heads, {}, does not divide, and there is no head_dim; "
           "add it",
           config.where(), a.hidden, a.heads);
    }
    a.head_dim = a.hidden / a.heads;
  }
  if (a.head_dim % 2 != 0 || a.head_dim > kWidestHead) {
    fail(ExitCode::model_file, "{}: head_dim is {}; it must be an even number up to {}", config.where(),
         a.head_dim, kWidestHead);
  }
}

// A token id; `otherwise` a sentence. Negative ids are how old configs say "none".
std::optional<std::int32_t> token_id(const ConfigReader& config, const std::string& key,
                                     const nlohmann::json& value, std::int64_t vocab) {
  if (value.is_number_integer() && !value.is_number_unsigned()) return std::nullopt;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocab)) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be a token id below vocab_size, {}", config.where(),
         key, shown(value), vocab);
  }
  return value.get<std::int32_t>();
}

void read_tokens(const ConfigReader& config, Architecture& a) {
  if (const nlohmann::json* bos = config.find("bos_token_id"); bos != nullptr) {
    a.bos_token = token_id(config, "bos_token_id", *bos, a.vocab);
  }
  if (const nlohmann::json* padding = config.find("pad_token_id"); padding != nullptr) {
    a.padding_token = token_id(config, "pad_token_id", *padding, a.vocab);
    // As torch.nn.Embedding counts: -1 is the last row.
    if (!a.padding_token && padding->is_number_integer() && *padding >= -a.vocab)
      a.padding_token = static_cast<std::int32_t>(a.vocab + padding->get<std::int64_t>());
  }
  const nlohmann::json* eos = config.find("eos_token_id");
  if (eos == nullptr) return;
  const auto add = [&](const nlohmann::json& value) {
    if (const auto id = token_id(config, "eos_token_id", value, a.vocab)) a.eos_tokens.push_back(*id);
  };
  if (eos->is_array()) {
    std::for_each(eos->begin(), eos->end(), add);
  } else {
    add(*eos);
  }
}

// "torch.bfloat16" and "bfloat16" are the same; transformers 5 writes `dtype`, before it was `torch_dtype`.
std::string read_dtype(const ConfigReader& config) {
  const auto name = config.text("dtype");
  std::string dtype = name ? *name : config.text("torch_dtype").value_or("");
  constexpr std::string_view prefix = "torch.";
  if (dtype.starts_with(prefix)) dtype.erase(0, prefix.size());
  return dtype;
}

// Models that see keep the language model's settings in an object of their own; what stands outside (the tied
// head, the class) counts where that does not say otherwise.
std::optional<nlohmann::json> text_settings(const nlohmann::json& document) {
  if (!document.is_object() || document.contains("hidden_size")) return std::nullopt;
  const auto inner = document.find("text_config");
  if (inner == document.end() || !inner->is_object()) return std::nullopt;
  nlohmann::json settings = document;
  settings.erase("text_config");
  settings.update(*inner);
  return settings;
}

}  // namespace

Architecture architecture_of(const nlohmann::json& document, const std::string& where, Purpose purpose) {
  const std::optional<nlohmann::json> nested = text_settings(document);
  const ConfigReader config(nested ? *nested : document, where, nested ? "text_config." : "");
  const ModelFamily& family = check_kind(config, purpose);
  refuse_unsupported(config, family, purpose);

  Architecture a;
  a.model_type = family.model_type;
  read_sizes(config, family, a);
  read_layers(config, family, a);
  check_total(config, a);
  if (a.ffn == 0 && (a.layers_of(LayerKind::attention) > 0 || a.layers_of(LayerKind::sliding_attention) > 0 ||
                     a.layers_of(LayerKind::linear_attention) > 0))
    a.ffn = config.required_size("intermediate_size", kWidestFfn);
  a.tied_head = config.flag("tie_word_embeddings", false);
  a.rms_epsilon = config.number("rms_norm_eps", 0.0, 1.0).value_or(1e-6);
  if (purpose == Purpose::train) {
    a.rope = read_rope(config, a.max_position);
    // Published settings of yarn leave max_position_embeddings at what the model was trained with before.
    if (a.rope.kind == RopeKind::yarn)
      a.max_position = std::max(
          a.max_position, static_cast<std::int64_t>(std::min(a.rope.factor * a.rope.original_max_position,
                                                             static_cast<double>(kMostPositions))));
  }
  read_tokens(config, a);
  a.checkpoint_dtype = read_dtype(config);
  return a;
}

Architecture read_architecture(const std::filesystem::path& folder_or_config, Purpose purpose) {
  const std::filesystem::path path = config_path(folder_or_config);
  return architecture_of(parse_config(path), path.string(), purpose);
}

}  // namespace lazytrain
