// The two records of a run that other tools read: trainer_log.jsonl (LLaMA-Factory's keys, one line a
// logging event, appended) and trainer_state.json (Hugging Face Trainer's keys, the whole history).
// A resumed run continues both as if it had never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/units.h"

namespace lazytrain {

// What does not change during a run.
struct TrainerLogSettings {
  std::int64_t total_steps = 0;
  std::int64_t epochs = 0;  // that total_steps begin
  std::int64_t train_batch_size = 0;
  std::int64_t logging_steps = 0;
  std::int64_t save_steps = 0;
  std::int64_t eval_steps = 0;
  bool greater_is_better = false;  // of evaluation losses
  // Only evaluations of multiples of it, and of the last step, can be the best: those that have a checkpoint.
  // 0: all can.
  std::int64_t best_every = 0;
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

  // trainer_state.json as of `point`: goes into every checkpoint, and then takes that for one that is there.
  [[nodiscard]] std::string state_json(const TrainerLogPoint& point, bool in_checkpoint = false) const;
  // Writes it into the run's folder.
  void write_state(const TrainerLogPoint& point) const;

  // Entries of log_history so far, JSON objects; and who is told of every further one.
  [[nodiscard]] const std::vector<std::string>& history() const { return history_; }
  void tell(std::function<void(const std::string& entry)> listener) { listener_ = std::move(listener); }

  // Of a run that goes on: the best is chosen anew among the evaluations so far whose step `may_be` accepts.
  void choose_best(const std::function<bool(std::int64_t)>& may_be);
  // The best evaluation loss so far and its step.
  [[nodiscard]] std::optional<double> best_metric() const { return best_metric_; }
  [[nodiscard]] std::int64_t best_step() const { return best_step_; }
  // The step of the last evaluation in the history, 0 before the first.
  [[nodiscard]] std::int64_t last_evaluation() const { return last_evaluation_; }

 private:
  void consider(double loss, std::int64_t step);
  void take_if_best(double loss, std::int64_t step);
  void enter(std::string entry);
  void read_history(std::int64_t step, std::string_view state_json);
  void truncate_log(std::int64_t step) const;
  void append_line(const std::string& line) const;

  std::filesystem::path folder_;
  TrainerLogSettings settings_;
  std::vector<std::string> history_;  // JSON objects
  std::function<void(const std::string&)> listener_;
  std::optional<double> best_metric_;
  std::int64_t best_step_ = 0, last_evaluation_ = 0;
};

// "0:01:05", "1 day, 2:03:04": as Python prints a timedelta of whole seconds.
[[nodiscard]] std::string timedelta_text(Seconds seconds);

}  // namespace lazytrain
