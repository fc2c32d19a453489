#include "training/trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "optim/schedule.h"
#include "training/best_checkpoint.h"
#include "training/evaluation.h"
#include "training/moments.h"
#include "training/output_folder.h"
#include "training/progress.h"
#include "training/run_reports.h"
#include "training/trainer_log.h"
#include "training/trainer_state.h"

namespace lazytrain {
namespace {

// As many non-finite steps in a row are taken as bad luck; one more as broken.
constexpr std::int64_t kNonFiniteLimit = 3;
// In these many first steps of a plan the time of every op is taken; in all where the run may re-plan.
constexpr std::size_t kTimedSteps = 8;

Seconds median(std::vector<Seconds> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

AdamWStep adamw_step(const RunConfig& config, double lr, std::int64_t number) {
  return {.lr = lr,
          .beta1 = config.adam_beta1,
          .beta2 = config.adam_beta2,
          .eps = config.adam_epsilon,
          .weight_decay = config.weight_decay,
          .clip_factor = 1.0,
          .step = number};
}

// Files of a checkpoint: a group's weights, and its optimizer state.
std::string weights_file(std::size_t group) {
  return fmt::format("group-{:03}.weights", group);
}
std::string states_file(std::size_t group) {
  return fmt::format("group-{:03}.states", group);
}

void write_in_parts(CheckpointWriter& writer, std::span<const std::byte> bytes) {
  constexpr std::size_t kPart = std::size_t{16} << 20;
  for (std::size_t at = 0; at < bytes.size(); at += kPart)
    writer.write(bytes.subspan(at, std::min(kPart, bytes.size() - at)));
}

class Trainer {
 public:
  explicit Trainer(const TrainingRun& run)
      : run_(run),
        config_(run.config),
        stream_(run.data.train.samples, run.data.train_samples, packing_options(run.config)),
        total_steps_(config_.max_steps > 0 ? config_.max_steps
                                           : stream_.total_steps(config_.num_train_epochs)),
        schedule_(schedule_from(config_.lr_scheduler_type, "lr_scheduler_type")),
        warmup_(warmup_step_count(config_.warmup_steps, config_.warmup_ratio, total_steps_)),
        session_(run.model.architecture(), run.session),
        update_(lower_update_only(session_.context())) {
    state_.model_fingerprint = architecture_fingerprint(run.model);
    state_.data_fingerprint = run.data.fingerprint();
    state_.micro_batch = run.plan.batch.micro_batch;
    state_.type_bytes = session_.context().type_bytes;
    state_.moments = run.session.moments;
    prepare_evaluation();
    std::vector<const Program*> programs{&run.program, &update_};
    if (evaluate_) programs.push_back(&*evaluate_);
    continues_ = run.resume && lies_in(*run.resume, config_.output_dir);
    check_space();
    if (run.replan)
      session_.allocate(programs, run.machine.device_capacity,
                        run.machine.tiers == TierModel::tiered ? run.machine.host_capacity : Bytes{0});
    else
      session_.allocate(programs);
    replanning_ = run.replan && session_.executor().may_grow();
    if (run.replan && !replanning_)
      log::info("replan: off, since this process may not use addresses as large as its budgets");
    if (run.resume)
      restore(*run.resume);
    else
      session_.load(run.model);
    // An older checkpoint is saved again before this run ends: `auto` takes what was written last.
    if (continues_ && list_checkpoints(config_.output_dir).back().serial == run.resume->serial())
      last_save_ = state_.step;
  }

  TrainingResult train() {
    take_output_dir();
    TrainerLog log = run_.resume ? TrainerLog(config_.output_dir, log_settings(), state_.step,
                                              run_.resume->text("trainer_state.json"))
                                 : TrainerLog(config_.output_dir, log_settings());
    log_ = &log;
    if (run_.resume && keeps_best())
      log.choose_best([&](std::int64_t step) { return has_checkpoint(config_.output_dir, step); });
    RunReports reports(config_.report_to, config_.output_dir, log.history(), state_.step, !continues_);
    log.tell([&](const std::string& entry) { reports.add(entry); });
    Progress progress(progress_options(total_steps_, state_.step, config_.logging_steps));
    progress_ = &progress;
    progress.start();
    const std::int64_t first_step = state_.step;
    // A signal may have cut the evaluation short that belonged to the step this run goes on from.
    if (state_.step > 0 && evaluation_due() && log.last_evaluation() != state_.step) {
      evaluate();
      if (keeps_best() && !continues_) save(config_.save_only_model);  // it may be the best
    }
    while (state_.step < total_steps_ && !run_.signals.requested()) step();
    drain();
    const auto evaluated = [&] { return !evaluate_ || log.last_evaluation() == state_.step; };
    const bool interrupted = state_.step < total_steps_ || !evaluated();
    TrainingResult result{.steps = state_.step,
                          .session_steps = state_.step - first_step,
                          .total_steps = total_steps_,
                          .tokens = progress.tokens(),
                          .step_seconds = training_seconds_,
                          .median_step = median(step_seconds_),
                          .median_compute = median(step_seconds_) * median(compute_parts_),
                          .last_loss = last_loss_,
                          .device_peak = session_.executor().highest_byte_touched(Tier::device),
                          .host_peak = run_.machine.tiers == TierModel::unified
                                           ? Bytes{0}
                                           : session_.executor().highest_byte_touched(Tier::host),
                          .resident = resident_memory(),
                          .disk_method = session_.executor().disk_method(),
                          .interrupted = interrupted};
    if (interrupted) {
      if (last_save_ != state_.step) save(config_.save_only_model);
      return result;
    }
    log.finished(point(),
                 {.mean_loss = loss_steps_ > 0 ? loss_total_ / static_cast<double>(loss_steps_) : 0.0,
                  .runtime = progress.elapsed(),
                  .samples = session_samples_,
                  .steps = result.session_steps});
    if (config_.save_steps > 0 && last_save_ != state_.step && (!config_.save_only_model || keeps_best()))
      save(config_.save_only_model);
    export_or_save();
    result.exported_step = exported_step();
    // The last word: who finds it without a checkpoint knows that the model is whole.
    log.write_state(point());
    remove_runs_set_aside(run_.lock);
    return result;
  }

 private:
  // From here on the folder is this run's.
  void take_output_dir() {
    const std::filesystem::path folder = config_.output_dir;
    if (!continues_) {
      set_earlier_run_aside(run_.lock);
      std::filesystem::remove(folder / "trainer_log.jsonl");  // an earlier run's: this one has its own
    }
    write_file(folder / "run.yaml", to_yaml(config_));
    write_json(folder / "plan.json", to_json(run_.plan));
  }

  [[nodiscard]] TrainerLogSettings log_settings() const {
    const auto epoch_steps = static_cast<double>(std::max<std::int64_t>(1, stream_.steps(0)));
    const double epochs = config_.max_steps > 0 ? static_cast<double>(config_.max_steps) / epoch_steps
                                                : config_.num_train_epochs;
    return {.total_steps = total_steps_,
            .epochs = static_cast<std::int64_t>(std::ceil(std::min(epochs, 1e15))),
            .train_batch_size = config_.per_device_train_batch_size,
            .logging_steps = config_.logging_steps,
            .save_steps = config_.save_steps,
            .eval_steps = config_.steps_between_evaluations(),
            .greater_is_better = keeps_best() && config_.greater_is_better.value_or(false),
            .best_every = keeps_best() ? config_.save_steps : 0};
  }

  [[nodiscard]] bool keeps_best() const { return evaluate_ && config_.keeps_best_checkpoint(); }

  void prepare_evaluation() {
    if (config_.load_best_model_at_end && run_.data.eval_samples.empty())
      fail(ExitCode::usage, "load_best_model_at_end: there are no samples to evaluate on; raise val_size");
    if (config_.eval_strategy == "no" || run_.data.eval_samples.empty()) return;
    evaluate_ = plan_evaluation(
        session_.context(), run_.session.type, run_.machine,
        {.samples = run_.data.eval_source(),
         .used = run_.data.eval_samples,
         .packing = config_.packing,
         .slot_tokens = config_.cutoff_len,
         .most_slots = config_.per_device_eval_batch_size,
         .micro_batch = std::min(run_.plan.batch.micro_batch, config_.per_device_eval_batch_size),
         .weight_slots = run_.plan.weight_slots,
         .device_budget = std::max(run_.program.device_bytes, run_.machine.device_capacity)});
  }

  void step() {
    const PackedBatch batch = stream_.next();
    // Samples without supervised tokens are left out when they are tokenised, with a line that counts them.
    check(batch.supervised > 0, "every step has something to learn");
    const double lr = learning_rate(schedule_, state_.step, total_steps_, warmup_, config_.learning_rate);
    change_links();
    const bool traced = run_.traced && state_.step + 1 == config_.trace_step;
    const StepOutcome outcome =
        session_.executor().train(*program_, step_tokens(batch), adamw_step(config_, lr, state_.updates + 1),
                                  replanning_ || traced || step_seconds_.size() < kTimedSteps);
    if (!outcome.timings.empty()) compute_parts_.push_back(compute_time(outcome) / outcome.seconds);
    ++state_.step;
    if (traced) run_.traced(state_.step, outcome.timings);
    state_.tokens += batch.real_tokens;
    session_samples_ += batch.documents;
    state_.cursor = stream_.cursor();
    last_loss_ = outcome.loss_sum / static_cast<double>(outcome.supervised);
    step_seconds_.push_back(outcome.seconds);
    training_seconds_ += outcome.seconds;
    if (outcome.finite) {
      ++state_.updates;
      non_finite_ = 0;
      loss_total_ += last_loss_;
      ++loss_steps_;
    } else {
      refuse_non_finite();
    }
    progress_->step({.loss = last_loss_,
                     .lr = lr,
                     .tokens = batch.real_tokens,
                     .slots = batch.slots,
                     .seconds = outcome.seconds});
    if (state_.step % config_.logging_steps == 0 || state_.step == total_steps_)
      log_->training(point(), {.loss = last_loss_, .grad_norm = outcome.gradient_norm, .lr = lr});
    if (evaluation_due()) evaluate();
    if (config_.save_steps > 0 && state_.step % config_.save_steps == 0) save(config_.save_only_model);
    if (replanning_ && state_.step < total_steps_) replan(outcome);
  }

  // Another plan takes over where the run finds one worth it. What the old one has left over is done first:
  // its updates hide at the beginning of a step of its own.
  void replan(const StepOutcome& outcome) {
    auto [message, next] = run_.replan(outcome);
    if (!message.empty()) progress_->message(fmt::format("step {}: {}", state_.step, message));
    if (!next) return;
    check(next->plan.groups == run_.plan.groups && next->plan.batch == run_.plan.batch,
          "a plan that takes over leaves everything where it lives");
    drain();
    session_.make_room(next->program);
    next_ = std::make_unique<NextPlan>(std::move(*next));
    program_ = &next_->program;
    write_json(std::filesystem::path(config_.output_dir) / "plan.json", to_json(next_->plan));
    step_seconds_.clear();
    compute_parts_.clear();
  }

  // The emulated links change in the middle of a run.
  void change_links() {
    if (config_.debug_link_step == 0 || state_.step != config_.debug_link_step) return;
    LinkRates rates = session_.options().device.links;
    for (double* rate : {&rates.h2d, &rates.d2h, &rates.duplex}) *rate *= config_.debug_link_factor;
    session_.set_links(rates);
  }

  [[nodiscard]] Seconds compute_time(const StepOutcome& outcome) const {
    Seconds sum = 0;
    for (std::size_t i = 0; i < outcome.timings.size(); ++i)
      if (program_->ops[i].stream == StreamId::compute)
        sum += outcome.timings[i].end - outcome.timings[i].start;
    return sum;
  }

  void refuse_non_finite() {
    ++non_finite_;
    progress_->message(
        fmt::format("warning: the gradient of step {} is not finite; its update is left out", state_.step));
    if (non_finite_ < kNonFiniteLimit) return;
    drain();
    save(config_.save_only_model);
    std::string older;
    for (const CheckpointInfo& info : list_checkpoints(config_.output_dir))
      if (info.fault.empty() && info.path != last_checkpoint_ && info.step <= state_.step - kNonFiniteLimit)
        older = fmt::format(", an earlier one in {}", info.path.string());
    fail(ExitCode::numerics,
         "the gradients of {} steps in a row were not finite; the state after the last good one is in {}{}; "
         "lower learning_rate or look at the data of these steps, and go on from one of them with "
         "resume_from_checkpoint",
         kNonFiniteLimit, last_checkpoint_.string(), older);
  }

  void drain() { session_.executor().drain(update_); }

  [[nodiscard]] bool evaluation_due() const {
    return evaluate_ &&
           (state_.step % config_.steps_between_evaluations() == 0 || state_.step >= total_steps_);
  }

  void evaluate() {
    drain();
    const EvaluationResult result =
        lazytrain::evaluate(session_, *evaluate_, run_.data.eval_source(), run_.data.eval_samples,
                            config_.packing, [&] { return run_.signals.requested(); });
    if (!result.complete) return;  // half an evaluation is none
    last_save_ = -1;               // a checkpoint of this step does not have it yet
    progress_->message(fmt::format("step {}: evaluation loss {:.4f} ({} supervised tokens, {})", state_.step,
                                   result.loss, result.supervised, format_duration(result.seconds)));
    log_->evaluation(
        point(),
        {.loss = result.loss, .runtime = result.seconds, .samples = result.samples, .steps = result.steps});
  }

  void save(bool only_model) {
    drain();
    CheckpointWriter writer(run_.lock, state_.step);
    if (only_model) {
      export_model(writer.folder());
    } else {
      for (std::size_t g = 0; g < session_.context().groups.size(); ++g) {
        writer.begin(weights_file(g));
        write_in_parts(writer, session_.weights(g, false));
        writer.begin(states_file(g));
        for (std::size_t p = 0; p < session_.states().pieces(g); ++p)
          write_in_parts(writer, session_.states().piece(g, p, false));
      }
    }
    writer.add("lazytrain_state.json", to_text(state_));
    writer.add("trainer_state.json", log_->state_json(point(), true));
    writer.add("run.yaml", to_yaml(config_));
    last_checkpoint_ = writer.commit();
    last_save_ = state_.step;
    log_->write_state(point());
    // What may be needed to go back before steps that were not finite stays.
    if (non_finite_ > 0) return;
    prune_checkpoints(run_.lock, last_checkpoint_, config_.save_total_limit.value_or(0),
                      keeps_best() && log_->best_metric()
                          ? checkpoint_path(config_.output_dir, log_->best_step())
                          : std::filesystem::path());
    remove_runs_set_aside(run_.lock, last_checkpoint_);
  }

  [[nodiscard]] std::int64_t exported_step() const {
    return config_.load_best_model_at_end && log_->best_metric() ? log_->best_step() : state_.step;
  }

  // The trained model must not be lost with an export that fails.
  void export_or_save() {
    try {
      if (exported_step() == state_.step)
        export_model(config_.output_dir);
      else
        export_saved_model(checkpoint_path(config_.output_dir, exported_step()), run_.model,
                           config_.output_dir);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      const ExitCode code = known != nullptr ? known->code() : ExitCode::disk;
      try {
        if (last_save_ != state_.step || config_.save_only_model) save(false);
      } catch (const Error& second) {
        fail(code, "{}; nor could a checkpoint of the trained model be saved: {}", error.what(),
             second.what());
      }
      const std::filesystem::path checkpoint =
          last_checkpoint_.empty() ? run_.resume->path() : last_checkpoint_;
      fail(code,
           "{}; the trained model is in {}: once that is mended, `lazytrain export {} --model {} --out "
           "FOLDER` "
           "makes a model folder of it",
           error.what(), checkpoint.string(), checkpoint.string(), run_.model.path().string());
    }
  }

  void restore(const Checkpoint& checkpoint) {
    const TrainerState saved = trainer_state_from_text(checkpoint.text("lazytrain_state.json"),
                                                       checkpoint.path() / "lazytrain_state.json");
    require_same_run(saved, state_, checkpoint.path());
    const MomentOptions now = state_.moments;
    state_ = saved;
    state_.moments = now;
    stream_.seek(saved.cursor);
    const std::vector<ParameterGroup>& groups = session_.context().groups;
    const DataType type = session_.options().type;
    const std::vector<GroupStateLayout> layouts = state_layouts(groups, type, saved.moments);
    if (to_string(saved.moments) != to_string(now))
      log::info("the optimizer's states are converted: {} -> {}", to_string(saved.moments), to_string(now));
    const auto open = [&](const std::string& name, std::size_t expected) {
      MappedFile file = checkpoint.map(name);
      if (file.bytes().size() != expected)
        fail(ExitCode::model_file,
             "{}: {} has {} bytes where this model needs {}; resume with the model and precision that wrote "
             "it",
             checkpoint.path().string(), name, file.bytes().size(), expected);
      return file;
    };
    StateWindow& states = session_.states();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const std::span<std::byte> weights = session_.weights(g, true);
      std::ranges::copy(open(weights_file(g), weights.size()).bytes(), weights.begin());
      const MappedFile file = open(states_file(g), static_cast<std::size_t>(layouts[g].bytes.value));
      for (std::size_t p = 0; p < states.pieces(g); ++p) {
        const StatePiece& piece = layouts[g].pieces[p];
        const auto from = file.bytes().subspan(static_cast<std::size_t>(piece.offset.value),
                                               static_cast<std::size_t>(piece.bytes.value));
        const std::span<std::byte> to = states.piece(g, p, true);
        if (to_string(saved.moments) != to_string(now))
          convert_states(piece_layout(layouts[g], piece), from,
                         piece_layout(session_.state_layouts()[g], session_.state_layouts()[g].pieces[p]),
                         to);
        else
          std::ranges::copy(from, to.begin());
      }
    }
    states.release();
  }

  // Before memory is taken and the model is read.
  void check_space() {
    const std::int64_t done = run_.resume ? run_.resume->step() : 0;
    Bytes checkpoint;
    for (std::size_t g = 0; g < session_.context().groups.size(); ++g)
      checkpoint += session_.weight_bytes(g) + session_.state_layouts()[g].bytes;
    const Bytes model = run_.model.check_export(config_.output_dir);
    // Without save_steps one checkpoint still: a signal, or an export that fails, saves one.
    const std::int64_t saves = config_.save_steps > 0 ? (total_steps_ - done) / config_.save_steps + 1 : 1;
    const std::int64_t limit = config_.save_total_limit.value_or(0);
    const bool shared = same_file_system(run_.session.scratch_folder, config_.output_dir);
    check_disk_space(config_.output_dir,
                     {.checkpoint = config_.save_only_model ? model : checkpoint,
                      .checkpoints = std::max<std::int64_t>(1, saves),
                      .limit = limit > 0 && keeps_best() ? std::max<std::int64_t>(2, limit) : limit,
                      .model = model,
                      .scratch = shared ? run_.program.disk_bytes : Bytes{0},
                      .anew = !continues_});
  }

  void export_model(const std::filesystem::path& out) {
    run_.model.export_to(out, "", [&](std::size_t group, std::int64_t first, std::span<float> values) {
      session_.read_masters(group, first, values);
    });
  }

  [[nodiscard]] TrainerLogPoint point() const {
    const double epoch_steps =
        static_cast<double>(std::max<std::int64_t>(1, stream_.steps(state_.cursor.epoch)));
    const double in_epoch =
        static_cast<double>(state_.cursor.slot) / static_cast<double>(config_.slots_per_step());
    return {.step = state_.step,
            .epoch = static_cast<double>(state_.cursor.epoch) + std::min(1.0, in_epoch / epoch_steps),
            .elapsed = progress_->elapsed(),
            .remaining = progress_->remaining(),
            .tokens_per_second = progress_->tokens_per_second(),
            .tokens = state_.tokens,
            .flops = 6.0 * static_cast<double>(parameter_count(run_.model.architecture())) *
                     static_cast<double>(state_.tokens)};
  }

  const TrainingRun& run_;
  const RunConfig& config_;
  BatchStream stream_;
  std::int64_t total_steps_;
  Schedule schedule_;
  std::int64_t warmup_;
  Session session_;
  Program update_;
  const Program* program_ = &run_.program;  // the step of the plan in use
  bool replanning_ = false;
  std::unique_ptr<NextPlan> next_;  // it, where it is not the run's first
  std::optional<Program> evaluate_;
  TrainerState state_;
  TrainerLog* log_ = nullptr;
  Progress* progress_ = nullptr;
  std::vector<Seconds> step_seconds_;  // of the plan in use
  Seconds training_seconds_ = 0;
  std::vector<double> compute_parts_;  // of timed steps: the part in which the compute stream was busy
  double last_loss_ = 0, loss_total_ = 0;
  std::int64_t loss_steps_ = 0, non_finite_ = 0, session_samples_ = 0;
  std::int64_t last_save_ = -1;  // the step whose checkpoint in output_dir holds everything; -1 none
  bool continues_ = false;       // goes on from a checkpoint of output_dir
  std::filesystem::path last_checkpoint_;
};

}  // namespace

TrainingResult train(const TrainingRun& run) {
  return Trainer(run).train();
}

}  // namespace lazytrain
