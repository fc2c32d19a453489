#include "training/resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

RunConfig config(const std::vector<std::string>& overrides = {}) {
  return parse_run_config("template: chatml\nmax_steps: 100\nseed: 7\n", "run.yaml", overrides).config;
}

std::string refusal(const RunConfig& saved, const RunConfig& now) {
  try {
    (void)compare_for_resume(saved, now, "out/checkpoint-5");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(Resume, EqualSettingsSayNothing) {
  EXPECT_EQ(compare_for_resume(config(), config(), "out/checkpoint-5"), "");
  EXPECT_EQ(compare_for_resume(config(), config({"threads=3", "policy=paper", "save_steps=9"}), ""), "");
}

TEST(Resume, WhatDecidesTheDataIsRefusedWithBothValues) {
  for (const char* change : {"seed=8", "packing=false", "cutoff_len=64", "overlong=truncate",
                             "template=plain", "train_on_prompt=true", "val_size=0.1"}) {
    const std::string text = change;
    const std::string key = text.substr(0, text.find('=')), value = text.substr(text.find('=') + 1);
    const std::string sentence = refusal(config(), config({text}));
    EXPECT_THAT(sentence, HasSubstr("out/checkpoint-5: "));
    EXPECT_THAT(sentence, HasSubstr(key + " is " + key_text(config(), key) + " there, " + value + " here"));
    EXPECT_THAT(sentence, HasSubstr("give the checkpoint's values to go on"));
  }
  const std::string both = refusal(config(), config({"seed=8", "packing=false"}));
  EXPECT_THAT(both, HasSubstr("seed is 7 there, 8 here, packing is true there, false here"));
}

TEST(Resume, OfTheBatchTheProductCounts) {
  EXPECT_EQ(
      compare_for_resume(config({"per_device_train_batch_size=8"}),
                         config({"per_device_train_batch_size=2", "gradient_accumulation_steps=4"}), ""),
      "");
  EXPECT_THAT(refusal(config(), config({"gradient_accumulation_steps=2"})),
              HasSubstr("is 8 x 1 there, 8 x 2 here"));
}

TEST(Resume, TheOptimizerMayChangeAndIsNamed) {
  EXPECT_EQ(compare_for_resume(config({"learning_rate=0.001"}),
                               config({"learning_rate=0.0005", "max_steps=200", "adam_beta2=0.95"}), ""),
            "learning_rate 0.001 -> 0.0005, adam_beta2 0.999 -> 0.95, max_steps 100 -> 200");
  EXPECT_EQ(compare_for_resume(config(), config({"num_train_epochs=9"}), ""), "") << "max_steps wins";
}

}  // namespace
}  // namespace lazytrain
