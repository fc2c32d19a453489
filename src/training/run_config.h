// run.yaml: everything that decides a training run, under LLaMA-Factory's key names, with overrides from the
// command line. One table (run_config_fields.cpp) drives reading, defaults, help and printing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace lazytrain {

// Names are the keys of run.yaml. nullopt = not set: decided by the program, as each comment says.
struct RunConfig {
  // model
  std::string model_name_or_path;            // a folder in Hugging Face's layout
  std::optional<std::string> template_name;  // key `template`; not set: the folder's own

  // method
  std::string stage = "sft";
  bool do_train = true;
  std::string finetuning_type = "full";

  // data
  std::vector<std::string> dataset;
  std::vector<std::string> eval_dataset;
  std::string dataset_dir = "data";
  std::int64_t cutoff_len = 2048;  // tokens in a slot
  std::optional<std::int64_t> max_samples;
  double val_size = 0;  // below 1 a share, else a number of samples
  bool packing = true;
  bool train_on_prompt = false;
  bool mask_history = false;
  std::optional<bool> enable_thinking;       // not set: the template decides
  std::optional<std::string> template_date;  // YYYY-MM-DD; not set: today
  std::string overlong = "drop";             // drop | truncate | error
  bool overwrite_cache = false;
  std::string on_bad_sample = "error";        // error | skip
  std::string mix_strategy = "concat";        // concat | interleave_under | interleave_over
  std::vector<std::string> interleave_probs;  // numbers, one a dataset; empty: datasets take turns
  std::optional<std::int64_t> preprocessing_num_workers;  // not set: as many as threads

  // output
  std::string output_dir;
  bool overwrite_output_dir = false;
  std::int64_t logging_steps = 10;
  std::int64_t save_steps = 500;
  std::optional<std::int64_t> save_total_limit;  // not set: all are kept
  bool save_only_model = false;
  std::optional<std::string> resume_from_checkpoint;  // "auto" or a path; not set: a new run
  std::vector<std::string> report_to = {"none"};      // none | jsonl | csv | tensorboard
  bool plot_loss = false;
  bool load_best_model_at_end = false;
  std::optional<std::string> metric_for_best_model;  // loss | eval_loss: the same
  std::optional<bool> greater_is_better;             // not set: false, since the metric is a loss
  std::optional<std::int64_t> trace_step;            // its times are drawn; not set: of no step

  // training
  std::int64_t per_device_train_batch_size = 8;  // slots
  std::int64_t gradient_accumulation_steps = 1;
  double learning_rate = 5e-5;
  double num_train_epochs = 3;
  std::int64_t max_steps = -1;  // above 0: wins over num_train_epochs
  std::string lr_scheduler_type = "linear";
  double warmup_ratio = 0;
  double warmup_steps = 0;  // below 1 a ratio; above 0: wins over warmup_ratio
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1.0;  // 0: no clipping
  std::string optim = "adamw_torch";
  std::string optim_embeddings = "auto";  // auto | fp32 | 8bit
  double optim_hybrid_fraction = 0.5;     // of the parameters, adamw_hybrid
  bool bf16 = true;                       // false: fp32
  bool fp32 = false;                      // the same said the other way round: always !bf16 after loading
  std::uint64_t seed = 42;

  // evaluation
  std::int64_t per_device_eval_batch_size = 8;
  std::string eval_strategy = "no";        // no | steps
  std::optional<std::int64_t> eval_steps;  // not set: logging_steps
  std::int64_t max_new_tokens = 256;

  // machine
  std::string memory_model = "unified";  // unified | emulated
  std::optional<Bytes> device_memory;    // not set: what the system leaves free
  std::optional<Bytes> host_memory;      // likewise
  std::optional<Bytes> pinned_memory;    // of the host; not set: all of it
  std::optional<std::int64_t> threads;   // not set: all cores of this process
  bool split_cores = false;
  double link_h2d_gbps = 0;  // 0: not paced
  double link_d2h_gbps = 0;
  double link_duplex_gbps = 0;
  double optimizer_gparams_per_s = 0;
  std::string states_home = "auto";        // auto | host | disk: optimizer states
  std::optional<std::string> scratch_dir;  // of what is on disk; not set: output_dir
  bool disk_for_speed = false;             // false: only what has no other room goes there
  double disk_read_gbps = 0;               // emulated: 0: not paced
  double disk_write_gbps = 0;
  double max_disk_writes_tb = 1;  // a run that would write more is refused

  // plan
  std::string policy = "auto";
  std::int64_t every_k = 4;                 // of policy every-k
  std::optional<std::int64_t> micro_batch;  // slots in one layer call; not set: the planner's choice
  std::string optimizer_overlap = "auto";   // auto | on | off
  std::optional<std::string> calibration;   // file of measured costs; not set: the default place
  std::string replan = "auto";              // auto | off
  bool debug_memory = false;
  bool debug_skip_update = false;
  std::int64_t debug_link_step = 0;  // emulated: from this step on (0: never)...
  double debug_link_factor = 1;      // ...links run at this part of their rates

  bool operator==(const RunConfig&) const = default;

  // Slots of one optimizer step.
  [[nodiscard]] std::int64_t slots_per_step() const {
    return per_device_train_batch_size * gradient_accumulation_steps;
  }
  [[nodiscard]] std::int64_t steps_between_evaluations() const { return eval_steps.value_or(logging_steps); }
  // The checkpoint of the best evaluation is wanted: it is never deleted, and only evaluations of steps that
  // are saved count.
  [[nodiscard]] bool keeps_best_checkpoint() const {
    return eval_strategy != "no" && save_steps > 0 && (load_best_model_at_end || metric_for_best_model);
  }
};

struct LoadedRunConfig {
  RunConfig config;
  std::vector<std::string> notices;  // one line each: keys of other programs that change nothing here
};

// Reads a file and applies `overrides`, each "key=value". Error(usage), with file, line and key, where a key
// is unknown (naming the nearest), a value has the wrong type or range, or values contradict each other.
[[nodiscard]] LoadedRunConfig load_run_config(const std::filesystem::path& path,
                                              std::span<const std::string> overrides);
// The same from text; `where` names it in messages.
[[nodiscard]] LoadedRunConfig parse_run_config(std::string_view text, const std::string& where,
                                               std::span<const std::string> overrides);

// Error(usage) naming the first of `keys` that the configuration leaves empty (model_name_or_path, dataset,
// ...).
void require_keys(const RunConfig& config, std::span<const std::string_view> keys);

// The effective configuration: every key with its value, grouped; loading it again gives an equal RunConfig.
// fp32 is left out: bf16 says the same, and either can be overridden.
[[nodiscard]] std::string to_yaml(const RunConfig& config);

// One key's value as to_yaml() writes it.
[[nodiscard]] std::string key_text(const RunConfig& config, std::string_view key);

// All keys with default and meaning, grouped: as text for --help, and as Markdown tables with what each may
// be.
[[nodiscard]] std::string run_config_help();
[[nodiscard]] std::string run_config_markdown();
// One key: meaning, values, default. Error(usage) with the nearest key where there is none of this name.
[[nodiscard]] std::string describe_key(std::string_view name);

}  // namespace lazytrain
