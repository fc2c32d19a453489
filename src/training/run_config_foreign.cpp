// Keys that users of other training programs carry along.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "formats/text_checks.h"
#include "training/run_config_fields.h"

namespace lazytrain {
namespace {

struct ForeignKey {
  std::string_view name;      // a final * stands for any ending
  std::string_view harmless;  // values that change nothing, separated by spaces; "*" = all
  std::string_view sentence;  // why it changes nothing, or why it cannot be
};

// A null is harmless everywhere.
constexpr auto kForeignKeys = std::to_array<ForeignKey>({
    {"gradient_checkpointing", "*", "the plan decides what is recomputed"},
    {"gradient_checkpointing_kwargs", "*", "the plan decides what is recomputed"},
    {"disable_gradient_checkpointing", "*", "the plan decides what is recomputed"},
    {"use_reentrant_gc", "*", "the plan decides what is recomputed"},
    {"use_unsloth_gc", "*", "the plan decides what is recomputed"},
    {"deepspeed", "*", "the plan decides where weights and states live"},
    {"fsdp", "*", "the plan decides where weights and states live"},
    {"fsdp_config", "*", "the plan decides where weights and states live"},
    {"flash_attn", "*", "attention is always computed in blocks"},
    {"enable_liger_kernel", "*", "projection and loss are always fused"},
    {"use_unsloth", "*", "all kernels are this program's own"},
    {"torch_compile", "*", "all kernels are this program's own"},
    {"tf32", "*", "there is no such mode here"},
    {"upcast_layernorm", "*", "norms are always computed in fp32"},
    {"upcast_lmhead_output", "*", "losses are always computed in fp32"},
    {"pure_bf16", "*", "bf16 weights always have fp32 masters here"},
    {"low_cpu_mem_usage", "*", "weights are read piece by piece"},
    {"use_cache", "*", "generation always has a key-value cache"},
    {"trust_remote_code", "*", "no code of the model's folder is ever run"},
    {"use_fast_tokenizer", "*", "there is one tokenizer"},
    {"cache_dir", "*", "nothing is downloaded"},
    {"hf_hub_token", "*", "nothing is downloaded"},
    {"ddp_timeout", "*", "there is one process"},
    {"ddp_backend", "*", "there is one process"},
    {"ddp_find_unused_parameters", "*", "there is one process"},
    {"local_rank", "*", "there is one process"},
    {"dataloader_num_workers", "*", "batches are prepared beside the training"},
    {"dataloader_pin_memory", "*", "batches are prepared beside the training"},
    {"dataloader_persistent_workers", "*", "batches are prepared beside the training"},
    {"remove_unused_columns", "*", "only the columns that are needed are read"},
    {"neat_packing", "*", "packed samples are always isolated from each other"},
    {"logging_dir", "*", "logs are written to output_dir"},
    {"run_name", "*", "there is no outside tracker"},
    {"log_level", "*", "messages are set on the command line"},
    {"disable_tqdm", "*", "the bar is drawn on terminals only"},
    {"include_num_input_tokens_seen", "*", "tokens are always counted"},
    {"include_tokens_per_second", "*", "tokens are always counted"},
    {"save_safetensors", "*", "models are always saved as safetensors"},
    {"do_eval", "*", "eval_strategy decides"},
    {"compute_accuracy", "*", "`lazytrain eval` counts exact matches"},
    {"logging_strategy", "steps", "log lines come every logging_steps; use steps"},
    {"save_strategy", "steps", "checkpoints come every save_steps; use steps"},
    {"fp16", "false no off", "fp16 is not supported; use bf16: true"},
    {"streaming", "false no off", "datasets are read whole"},
    {"group_by_length", "false no off", "slots are packed instead; use packing: true"},
    {"do_predict", "false no off", "use `lazytrain eval` or `lazytrain generate`"},
    {"predict_with_generate", "false no off", "use `lazytrain eval`"},
    {"push_to_hub", "false no off", "nothing is uploaded"},
    {"ignore_data_skip", "false no off", "a resumed run always continues at its sample"},
    {"resize_vocab", "false no off", "the vocabulary is never changed"},
    {"split_special_tokens", "false no off", "special tokens are never split"},
    {"shift_attn", "false no off", "attention is always full"},
    {"label_smoothing_factor", "0 0.0", "label smoothing is not supported"},
    {"neftune_noise_alpha", "", "noise on embeddings is not supported"},
    {"rope_scaling", "", "the model's own position scaling is used"},
    {"lr_scheduler_kwargs", "", "schedules have no further arguments"},
    {"data_seed", "", "one seed decides everything; use seed"},
    {"default_system", "", "put the system message into the dataset"},
    {"tokenized_path", "", "tokens are kept in the cache and found there"},
    {"evaluation_strategy", "no", "the key is called eval_strategy now"},
    {"lora_*", "", "there is no LoRA here: all parameters are trained"},
    {"use_rslora", "false no off", "there is no LoRA here: all parameters are trained"},
    {"use_dora", "false no off", "there is no LoRA here: all parameters are trained"},
    {"loraplus_*", "", "there is no LoRA here: all parameters are trained"},
    {"additional_target", "", "there is no LoRA here: all parameters are trained"},
    {"adapter_name_or_path", "", "there are no adapters here: merge it into the model first"},
    {"quantization_*", "", "a quantised model cannot be trained in all its parameters"},
    {"freeze_*", "", "all parameters are trained here"},
    {"use_galore", "false no off", "the optimizer here is AdamW"},
});

bool matches(std::string_view pattern, std::string_view key) {
  return pattern.ends_with('*') ? key.starts_with(pattern.substr(0, pattern.size() - 1)) : key == pattern;
}

bool harmless(const ForeignKey& foreign, const YamlNode& node) {
  if (foreign.harmless == "*" || node.kind == YamlNode::Kind::null) return true;
  if (node.kind != YamlNode::Kind::scalar) return false;
  std::string text = node.text;
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  for (std::string_view rest = foreign.harmless; !rest.empty();) {
    const std::size_t space = rest.find(' ');
    if (rest.substr(0, space) == text) return true;
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  return false;
}

// Insertions, deletions, replacements and swaps of neighbours that lead from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> current(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    std::swap(before_last, last);
    std::swap(last, current);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> foreign_key_notice(const ConfigValue& value) {
  for (const ForeignKey& foreign : kForeignKeys) {
    if (!matches(foreign.name, value.key)) continue;
    if (harmless(foreign, value.node)) {
      return fmt::format("{}: {} changes nothing here: {}", value.where, value.key, foreign.sentence);
    }
    const std::string what = value.node.kind == YamlNode::Kind::scalar ? in_quotes(value.node.text) : "this";
    const bool advises = foreign.sentence.find(';') != std::string_view::npos;
    fail(ExitCode::usage, "{}: {}: {} is not supported: {}{}", value.where, value.key, what, foreign.sentence,
         advises ? "" : "; remove the key");
  }
  return std::nullopt;
}

std::string nearest_key(std::string_view key) {
  if (key.size() > 100) return "";
  std::string nearest;
  // A third of the letters may be wrong; more and the guess would be noise.
  std::size_t best = std::max<std::size_t>(2, key.size() / 3) + 1;
  for (const ConfigField& field : config_fields()) {
    const std::size_t distance = edit_distance(key, field.name);
    if (distance < best) {
      best = distance;
      nearest = field.name;
    }
  }
  return nearest;
}

}  // namespace lazytrain
