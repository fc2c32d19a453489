#include "training/resume.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "training/trainer_state.h"

namespace lazytrain {
namespace {

// What the samples are made of, their order, and which are held out.
constexpr std::array<std::string_view, 12> kDataKeys{
    "seed",         "packing",         "cutoff_len",    "overlong", "template",     "train_on_prompt",
    "mask_history", "enable_thinking", "template_date", "val_size", "mix_strategy", "interleave_probs"};
// What may change in the middle of a run.
constexpr std::array<std::string_view, 10> kOptimizerKeys{
    "learning_rate", "lr_scheduler_type", "warmup_ratio", "warmup_steps",  "weight_decay",
    "adam_beta1",    "adam_beta2",        "adam_epsilon", "max_grad_norm", "eval_dataset"};

RunConfig saved_config(const Checkpoint& checkpoint) {
  return parse_run_config(checkpoint.text("run.yaml"), (checkpoint.path() / "run.yaml").string(), {}).config;
}

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

}  // namespace

ResumePoint read_resume_point(const Checkpoint& checkpoint) {
  const TrainerState state = trainer_state_from_text(checkpoint.text("lazytrain_state.json"),
                                                     checkpoint.path() / "lazytrain_state.json");
  return {.step = state.step, .micro_batch = state.micro_batch};
}

std::optional<std::string> saved_template_date(const Checkpoint& checkpoint) {
  return saved_config(checkpoint).template_date;
}

void require_states(const Checkpoint& checkpoint) {
  if (checkpoint.has("group-000.states")) return;
  const bool only_model = checkpoint.has("run.yaml") && saved_config(checkpoint).save_only_model;
  fail(ExitCode::model_file,
       "{}: {}, so it cannot be resumed from; train on from its weights with model_name_or_path: {} and "
       "another "
       "output_dir, or start anew with overwrite_output_dir: true and resume_from_checkpoint: null",
       checkpoint.path().string(),
       only_model ? "it was saved with save_only_model: true, which leaves the optimizer states out"
                  : "the checkpoint has no optimizer states",
       checkpoint.path().string());
}

std::string compare_for_resume(const RunConfig& saved, const RunConfig& now, const std::string& where) {
  std::string refused;
  for (const std::string_view key : kDataKeys) {
    const std::string then = key_text(saved, key), current = key_text(now, key);
    if (then != current) append(refused, fmt::format("{} is {} there, {} here", key, then, current));
  }
  // Of these two only the product matters.
  if (saved.slots_per_step() != now.slots_per_step())
    append(refused,
           fmt::format(
               "per_device_train_batch_size x gradient_accumulation_steps is {} x {} there, {} x {} here",
               saved.per_device_train_batch_size, saved.gradient_accumulation_steps,
               now.per_device_train_batch_size, now.gradient_accumulation_steps));
  if (!refused.empty())
    fail(ExitCode::usage,
         "{}: other settings would change the order of the data or the held-out samples: {}; give the "
         "checkpoint's values to go on, or start a new run in another output_dir",
         where, refused);

  std::string changed;
  const auto compare = [&](std::string_view key) {
    const std::string then = key_text(saved, key), current = key_text(now, key);
    if (then != current) append(changed, fmt::format("{} {} -> {}", key, then, current));
  };
  for (const std::string_view key : kOptimizerKeys) compare(key);
  compare("max_steps");
  // max_steps wins, so the epochs count only where it is not set.
  if (saved.max_steps <= 0 || now.max_steps <= 0) compare("num_train_epochs");
  return changed;
}

std::string compare_with_checkpoint(const Checkpoint& checkpoint, const RunConfig& config) {
  return compare_for_resume(saved_config(checkpoint), config, checkpoint.path().string());
}

}  // namespace lazytrain
