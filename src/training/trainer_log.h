// The two records of a run that other tools read: trainer_log.jsonl (LLaMA-Factory's keys, one line a
// logging event, appended) and trainer_state.json (Hugging Face Trainer's keys, the whole history).
// A resumed run continues both as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/units.h"

namespace lazytrain {

// What does not change during a run.
struct TrainerLogSettings {
  std::int64_t total_steps = 0;
  double epochs = 0;  // num_train_epochs
  std::int64_t train_batch_size = 0;
  std::int64_t logging_steps = 0;
  std::int64_t save_steps = 0;
  std::int64_t eval_steps = 0;
};

// Where the run stands at a logging event.
struct TrainerLogPoint {
  std::int64_t step = 0;  // optimizer steps finished
  double epoch = 0;
  Seconds elapsed = 0;                    // of this session
  std::optional<Seconds> remaining = {};  // unknown at the start of a session
  double tokens_per_second = 0;           // real tokens, this session
  std::int64_t tokens = 0;                // real tokens seen since step 0, over all sessions
  double flops = 0;                       // model floating-point operations since step 0
};

struct TrainingLog {
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
};

struct EvaluationLog {
  double loss = 0;
  Seconds runtime = 0;
  std::int64_t samples = 0;
  std::int64_t steps = 0;
};

// Of the session that ends the run: a resumed run's time is not that of its earlier steps.
struct FinishedLog {
  double mean_loss = 0;
  Seconds runtime = 0;
  std::int64_t samples = 0;  // trained on, every epoch counted
  std::int64_t steps = 0;
};

class TrainerLog {
 public:
  // A new run: an old trainer_log.jsonl in `folder` is replaced.
  TrainerLog(std::filesystem::path folder, const TrainerLogSettings& settings);
  // Continues a run at `step`: log lines beyond it, and a last line that was cut off, are removed; the
  // history comes from `state_json`, the checkpoint's trainer_state.json (Error(model_file) where it is not
  // one).
  TrainerLog(std::filesystem::path folder, const TrainerLogSettings& settings, std::int64_t step,
             std::string_view state_json);

  void training(const TrainerLogPoint& point, const TrainingLog& log);
  void evaluation(const TrainerLogPoint& point, const EvaluationLog& log);
  // The run's last entry.
  void finished(const TrainerLogPoint& point, const FinishedLog& log);

  // trainer_state.json as of `point`: goes into every checkpoint.
  [[nodiscard]] std::string state_json(const TrainerLogPoint& point) const;
  // Writes it into the run's folder.
  void write_state(const TrainerLogPoint& point) const;

  // The best (lowest) evaluation loss so far and its step.
  [[nodiscard]] std::optional<double> best_metric() const { return best_metric_; }
  [[nodiscard]] std::int64_t best_step() const { return best_step_; }
  // The step of the last evaluation in the history, 0 before the first.
  [[nodiscard]] std::int64_t last_evaluation() const { return last_evaluation_; }

 private:
  void read_history(std::int64_t step, std::string_view state_json);
  void truncate_log(std::int64_t step) const;
  void append_line(const std::string& line) const;

  std::filesystem::path folder_;
  TrainerLogSettings settings_;
  std::vector<std::string> history_;  // JSON objects
  std::optional<double> best_metric_;
  std::int64_t best_step_ = 0, last_evaluation_ = 0;
};

// "0:01:05", "1 day, 2:03:04": as Python prints a timedelta of whole seconds.
[[nodiscard]] std::string timedelta_text(Seconds seconds);

}  // namespace lazytrain
