#include "training/run_config.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "core/file.h"
#include "data/packing.h"
#include "formats/text_checks.h"
#include "plan/machine.h"
#include "training/run_config_fields.h"

namespace lazytrain {
namespace {

constexpr const char* kCommandLine = "command line";

std::vector<ConfigValue> values_of_file(std::string_view text, const std::string& where) {
  const YamlNode root = parse_yaml(text, where, ExitCode::usage);
  if (root.kind == YamlNode::Kind::null) return {};
  if (root.kind != YamlNode::Kind::mapping) {
    fail(ExitCode::usage, "{}: {} where `key: value` lines belong", where, describe(root.kind));
  }
  std::vector<ConfigValue> values;
  for (std::size_t i = 0; i < root.keys.size(); ++i) {
    const YamlKey& key = root.keys[i];
    values.push_back(
        {.key = key.text, .node = root.items[i], .where = fmt::format("{}:{}", where, key.line)});
  }
  return values;
}

// "key=value": a text, a list in brackets, or null.
ConfigValue value_of_override(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == 0 || equals == std::string::npos) {
    fail(ExitCode::usage, "{}: {} is not of the form key=value; write it so", kCommandLine,
         in_quotes(argument));
  }
  ConfigValue value{.key = argument.substr(0, equals), .node = {}, .where = kCommandLine};
  const std::string text = argument.substr(equals + 1);
  if (text.starts_with('[') || text.starts_with('"') || text.starts_with('\'')) {
    value.node = parse_yaml(text, fmt::format("{}: {}", kCommandLine, value.key), ExitCode::usage);
  } else if (!text.empty() && text != "null" && text != "~") {
    value.node.kind = YamlNode::Kind::scalar;
    value.node.text = text;
  }
  return value;
}

// Where each key was set, for messages about values that do not go together.
using Places = std::map<std::string, std::string, std::less<>>;

std::string place(const Places& places, std::string_view key) {
  const auto found = places.find(key);
  return found == places.end() ? std::string(key) : fmt::format("{}: {}", found->second, key);
}

void reconcile_precision(RunConfig& config, const Places& places) {
  const bool said_bf16 = places.contains("bf16");
  const bool said_fp32 = places.contains("fp32");
  if (said_bf16 && said_fp32 && config.bf16 == config.fp32) {
    // Of a key in the file and one on the command line the latter wins, as it does with one key.
    const bool bf16_wins = places.at("bf16") == kCommandLine && places.at("fp32") != kCommandLine;
    const bool fp32_wins = places.at("fp32") == kCommandLine && places.at("bf16") != kCommandLine;
    if (bf16_wins || fp32_wins) {
      if (fp32_wins) config.bf16 = !config.fp32;
      config.fp32 = !config.bf16;
      return;
    }
    fail(ExitCode::usage, "{}: {} and bf16: {} contradict each other; one of the two must be true",
         place(places, "fp32"), config.fp32, config.bf16);
  }
  if (said_fp32 && !said_bf16) config.bf16 = !config.fp32;
  config.fp32 = !config.bf16;
}

// resume_from_checkpoint may be a truth value, as Hugging Face has it.
void reconcile_resume(RunConfig& config) {
  if (config.resume_from_checkpoint == "true" || config.resume_from_checkpoint == "True") {
    config.resume_from_checkpoint = "auto";
  } else if (config.resume_from_checkpoint == "false" || config.resume_from_checkpoint == "False") {
    config.resume_from_checkpoint.reset();
  }
}

// Keys that change nothing beside the others, a line each. Only where somebody gave them a value of their
// own: a saved run.yaml holds every key.
void notice_idle_keys(const RunConfig& config, const Places& places, std::vector<std::string>& notices) {
  struct Idle {
    std::string_view key;
    bool idle;
    std::string_view beside;
  };
  const bool unified = config.memory_model == "unified", no_saves = config.save_steps == 0;
  const RunConfig defaults;
  for (const auto& [key, idle, beside] :
       {Idle{"host_memory", unified, "memory_model: unified (device_memory is the budget for everything)"},
        Idle{"pinned_memory", unified, "memory_model: unified"},
        Idle{"disk_for_speed", config.states_home == "host", "states_home: host"},
        Idle{"split_cores", unified, "memory_model: unified"},
        Idle{"link_h2d_gbps", unified, "memory_model: unified"},
        Idle{"link_d2h_gbps", unified, "memory_model: unified"},
        Idle{"link_duplex_gbps", unified, "memory_model: unified"},
        Idle{"optimizer_gparams_per_s", unified, "memory_model: unified"},
        Idle{"every_k", config.policy != "every-k", "another policy than every-k"},
        Idle{"eval_steps", config.eval_strategy == "no", "eval_strategy: no"},
        Idle{"save_total_limit", no_saves, "save_steps: 0"},
        Idle{"metric_for_best_model", config.eval_strategy == "no", "eval_strategy: no"},
        Idle{"metric_for_best_model", config.eval_strategy != "no" && no_saves, "save_steps: 0"},
        Idle{"greater_is_better", !config.keeps_best_checkpoint(),
             "neither load_best_model_at_end nor metric_for_best_model in force"},
        Idle{"num_train_epochs", config.max_steps > 0, "max_steps, which wins"},
        Idle{"warmup_ratio", config.warmup_steps > 0, "warmup_steps, which wins"}})
    if (idle && places.contains(key) && key_text(config, key) != key_text(defaults, key))
      notices.push_back(fmt::format("{} changes nothing with {}", place(places, key), beside));
}

// As Hugging Face's Trainer asks for it: the best model is a checkpoint, so evaluations and checkpoints have
// to meet.
void check_best_model(const RunConfig& config, const Places& places) {
  if (!config.load_best_model_at_end) return;
  const std::string key = place(places, "load_best_model_at_end");
  const std::int64_t every = config.steps_between_evaluations();
  const char* name = config.eval_steps ? "eval_steps" : "logging_steps, which stands for eval_steps";
  if (config.eval_strategy == "no")
    fail(ExitCode::usage,
         "{}: nothing is evaluated that could be the best; add eval_strategy: steps, with val_size or "
         "eval_dataset",
         key);
  if (config.save_steps == 0)
    fail(ExitCode::usage,
         "{}: save_steps: 0 keeps no checkpoint that could be the best; give a multiple of {} ({})", key,
         name, every);
  if (config.save_steps % every != 0)
    fail(ExitCode::usage,
         "{}: save_steps: {} is no multiple of {} ({}), so that a checkpoint would have no evaluation; give "
         "save_steps: {}",
         key, config.save_steps, name, every, (config.save_steps / every + 1) * every);
}

// Rates of emulated links, disk and optimizer: 0 is no limit.
void check_rates(const RunConfig& config, const Places& places) {
  for (const auto& [key, rate] : {std::pair{"link_h2d_gbps", config.link_h2d_gbps},
                                  {"link_d2h_gbps", config.link_d2h_gbps},
                                  {"link_duplex_gbps", config.link_duplex_gbps},
                                  {"disk_read_gbps", config.disk_read_gbps},
                                  {"disk_write_gbps", config.disk_write_gbps},
                                  {"optimizer_gparams_per_s", config.optimizer_gparams_per_s}})
    if (rate > 0 && rate < kLeastRate)
      fail(ExitCode::usage, "{}: {} is too slow; give at least {}, or 0 for no limit", place(places, key),
           rate, kLeastRate);
}

void check_together(const RunConfig& config, const Places& places, std::vector<std::string>& notices) {
  if (config.memory_model == "emulated" && !config.device_memory) {
    fail(ExitCode::usage, "{}: an emulated device needs a size; add device_memory, e.g. 240MB",
         place(places, "memory_model"));
  }
  notice_idle_keys(config, places, notices);
  check_rates(config, places);
  check_best_model(config, places);
  if (config.report_to.size() > 1 && std::ranges::find(config.report_to, "none") != config.report_to.end())
    fail(ExitCode::usage, "{}: none beside other values; leave one of the two out",
         place(places, "report_to"));
  if (config.eval_strategy == "steps" && config.val_size == 0 && config.eval_dataset.empty()) {
    fail(ExitCode::usage, "{}: nothing to evaluate on; add val_size or eval_dataset",
         place(places, "eval_strategy"));
  }
  if (config.val_size > 0 && !config.eval_dataset.empty()) {
    fail(ExitCode::usage, "{}: eval_dataset is set too; keep one of the two", place(places, "val_size"));
  }
  if (config.val_size > 1 &&
      config.val_size != static_cast<double>(static_cast<std::int64_t>(config.val_size))) {
    fail(ExitCode::usage, "{}: {} is neither a share below 1 nor a whole number; write one of them",
         place(places, "val_size"), config.val_size);
  }
  if (config.slots_per_step() > kMaxStepTokens / config.cutoff_len) {
    fail(ExitCode::usage,
         "{}: {} slots of {} tokens (per_device_train_batch_size x gradient_accumulation_steps x cutoff_len) "
         "are "
         "more than the {} tokens that a step can have; lower one of them",
         place(places, "per_device_train_batch_size"), config.slots_per_step(), config.cutoff_len,
         kMaxStepTokens);
  }
  if (config.micro_batch && *config.micro_batch > config.slots_per_step()) {
    fail(ExitCode::usage, "{}: {} slots in one layer call, but a step has {}; give no more",
         place(places, "micro_batch"), *config.micro_batch, config.slots_per_step());
  }
  if (config.max_steps == 0) {
    fail(ExitCode::usage, "{}: 0 steps; use -1 to train for num_train_epochs", place(places, "max_steps"));
  }
  if (config.lr_scheduler_type == "constant" && (config.warmup_ratio > 0 || config.warmup_steps > 0)) {
    notices.push_back(fmt::format("{} constant has no warm-up; constant_with_warmup has",
                                  place(places, "lr_scheduler_type")));
  }
}

}  // namespace

LoadedRunConfig parse_run_config(std::string_view text, const std::string& where,
                                 std::span<const std::string> overrides) {
  std::vector<ConfigValue> values = values_of_file(text, where);
  for (const std::string& argument : overrides) values.push_back(value_of_override(argument));

  LoadedRunConfig loaded;
  Places places;
  for (const ConfigValue& value : values) {
    if (const ConfigField* field = find_field(value.key)) {
      set_field(loaded.config, *field, value);
      places[value.key] = value.where;
    } else if (auto notice = foreign_key_notice(value)) {
      loaded.notices.push_back(std::move(*notice));
    } else if (const std::string nearest = nearest_key(value.key); !nearest.empty()) {
      fail(ExitCode::usage, "{}: unknown key {}; did you mean {}?", value.where, in_quotes(value.key),
           nearest);
    } else {
      fail(ExitCode::usage, "{}: unknown key {}; `lazytrain train --help` lists all keys", value.where,
           in_quotes(value.key));
    }
  }
  reconcile_precision(loaded.config, places);
  reconcile_resume(loaded.config);
  check_together(loaded.config, places, loaded.notices);
  return loaded;
}

LoadedRunConfig load_run_config(const std::filesystem::path& path, std::span<const std::string> overrides) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  if (kind != std::filesystem::file_type::fifo && kind != std::filesystem::file_type::character)
    require_file(path, ExitCode::usage);
  return parse_run_config(read_stream(path, std::size_t{1} << 20, ExitCode::usage), path.string(), overrides);
}

void require_keys(const RunConfig& config, std::span<const std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (key_text(config, key) == "null") {
      fail(ExitCode::usage,
           "{} is missing: {}; add it to the configuration or give {}=... on the command line", key,
           find_field(key)->help, key);
    }
  }
}

std::string to_yaml(const RunConfig& config) {
  std::string text;
  std::string_view group;
  for (const ConfigField& field : config_fields()) {
    if (field.group != group) text += fmt::format("{}# {}\n", text.empty() ? "" : "\n", field.group);
    group = field.group;
    if (field.name != "fp32") text += fmt::format("{}: {}\n", field.name, field_text(config, field));
  }
  return text;
}

std::string key_text(const RunConfig& config, std::string_view key) {
  const ConfigField* field = find_field(key);
  check(field != nullptr, "a key of the configuration");
  return field_text(config, *field);
}

}  // namespace lazytrain
