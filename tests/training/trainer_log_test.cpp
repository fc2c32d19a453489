#include "training/trainer_log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

constexpr TrainerLogSettings kSettings{.total_steps = 200,
                                       .epochs = 3,
                                       .train_batch_size = 8,
                                       .logging_steps = 10,
                                       .save_steps = 50,
                                       .eval_steps = 20};

TrainerLogPoint point(std::int64_t step) {
  return {.step = step,
          .epoch = static_cast<double>(step) / 100,
          .elapsed = 65,
          .remaining = 90061,
          .tokens_per_second = 123.456,
          .tokens = 1000 * step,
          .flops = 1e9};
}

std::vector<std::string> lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> result;
  for (std::string line; std::getline(file, line);) result.push_back(line);
  return result;
}

TEST(TrainerLog, LinesHaveLlamaFactoryKeys) {
  const TemporaryFolder folder;
  TrainerLog log(folder.path(), kSettings);
  log.training(point(10), {.loss = 0.5, .grad_norm = 2.25, .lr = 1e-4});
  log.evaluation(point(20), {.loss = 0.25, .runtime = 2, .samples = 50, .steps = 10});
  EXPECT_EQ(
      lines(folder.path() / "trainer_log.jsonl"),
      (std::vector<std::string>{
          R"({"current_steps":10,"total_steps":200,"loss":0.5,"lr":0.0001,"grad_norm":2.25,"epoch":0.1,)"
          R"("percentage":5.0,"elapsed_time":"0:01:05","remaining_time":"1 day, 1:01:01","throughput":123.46,)"
          R"("total_tokens":10000})",
          R"({"current_steps":20,"total_steps":200,"eval_loss":0.25,"epoch":0.2,)"
          R"("percentage":10.0,"elapsed_time":"0:01:05","remaining_time":"1 day, 1:01:01","throughput":123.46,)"
          R"("total_tokens":20000})"}));
}

TEST(TrainerLog, StateHasHuggingFaceKeys) {
  const TemporaryFolder folder;
  TrainerLog log(folder.path(), kSettings);
  log.training(point(10), {.loss = 0.5, .grad_norm = 2.25, .lr = 1e-4});
  log.evaluation(point(20), {.loss = 0.25, .runtime = 2, .samples = 50, .steps = 10});
  log.finished(point(20), {.mean_loss = 0.75, .runtime = 40, .samples = 80, .steps = 10});
  log.write_state(point(20));
  const auto state = nlohmann::json::parse(read_file(folder.path() / "trainer_state.json"));
  EXPECT_EQ(state["global_step"], 20);
  EXPECT_EQ(state["max_steps"], 200);
  EXPECT_EQ(state["num_train_epochs"], 3);
  EXPECT_EQ(state["train_batch_size"], 8);
  EXPECT_EQ(state["num_input_tokens_seen"], 20000);
  EXPECT_EQ(state["total_flos"], 1e9);
  EXPECT_EQ(state["best_metric"], 0.25);
  EXPECT_EQ(state["best_global_step"], 20);
  EXPECT_EQ(state["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"], false);
  EXPECT_TRUE(state["best_model_checkpoint"].is_null());
  EXPECT_EQ(state.size(), 20U);
  EXPECT_EQ(state["log_history"], nlohmann::json::parse(R"([
      {"epoch": 0.1, "grad_norm": 2.25, "learning_rate": 1e-4, "loss": 0.5, "step": 10},
      {"epoch": 0.2, "eval_loss": 0.25, "eval_runtime": 2.0, "eval_samples_per_second": 25.0,
       "eval_steps_per_second": 5.0, "step": 20},
      {"epoch": 0.2, "step": 20, "total_flos": 1e9, "train_loss": 0.75, "train_runtime": 40.0,
       "train_samples_per_second": 2.0, "train_steps_per_second": 0.25}])"));
}

TEST(TrainerLog, ResumeDropsWhatLiesBeyondTheStep) {
  const TemporaryFolder folder;
  std::string state;
  {
    TrainerLog log(folder.path(), kSettings);
    for (const std::int64_t step : {10, 20, 30, 40}) {
      log.training(point(step), {.loss = 1.0 / static_cast<double>(step)});
      if (step == 20) {
        log.evaluation(point(step), {.loss = 0.25});
        state = log.state_json(point(step));
      }
    }
    std::ofstream(folder.path() / "trainer_log.jsonl", std::ios::app)
        << R"({"current_steps": 5)";  // killed here
  }
  TrainerLog log(folder.path(), kSettings, 20, state);
  EXPECT_EQ(lines(folder.path() / "trainer_log.jsonl").size(), 3U);
  EXPECT_EQ(log.best_metric(), 0.25);
  EXPECT_EQ(log.best_step(), 20);
  EXPECT_EQ(log.last_evaluation(), 20);
  log.training(point(30), {.loss = 7});
  const auto resumed = nlohmann::json::parse(log.state_json(point(30)));
  EXPECT_EQ(resumed["log_history"].size(), 4U);
  EXPECT_EQ(resumed["log_history"][0]["step"], 10);
  EXPECT_EQ(resumed["log_history"][3]["loss"], 7.0);
  EXPECT_EQ(lines(folder.path() / "trainer_log.jsonl").size(), 4U);
}

TEST(TrainerLog, ContinuedInOneGoOrTwoIsTheSame) {
  const TemporaryFolder whole;
  const TemporaryFolder parts;
  const auto entries = [](TrainerLog& log, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; step += 10) {
      log.training(point(step),
                   {.loss = 1.0 / static_cast<double>(3 * step), .grad_norm = 1.1, .lr = 1e-5 / 3});
    }
  };
  TrainerLog one(whole.path(), kSettings);
  entries(one, 10, 60);
  std::string state;
  {
    TrainerLog first(parts.path(), kSettings);
    entries(first, 10, 30);
    state = first.state_json(point(30));
    entries(first, 40, 50);  // lost by the kill
  }
  TrainerLog second(parts.path(), kSettings, 30, state);
  entries(second, 40, 60);
  EXPECT_EQ(one.state_json(point(60)), second.state_json(point(60)));
  EXPECT_EQ(lines(whole.path() / "trainer_log.jsonl"), lines(parts.path() / "trainer_log.jsonl"));
}

TEST(TrainerLog, TheBestIsOneThatHasACheckpoint) {
  const TemporaryFolder folder;
  TrainerLogSettings settings = kSettings;
  settings.best_every = 50;
  TrainerLog log(folder.path(), settings);
  log.evaluation(point(20), {.loss = 0.125});
  EXPECT_EQ(log.best_metric(), std::nullopt);
  log.evaluation(point(50), {.loss = 0.5});
  log.evaluation(point(100), {.loss = 0.25});
  log.evaluation(point(120), {.loss = 0.0625});
  EXPECT_EQ(log.best_step(), 100);
  EXPECT_EQ(log.best_metric(), 0.25);
  const auto best_in = [&](bool in_checkpoint) {
    return nlohmann::json::parse(log.state_json(point(100), in_checkpoint))["best_model_checkpoint"];
  };
  EXPECT_TRUE(best_in(false).is_null());
  EXPECT_EQ(best_in(true), (folder.path() / "checkpoint-100").string());
  std::filesystem::create_directory(folder.path() / "checkpoint-100");
  EXPECT_EQ(best_in(false), (folder.path() / "checkpoint-100").string());
  // Saved with other settings: what is there counts, whatever steps are saved now.
  log.choose_best([](std::int64_t step) { return step != 20; });
  EXPECT_EQ(log.best_step(), 120);
  log.choose_best([](std::int64_t step) { return step == 50; });  // the others were deleted
  EXPECT_EQ(log.best_step(), 50);
  log.evaluation(point(200), {.loss = 0.375});  // the last step
  EXPECT_EQ(log.best_step(), 200);
}

TEST(TrainerLog, GreaterCanBeBetter) {
  const TemporaryFolder folder;
  TrainerLogSettings settings = kSettings;
  settings.greater_is_better = true;
  TrainerLog log(folder.path(), settings);
  for (const std::int64_t step : {20, 40, 60}) log.evaluation(point(step), {.loss = step == 40 ? 3.0 : 2.0});
  EXPECT_EQ(log.best_step(), 40);
}

TEST(TrainerLog, EveryEntryIsTold) {
  const TemporaryFolder folder;
  TrainerLog log(folder.path(), kSettings);
  std::vector<std::string> told;
  log.tell([&](const std::string& entry) { told.push_back(entry); });
  log.training(point(10), {.loss = 0.5});
  log.evaluation(point(10), {.loss = 0.25});
  log.finished(point(10), {.mean_loss = 0.5});
  EXPECT_EQ(told.size(), 3U);
  EXPECT_EQ(told, log.history());
}

TEST(TrainerLog, NonFiniteValuesAreNull) {
  const TemporaryFolder folder;
  TrainerLog log(folder.path(), kSettings);
  log.training(point(10), {.loss = std::nan(""), .grad_norm = std::nan("")});
  const auto line = nlohmann::json::parse(lines(folder.path() / "trainer_log.jsonl").at(0));
  EXPECT_TRUE(line["loss"].is_null());
}

TEST(TrainerLog, ForeignStateIsRefused) {
  const TemporaryFolder folder;
  for (const char* text : {"[]", "{}", R"({"log_history": 3})", R"({"log_history": [{"loss": 1}]})",
                           R"({"log_history": [4]})", "{"}) {
    try {
      const TrainerLog log(folder.path(), kSettings, 20, text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::model_file) << text;
    }
  }
}

}  // namespace
}  // namespace lazytrain
