#include "training/trainer_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/disk_advice.h"
#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"

namespace lazytrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kLogName = "trainer_log.jsonl";
constexpr const char* kStateName = "trainer_state.json";

// The part that training and evaluation lines share, in LLaMA-Factory's order.
Json line_tail(const TrainerLogPoint& point, const TrainerLogSettings& settings) {
  const double percentage = settings.total_steps > 0 ? 100.0 * static_cast<double>(point.step) /
                                                           static_cast<double>(settings.total_steps)
                                                     : 100.0;
  Json tail;
  tail["epoch"] = point.epoch;
  tail["percentage"] = std::round(percentage * 100) / 100;
  tail["elapsed_time"] = timedelta_text(point.elapsed);
  if (point.remaining) tail["remaining_time"] = timedelta_text(*point.remaining);
  tail["throughput"] = std::round(point.tokens_per_second * 100) / 100;
  tail["total_tokens"] = point.tokens;
  return tail;
}

double per_second(std::int64_t count, Seconds seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace

std::string timedelta_text(Seconds seconds) {
  const auto whole = static_cast<long long>(std::clamp(seconds, 0.0, 1e15));
  const long long days = whole / 86400;
  std::string clock = fmt::format("{}:{:02}:{:02}", whole % 86400 / 3600, whole % 3600 / 60, whole % 60);
  if (days == 0) return clock;
  return fmt::format("{} day{}, {}", days, days == 1 ? "" : "s", clock);
}

TrainerLog::TrainerLog(std::filesystem::path folder, const TrainerLogSettings& settings)
    : folder_(std::move(folder)), settings_(settings) {
  write_file(folder_ / kLogName, "");
}

TrainerLog::TrainerLog(std::filesystem::path folder, const TrainerLogSettings& settings, std::int64_t step,
                       std::string_view state_json)
    : folder_(std::move(folder)), settings_(settings) {
  read_history(step, state_json);
  truncate_log(step);
}

void TrainerLog::read_history(std::int64_t step, std::string_view state_json) {
  const Json state = parse_ordered_json(state_json, kStateName, ExitCode::model_file);
  const auto history = state.is_object() ? state.find("log_history") : state.end();
  if (!state.is_object() || history == state.end() || !history->is_array()) {
    fail(ExitCode::model_file, "{}: no list 'log_history'; the checkpoint is not one of this program",
         kStateName);
  }
  for (const Json& entry : *history) {
    const auto number = entry.is_object() ? entry.find("step") : entry.end();
    if (!entry.is_object() || number == entry.end() || !number->is_number_integer()) {
      fail(ExitCode::model_file, "{}: an entry of 'log_history' has no step", kStateName);
    }
    // A run that is continued has not finished: its summary will be written anew.
    if (number->get<std::int64_t>() > step || entry.contains("train_runtime")) continue;
    history_.push_back(entry.dump());
    if (entry.contains("eval_loss")) last_evaluation_ = number->get<std::int64_t>();
  }
  const auto metric = state.find("best_metric");
  const auto best = state.find("best_global_step");
  if (metric == state.end() || !metric->is_number() || best == state.end() || !best->is_number_integer())
    return;
  best_metric_ = metric->get<double>();
  best_step_ = best->get<std::int64_t>();
}

void TrainerLog::truncate_log(std::int64_t step) const {
  const std::filesystem::path path = folder_ / kLogName;
  const auto status = std::filesystem::status(path);
  if (!std::filesystem::exists(status)) return write_file(path, "");
  if (!std::filesystem::is_regular_file(status))
    fail(ExitCode::usage, "{}: no regular file, where the log belongs; remove it", path.string());
  const std::string text = read_file(path);
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off by a crash
    const std::string_view line(text.data() + begin, end - begin);
    nlohmann::json entry;
    const bool good = !try_parse_json(line, entry) && entry.is_object() && entry.contains("current_steps") &&
                      entry["current_steps"].is_number_integer();
    if (good && entry["current_steps"].get<std::int64_t>() <= step) kept.append(line).push_back('\n');
    begin = end + 1;
  }
  if (kept != text) write_file(path, kept);
}

void TrainerLog::append_line(const std::string& line) const {
  const std::filesystem::path path = folder_ / kLogName;
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
  int error = descriptor < 0 ? errno : 0;
  const std::string text = line + "\n";
  // One write a line, so that a reader, or a crash, sees whole lines; more only where the system took a part.
  for (std::string_view rest = text; error == 0 && !rest.empty();) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    if (written == 0) error = ENOSPC;
    if (written < 0 && errno != EINTR) error = errno;
  }
  // Network folders say only here that they could not write.
  if (descriptor >= 0 && close(descriptor) != 0 && error == 0) error = errno;
  if (error != 0) {
    fail(ExitCode::disk, "{}: cannot append a line: {}{}", path.string(), std::strerror(error),
         error == ENOSPC ? "; free some space, then go on with resume_from_checkpoint=auto"
                         : disk_advice(error));
  }
}

void TrainerLog::training(const TrainerLogPoint& point, const TrainingLog& log) {
  Json line;
  line["current_steps"] = point.step;
  line["total_steps"] = settings_.total_steps;
  line["loss"] = log.loss;
  line["lr"] = log.lr;
  line["grad_norm"] = log.grad_norm;
  line.update(line_tail(point, settings_));
  append_line(line.dump());

  Json entry;
  entry["epoch"] = point.epoch;
  entry["grad_norm"] = log.grad_norm;
  entry["learning_rate"] = log.lr;
  entry["loss"] = log.loss;
  entry["step"] = point.step;
  enter(entry.dump());
}

void TrainerLog::evaluation(const TrainerLogPoint& point, const EvaluationLog& log) {
  Json line;
  line["current_steps"] = point.step;
  line["total_steps"] = settings_.total_steps;
  line["eval_loss"] = log.loss;
  line.update(line_tail(point, settings_));
  append_line(line.dump());

  Json entry;
  entry["epoch"] = point.epoch;
  entry["eval_loss"] = log.loss;
  entry["eval_runtime"] = log.runtime;
  entry["eval_samples_per_second"] = per_second(log.samples, log.runtime);
  entry["eval_steps_per_second"] = per_second(log.steps, log.runtime);
  entry["step"] = point.step;
  enter(entry.dump());
  last_evaluation_ = point.step;
  consider(log.loss, point.step);
}

void TrainerLog::consider(double loss, std::int64_t step) {
  const std::int64_t every = settings_.best_every;
  const bool counts = every == 0 || step % every == 0 || step == settings_.total_steps;
  if (counts) take_if_best(loss, step);
}

void TrainerLog::take_if_best(double loss, std::int64_t step) {
  if (!std::isfinite(loss)) return;
  if (best_metric_ && !(settings_.greater_is_better ? loss > *best_metric_ : loss < *best_metric_)) return;
  best_metric_ = loss;
  best_step_ = step;
}

void TrainerLog::choose_best(const std::function<bool(std::int64_t)>& may_be) {
  best_metric_.reset();
  best_step_ = 0;
  for (const std::string& text : history_) {
    const Json entry = Json::parse(text);
    const auto loss = entry.find("eval_loss");
    const auto step = entry.at("step").get<std::int64_t>();
    if (loss != entry.end() && loss->is_number() && may_be(step)) take_if_best(loss->get<double>(), step);
  }
}

void TrainerLog::enter(std::string entry) {
  history_.push_back(std::move(entry));
  if (listener_) listener_(history_.back());
}

void TrainerLog::finished(const TrainerLogPoint& point, const FinishedLog& log) {
  Json entry;
  entry["epoch"] = point.epoch;
  entry["step"] = point.step;
  entry["total_flos"] = point.flops;
  entry["train_loss"] = log.mean_loss;
  entry["train_runtime"] = log.runtime;
  entry["train_samples_per_second"] = per_second(log.samples, log.runtime);
  entry["train_steps_per_second"] = per_second(log.steps, log.runtime);
  enter(entry.dump());
}

std::string TrainerLog::state_json(const TrainerLogPoint& point, bool in_checkpoint) const {
  const std::filesystem::path best = folder_ / fmt::format("checkpoint-{}", best_step_);
  std::error_code ignored;
  const bool best_is_there =
      best_metric_ && ((in_checkpoint && best_step_ == point.step) ||
                       (settings_.best_every > 0 && std::filesystem::exists(best, ignored)));
  Json state;
  state["best_global_step"] = best_metric_ ? Json(best_step_) : Json();
  state["best_metric"] = best_metric_ ? Json(*best_metric_) : Json();
  state["best_model_checkpoint"] = best_is_there ? Json(best.string()) : Json();
  state["epoch"] = point.epoch;
  state["eval_steps"] = settings_.eval_steps;
  state["global_step"] = point.step;
  state["is_hyper_param_search"] = false;
  state["is_local_process_zero"] = true;
  state["is_world_process_zero"] = true;
  state["log_history"] = Json::array();
  for (const std::string& entry : history_) state["log_history"].push_back(Json::parse(entry));
  state["logging_steps"] = settings_.logging_steps;
  state["max_steps"] = settings_.total_steps;
  state["num_input_tokens_seen"] = point.tokens;
  state["num_train_epochs"] = settings_.epochs;
  state["save_steps"] = settings_.save_steps;
  // What Hugging Face's Trainer keeps of its own control flow; between two steps there is nothing to keep.
  Json control = Json::object();
  for (const char* flag : {"should_epoch_stop", "should_evaluate", "should_log", "should_save"})
    control[flag] = false;
  control["should_training_stop"] = point.step >= settings_.total_steps;
  state["stateful_callbacks"]["TrainerControl"] = {{"args", std::move(control)},
                                                   {"attributes", Json::object()}};
  state["total_flos"] = point.flops;
  state["train_batch_size"] = settings_.train_batch_size;
  state["trial_name"] = nullptr;
  state["trial_params"] = nullptr;
  return state.dump(2) + "\n";
}

void TrainerLog::write_state(const TrainerLogPoint& point) const {
  write_file(folder_ / kStateName, state_json(point));
}

}  // namespace lazytrain
