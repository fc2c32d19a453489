#include "training/run_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <fstream>

#include "core/error.h"
#include "core/random.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_run_config(text, "run.yaml", overrides).config;
}

std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)parse(text, overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

constexpr const char* kExample = R"(
### model
model_name_or_path: models/SmolLM2-135M-Instruct

### method
stage: sft
do_train: true
finetuning_type: full

### dataset
dataset: word_problems, alpaca_en
template: smollm2
cutoff_len: 512
max_samples: 1000
preprocessing_num_workers: 16

### output
output_dir: runs/demo
logging_steps: 10
save_steps: 500
overwrite_output_dir: true
report_to: none  # no trackers

### train
per_device_train_batch_size: 4
gradient_accumulation_steps: 8
learning_rate: 1.0e-4
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: true
resume_from_checkpoint: null

### eval
val_size: 0.1
per_device_eval_batch_size: 1
eval_strategy: steps
eval_steps: 500

### machine
memory_model: emulated
device_memory: 240MB
link_h2d_gbps: 2.5
policy: every-k
micro_batch: 2
)";

TEST(RunConfig, ReadsLlamaFactoryKeys) {
  const RunConfig config = parse(kExample);
  EXPECT_EQ(config.model_name_or_path, "models/SmolLM2-135M-Instruct");
  EXPECT_THAT(config.dataset, ElementsAre("word_problems", "alpaca_en"));
  EXPECT_EQ(config.template_name, "smollm2");
  EXPECT_EQ(config.cutoff_len, 512);
  EXPECT_EQ(config.max_samples, 1000);
  EXPECT_TRUE(config.overwrite_output_dir);
  EXPECT_EQ(config.slots_per_step(), 32);
  EXPECT_EQ(config.learning_rate, 1e-4);
  EXPECT_EQ(config.num_train_epochs, 3.0);
  EXPECT_EQ(config.lr_scheduler_type, "cosine");
  EXPECT_EQ(config.resume_from_checkpoint, std::nullopt);
  EXPECT_EQ(config.val_size, 0.1);
  EXPECT_EQ(config.eval_steps, 500);
  EXPECT_EQ(config.device_memory, Bytes{240'000'000});
  EXPECT_EQ(config.link_h2d_gbps, 2.5);
  EXPECT_EQ(config.micro_batch, 2);
}

TEST(RunConfig, EmptyFileIsAllDefaults) {
  EXPECT_EQ(parse(""), RunConfig{});
  EXPECT_EQ(parse("# nothing\n"), RunConfig{});
}

TEST(RunConfig, OverridesWin) {
  const RunConfig config =
      parse("learning_rate: 1e-4\nseed: 7\n", {"learning_rate=2e-5", "dataset=[a, 'b c']", "micro_batch=auto",
                                               "seed=null", "output_dir=runs/a=b", "learning_rate=3e-5"});
  EXPECT_EQ(config.learning_rate, 3e-5);
  EXPECT_THAT(config.dataset, ElementsAre("a", "b c"));
  EXPECT_EQ(config.micro_batch, std::nullopt);
  EXPECT_EQ(config.seed, 42U);
  EXPECT_EQ(config.output_dir, "runs/a=b");
  EXPECT_THAT(error_of("", {"learning_rate"}),
              HasSubstr("command line: 'learning_rate' is not of the form key=value"));
  EXPECT_THAT(error_of("", {"=3"}), HasSubstr("is not of the form key=value"));
  EXPECT_THAT(error_of("", {"seed=x"}), HasSubstr("command line: seed: 'x' is not a whole number"));
}

TEST(RunConfig, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_of("seed: 1\nlearnin_rate: 1e-4\n"),
            "run.yaml:2: unknown key 'learnin_rate'; did you mean learning_rate?");
  EXPECT_THAT(error_of("warmup_step: 3\n"), HasSubstr("did you mean warmup_steps?"));
  EXPECT_THAT(error_of("num_epochs: 3\n"), HasSubstr("'num_epochs'"));
  EXPECT_THAT(error_of("tempalte: x\n"), HasSubstr("did you mean template?"));
  EXPECT_THAT(error_of("xyzzyplugh: 1\n"), HasSubstr("`lazytrain train --help` lists all keys"));
  EXPECT_THAT(error_of("", {"polcy=paper"}),
              HasSubstr("command line: unknown key 'polcy'; did you mean policy?"));
}

TEST(RunConfig, TypesAndRangesAreChecked) {
  EXPECT_EQ(error_of("\nlearning_rate: fast\n"),
            "run.yaml:2: learning_rate: 'fast' is not a number; write one");
  EXPECT_EQ(error_of("learning_rate: nan\n"), "run.yaml:1: learning_rate: 'nan' is not a number; write one");
  EXPECT_EQ(error_of("cutoff_len: 512.5\n"),
            "run.yaml:1: cutoff_len: '512.5' is not a whole number; write one");
  EXPECT_EQ(error_of("cutoff_len: 1\n"), "run.yaml:1: cutoff_len: 1 is too small; it must be at least 2");
  EXPECT_EQ(error_of("seed: 99999999999999999999\n"),
            "run.yaml:1: seed: '99999999999999999999' is out of range; it must be a whole number of 64 bits");
  EXPECT_EQ(error_of("seed: -1\n"), "run.yaml:1: seed: '-1' is not a whole number; write one");
  EXPECT_EQ(error_of("adam_epsilon: 0\n"), "run.yaml:1: adam_epsilon: 0 is too small; it must be above 0");
  EXPECT_EQ(error_of("warmup_ratio: 1.5\n"),
            "run.yaml:1: warmup_ratio: 1.5 is too large; it must be at most 1");
  EXPECT_EQ(error_of("packing: maybe\n"),
            "run.yaml:1: packing: 'maybe' is neither true nor false; write one of them");
  EXPECT_EQ(error_of("cutoff_len: [1, 2]\n"), "run.yaml:1: cutoff_len: a list where a whole number belongs");
  EXPECT_EQ(error_of("device_memory: much\n"),
            "run.yaml:1: device_memory: 'much' is not a size; write a number with B, kB, MB, GB, TB, KiB, "
            "MiB or GiB, "
            "e.g. 240MB");
  EXPECT_EQ(
      error_of("policy: fast\n"),
      "run.yaml:1: policy: 'fast' is not known; use auto, milp, megatrain, zero3-offload, every-k, keep-all, "
      "offload-all, greedy or paper");
  EXPECT_EQ(error_of("dataset: [a, [b]]\n"), "run.yaml:1: dataset: a list of texts belongs here");
  EXPECT_EQ(error_of("dataset: a,,b\n"), "run.yaml:1: dataset: an empty name in the list; remove a comma");
  EXPECT_THAT(error_of("[1, 2]\n"), HasSubstr("a list where `key: value` lines belong"));
}

TEST(RunConfig, WhatIsNotSupportedIsSaidInASentence) {
  EXPECT_EQ(
      error_of("finetuning_type: lora\n"),
      "run.yaml:1: finetuning_type: 'lora': all parameters are trained here, there are no adapters or frozen "
      "layers; use full");
  EXPECT_THAT(error_of("stage: dpo\n"), HasSubstr("only supervised fine-tuning is supported; use sft"));
  EXPECT_THAT(error_of("optim: adafactor\n"), HasSubstr("'adafactor'"));
  EXPECT_THAT(error_of("report_to: wandb\n"), HasSubstr("trainer_log.jsonl"));
  EXPECT_EQ(error_of("lora_rank: 8\n"),
            "run.yaml:1: lora_rank: '8' is not supported: there is no LoRA here: all parameters are trained; "
            "remove the key");
  EXPECT_THAT(error_of("fp16: true\n"), HasSubstr("use bf16: true"));
  EXPECT_THAT(error_of("quantization_bit: 4\n"), HasSubstr("quantised"));
}

TEST(RunConfig, ReportsAreAList) {
  const auto reports = [](const std::string& text) { return parse_run_config(text, "run.yaml", {}).config; };
  EXPECT_THAT(reports("report_to: [csv, tensorboard]\n").report_to, ElementsAre("csv", "tensorboard"));
  EXPECT_THAT(reports("report_to: tensorboard\n").report_to, ElementsAre("tensorboard"));
  EXPECT_THAT(reports("report_to: null\n").report_to, ElementsAre("none"));
  EXPECT_EQ(reports(to_yaml(reports("report_to: csv, jsonl\n"))).report_to,
            (std::vector<std::string>{"csv", "jsonl"}));
  EXPECT_EQ(reports(to_yaml(RunConfig{})), RunConfig{});
  EXPECT_THAT(error_of("report_to: [csv, all]\n"), HasSubstr("'all': no outside tracker"));
  EXPECT_THAT(error_of("report_to: [csv, none]\n"), HasSubstr("run.yaml:1: report_to: none beside other"));
}

TEST(RunConfig, TheBestModelNeedsEvaluationsThatAreSaved) {
  const std::string best = "load_best_model_at_end: true\n",
                    steps = best + "eval_strategy: steps\nval_size: 9\n";
  EXPECT_THAT(error_of(best), HasSubstr("run.yaml:1: load_best_model_at_end: nothing is evaluated"));
  EXPECT_THAT(error_of(steps + "save_steps: 0\n"), HasSubstr("keeps no checkpoint"));
  EXPECT_EQ(
      error_of(steps + "eval_steps: 40\nsave_steps: 100\n"),
      "run.yaml:1: load_best_model_at_end: save_steps: 100 is no multiple of eval_steps (40), so that a "
      "checkpoint would have no evaluation; give save_steps: 120");
  EXPECT_THAT(error_of(steps + "logging_steps: 3\n"),
              HasSubstr("logging_steps, which stands for eval_steps (3)"));
  EXPECT_THAT(error_of("metric_for_best_model: accuracy\n"),
              HasSubstr("'accuracy': evaluations have one figure"));
  const RunConfig good = parse_run_config(steps + "eval_steps: 50\nsave_steps: 100\n", "run.yaml", {}).config;
  EXPECT_TRUE(good.keeps_best_checkpoint());
  EXPECT_FALSE(RunConfig{}.keeps_best_checkpoint());
}

TEST(RunConfig, KeysOfTheTemplate) {
  const RunConfig config =
      parse_run_config(
          "mask_history: true\nenable_thinking: false\ntemplate_date: 2026-01-31\ntemplate: model\n",
          "run.yaml", {})
          .config;
  EXPECT_TRUE(config.mask_history);
  EXPECT_EQ(config.enable_thinking, false);
  EXPECT_EQ(config.template_date, "2026-01-31");
  EXPECT_EQ(parse_run_config(to_yaml(config), "run.yaml", {}).config, config);
  EXPECT_EQ(parse_run_config("enable_thinking: null\n", "run.yaml", {}).config, RunConfig{});
  EXPECT_EQ(parse_run_config("enable_thinking: yes\n", "run.yaml", {}).config.enable_thinking, true);
  EXPECT_THAT(error_of("enable_thinking: maybe\n"),
              HasSubstr("'maybe' is neither true nor false; write one of them"));
}

TEST(RunConfig, HarmlessForeignKeysGiveANotice) {
  const LoadedRunConfig loaded = parse_run_config(
      "gradient_checkpointing: true\ndeepspeed: examples/deepspeed/ds_z3_config.json\nfp16: "
      "false\nlora_rank: null\n"
      "trust_remote_code: true\nddp_timeout: 180000000\n",
      "run.yaml", {});
  EXPECT_EQ(loaded.config, RunConfig{});
  ASSERT_EQ(loaded.notices.size(), 6U);
  EXPECT_EQ(loaded.notices[0],
            "run.yaml:1: gradient_checkpointing changes nothing here: the plan decides what is recomputed");
}

TEST(RunConfig, PrecisionIsOneThing) {
  EXPECT_TRUE(parse("").bf16);
  EXPECT_FALSE(parse("bf16: false\n").bf16);
  EXPECT_TRUE(parse("bf16: false\n").fp32);
  EXPECT_FALSE(parse("fp32: true\n").bf16);
  EXPECT_TRUE(parse("fp32: false\n").bf16);
  EXPECT_FALSE(parse("fp32: true\nbf16: false\n").bf16);
  EXPECT_THAT(error_of("bf16: true\nfp32: true\n"),
              HasSubstr("run.yaml:2: fp32: true and bf16: true contradict"));
}

TEST(RunConfig, ASavedPrecisionCanBeOverridden) {
  for (const char* text : {"", "bf16: false\n", "bf16: true\nfp32: false\n"}) {
    const std::string saved = to_yaml(parse(text));
    EXPECT_FALSE(parse(saved, {"bf16=false"}).bf16);
    EXPECT_TRUE(parse(saved, {"bf16=false"}).fp32);
    EXPECT_TRUE(parse(saved, {"fp32=true"}).fp32);
    EXPECT_TRUE(parse(saved, {"bf16=true"}).bf16);
    EXPECT_FALSE(parse(saved, {"bf16=true"}).fp32);
  }
  EXPECT_FALSE(parse("bf16: true\nfp32: false\n", {"bf16=false"}).bf16);
  EXPECT_FALSE(parse("bf16: true\nfp32: false\n", {"fp32=true"}).bf16);
}

TEST(RunConfig, KeysThatChangeNothingAreSaid) {
  const auto notices = [](const std::string& text) { return parse_run_config(text, "run.yaml", {}).notices; };
  EXPECT_THAT(notices("host_memory: 1GB\n"),
              ElementsAre(HasSubstr("run.yaml:1: host_memory changes nothing with memory_model: unified")));
  EXPECT_THAT(notices("policy: paper\nevery_k: 2\n"), ElementsAre(HasSubstr("another policy than every-k")));
  EXPECT_THAT(notices("eval_steps: 2\n"), ElementsAre(HasSubstr("eval_strategy: no")));
  EXPECT_THAT(notices("save_steps: 0\nsave_total_limit: 2\n"), ElementsAre(HasSubstr("save_steps: 0")));
  EXPECT_TRUE(notices("policy: every-k\nevery_k: 2\n").empty());
  EXPECT_TRUE(notices(to_yaml(RunConfig{})).empty());
}

TEST(RunConfig, ValuesMustGoTogether) {
  EXPECT_THAT(error_of("memory_model: emulated\n"), HasSubstr("an emulated device needs a size"));
  EXPECT_THAT(error_of("eval_strategy: steps\n"), HasSubstr("nothing to evaluate on"));
  EXPECT_THAT(error_of("val_size: 0.1\neval_dataset: a\n"), HasSubstr("keep one of the two"));
  EXPECT_THAT(error_of("val_size: 10.5\n"), HasSubstr("10.5 is neither"));
  EXPECT_THAT(error_of("per_device_train_batch_size: 2\nmicro_batch: 3\n"), HasSubstr("but a step has 2"));
  EXPECT_THAT(error_of("max_steps: 0\n"), HasSubstr("use -1"));
  EXPECT_EQ(
      parse_run_config("lr_scheduler_type: constant\nwarmup_ratio: 0.1\n", "run.yaml", {}).notices.size(),
      1U);
  EXPECT_EQ(parse_run_config("link_h2d_gbps: 3\n", "run.yaml", {}).notices.size(), 1U);
}

TEST(RunConfig, ResumeTakesTruthValuesAndPaths) {
  EXPECT_EQ(parse("resume_from_checkpoint: true\n").resume_from_checkpoint, "auto");
  EXPECT_EQ(parse("resume_from_checkpoint: auto\n").resume_from_checkpoint, "auto");
  EXPECT_EQ(parse("resume_from_checkpoint: false\n").resume_from_checkpoint, std::nullopt);
  EXPECT_EQ(parse("resume_from_checkpoint: out/checkpoint-5\n").resume_from_checkpoint, "out/checkpoint-5");
}

TEST(RunConfig, EffectiveConfigurationRoundTrips) {
  for (const RunConfig& config : {RunConfig{}, parse(kExample)}) EXPECT_EQ(parse(to_yaml(config)), config);

  RunConfig odd;
  odd.model_name_or_path = "a path: with 'quotes', \"both\"\tand \\ # more";
  odd.output_dir = "null";
  odd.template_name = "true";
  odd.dataset = {"a, b", "auto", "-x", "ä"};
  odd.resume_from_checkpoint = "auto";
  odd.device_memory = Bytes{123'456'789};
  odd.host_memory = Bytes{3LL << 30};
  odd.learning_rate = 1.0 / 3;
  odd.weight_decay = std::nextafter(0.1, 1);
  odd.adam_epsilon = 5e-324;
  odd.seed = 18446744073709551615U;
  odd.max_steps = 1'000'000'000'000;
  odd.threads = 3;
  odd.optimizer_overlap = "on";
  odd.bf16 = false;
  odd.fp32 = true;
  odd.dataset_dir = "";  // which is not what it is where nothing is said
  EXPECT_EQ(parse(to_yaml(odd)), odd) << to_yaml(odd);
}

TEST(RunConfig, EffectiveConfigurationIsReadable) {
  const std::string text = to_yaml(parse(kExample));
  EXPECT_THAT(text, HasSubstr("# data\ndataset: [word_problems, alpaca_en]\n"));
  EXPECT_THAT(text, HasSubstr("\ndevice_memory: 240MB\nhost_memory: auto\n"));
  EXPECT_THAT(text, HasSubstr("\nlearning_rate: 0.0001\n"));
  EXPECT_THAT(to_yaml(RunConfig{}), HasSubstr("\nadam_epsilon: 1.0e-08\n"));
}

TEST(RunConfig, HelpNamesEveryKey) {
  const std::string help = run_config_help();
  for (const char* key : {"model_name_or_path", "template", "learning_rate", "policy", "debug_memory"}) {
    EXPECT_THAT(help, HasSubstr(std::string("\n  ") + key + " "));
  }
}

TEST(RunConfig, RequiredKeys) {
  constexpr std::array<std::string_view, 3> kKeys{"model_name_or_path", "dataset", "output_dir"};
  require_keys(parse("model_name_or_path: m\ndataset: d\noutput_dir: o\n"), kKeys);
  try {
    require_keys(parse("model_name_or_path: m\noutput_dir: o\n"), kKeys);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("dataset is missing: "));
  }
}

TEST(RunConfig, MutatedTextIsReadOrRefusedInASentence) {
  const std::string original = kExample;
  Random random(99);
  for (int round = 0; round < 5000; ++round) {
    std::string text = original;
    for (std::uint64_t edits = 1 + random.below(4); edits > 0; --edits) {
      const std::size_t at = random.below(text.size());
      switch (random.below(4)) {
        case 0:
          text[at] = static_cast<char>(random.next());
          break;
        case 1:
          text.erase(at, 1 + random.below(20));
          break;
        case 2:
          text.insert(at, text.substr(random.below(text.size()), 1 + random.below(40)));
          break;
        default:
          text.insert(at, 1, ":[]{}'\"#\n-&*!|>%@0e."[random.below(21)]);
      }
    }
    try {
      const RunConfig config = parse(text);
      ASSERT_EQ(parse(to_yaml(config)), config) << text;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::usage) << error.what();
      ASSERT_TRUE(std::string_view(error.what()).starts_with("run.yaml")) << error.what() << text;
    }
  }
}

TEST(RunConfig, FilesThatAreNotThere) {
  const TemporaryFolder folder;
  try {
    (void)load_run_config(folder.path() / "absent.yaml", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("absent.yaml: no such file"));
  }
  std::ofstream(folder.path() / "run.yaml") << "seed: 3\n";
  EXPECT_EQ(load_run_config(folder.path() / "run.yaml", {}).config.seed, 3U);
}

}  // namespace
}  // namespace lazytrain
