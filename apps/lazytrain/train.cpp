// lazytrain train run.yaml [key=value ...]
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>

#include "commands.h"
#include "core/file.h"
#include "core/log.h"
#include "planning/replan.h"
#include "report/layer_homes.h"
#include "report/loss_chart.h"
#include "report/plan_page.h"
#include "report/plan_report.h"
#include "run_setup.h"
#include "standard_output.h"
#include "training/output_folder.h"
#include "training/resume.h"
#include "training/trainer.h"

namespace lazytrain {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> overrides;
};

double supervised_fraction(const RunData& data) {
  const TokenizedSamples& samples = data.train.samples;
  return samples.tokens() > 0
             ? static_cast<double>(samples.supervised_tokens()) / static_cast<double>(samples.tokens())
             : 1.0;
}

// The checkpoint that the run goes on from; none: it starts anew, and may.
std::optional<Checkpoint> to_go_on_from(const RunConfig& config) {
  std::optional<Checkpoint> resume;
  if (config.resume_from_checkpoint)
    resume = checkpoint_to_resume(*config.resume_from_checkpoint, config.output_dir);
  if (resume) require_states(*resume);
  if ((!resume || !lies_in(*resume, config.output_dir)) && !config.overwrite_output_dir)
    require_unused(config.output_dir, config.resume_from_checkpoint == "auto");
  return resume;
}

// The effective configuration is saved as run.yaml in output_dir: not over one that a user wrote. A saved one
// has the headings of all groups of keys.
void require_not_replaced(const std::filesystem::path& file, const std::filesystem::path& output_dir) {
  std::error_code error;
  if (!std::filesystem::equivalent(file, output_dir / "run.yaml", error) || error) return;
  const std::string text = "\n" + read_file(file);
  std::istringstream saved(to_yaml({}));
  for (std::string line; std::getline(saved, line);)
    if (line.starts_with("# ") && text.find("\n" + line + "\n") == std::string::npos)
      fail(ExitCode::usage,
           "{}: output_dir is the folder that this file lies in, and the run would save its effective "
           "configuration over it; choose another output_dir or rename the file",
           file.string());
}

// Steps of the run. One of no steps would hand out the model as it came.
std::int64_t require_steps(const RunConfig& config, const RunData& data) {
  if (config.max_steps > 0) return config.max_steps;
  const BatchStream stream(data.train.samples, data.train_samples, packing_options(config));
  const std::int64_t steps = stream.total_steps(config.num_train_epochs);
  if (steps == 0)
    fail(ExitCode::usage,
         "num_train_epochs: {} of an epoch of {} steps is not even one; give more, or max_steps: 1",
         config.num_train_epochs, stream.steps(0));
  return steps;
}

void compare(const Checkpoint& resume, RunConfig& config) {
  const std::string changed = compare_with_checkpoint(resume, config);
  config.micro_batch = read_resume_point(resume).micro_batch;  // it decides the order of sums
  log::info("resuming from {}", resume.path().string());
  if (!changed.empty()) log::warning("the checkpoint was written with other settings: {}", changed);
}

// The trainer's view of a Replanner; nothing where there is none.
std::function<Replanned(const StepOutcome&)> replan_with(std::optional<Replanner>& replanner) {
  if (!replanner) return {};
  return [&replanner](const StepOutcome& outcome) {
    std::vector<SimulatedOp> ops;
    for (const OpTiming& timing : outcome.timings) ops.push_back({.start = timing.start, .end = timing.end});
    const std::string before = replanner->why();
    Replanned result;
    if (replanner->after_step(outcome.seconds, ops))
      result.next = {.plan = replanner->step().plan, .program = replanner->step().program};
    if (replanner->why() != before) result.message = replanner->why();
    return result;
  };
}

// plan.html and trace.json in output_dir: the step as it was planned, and as it ran. They are a by-product: a
// disk that is full ends no run.
void write_pictures(const RunConfig& config, const Architecture& architecture, const PlannedStep& planned,
                    const CostTable& costs, std::int64_t step, const std::vector<OpTiming>& timings) {
  std::vector<OpTime> measured;
  measured.reserve(timings.size());
  for (const OpTiming& timing : timings) measured.push_back({.start = timing.start, .end = timing.end});
  const StepPicture picture{.step = planned,
                            .costs = costs,
                            .model = model_words(config, architecture),
                            .measured = measured,
                            .measured_step = step};
  const std::filesystem::path folder = config.output_dir;
  try {
    write_file(folder / "plan.html", plan_page(picture));
    write_file(folder / "trace.json", step_trace(picture));
  } catch (const Error& error) {
    log::warning("trace_step: {}", error.what());
  }
}

// training_loss.svg in output_dir, of what trainer_state.json there says; a by-product like the pictures
// above.
void draw_losses(const RunConfig& config) {
  if (!config.plot_loss) return;
  const std::filesystem::path folder = config.output_dir, state = folder / "trainer_state.json";
  try {
    const std::string chart =
        loss_chart(loss_curves(read_file(state), state.string()), fmt::format("loss, {}", config.output_dir));
    if (!chart.empty()) write_file(folder / "training_loss.svg", chart);
  } catch (const Error& error) {
    log::warning("plot_loss: {}", error.what());
  }
}

int run(const Options& options) {
  RunConfig config =
      load_config(options.file, options.overrides, {{"model_name_or_path", "dataset", "output_dir"}});
  if (!config.do_train)
    fail(ExitCode::usage, "do_train: false leaves nothing to train; use `lazytrain eval {}` to evaluate",
         options.file);
  if (config.debug_skip_update)
    log::warning("debug_skip_update: the updates are left out, so the model stays as it came");
  require_not_replaced(options.file, config.output_dir);
  const StopSignals signals;
  const ModelFolder model(config.model_name_or_path);
  require_positions(config, model.architecture());
  static_cast<void>(model.check_export(config.output_dir));
  const OutputLock lock(config.output_dir);
  require_no_foreign_checkpoints(config.output_dir);
  for (const std::string& line : recover_output_folder(lock)) log::info("{}", line);
  for (const std::string& name : remove_stale_temporaries(lock))
    log::info("removed {}, left by a run that was killed", name);
  std::optional<Checkpoint> resume = to_go_on_from(config);

  ThreadPool pool(worker_threads(config));
  if (resume && !config.template_date) config.template_date = saved_template_date(*resume);
  const ModelText text = load_model_text(config);
  config.template_name = text.chat_template.name();
  // A run that goes on tomorrow says the date of today.
  if (!config.template_date && text.chat_template.says_the_date()) config.template_date = today();
  if (resume) compare(*resume, config);
  const std::int64_t done = resume ? resume->step() : 0;
  const RunData data = load_run_data(
      config, text, pool, [](const std::string& line) { say(line + "\n"); }, log::terminal(STDOUT_FILENO),
      [&] { return signals.requested(); });
  const std::int64_t steps = require_steps(config, data);
  const SessionOptions session = training_options(config, model.architecture());
  PlanningInputs inputs = planning_inputs(config, model.architecture(), session, supervised_fraction(data));
  inputs.most_disk_writes = most_disk_writes(config, steps - done);
  const PlannedStep planned = plan_step(inputs, config.policy);
  config.micro_batch = planned.plan.batch.micro_batch;
  say("\neffective configuration (saved as run.yaml in output_dir):\n" + to_yaml(config) + "\n");
  say(tiers_table(planned.program, planned.machine));
  say(policies_table(planned.table, planned.machine));
  say(step_summary(planned, planned.machine, inputs.costs));
  say(time_summary(planned));
  say(layer_strip(planned.plan, planned.program.tiers));

  require_few_writes(config, planned.program, steps - done);

  std::optional<Replanner> replanner;
  if (config.replan == "auto") replanner.emplace(inputs, config.policy, planned);
  const auto traced = [&](std::int64_t step, const std::vector<OpTiming>& timings) {
    write_pictures(config, model.architecture(), replanner ? replanner->step() : planned, inputs.costs, step,
                   timings);
  };
  const TrainingResult result = train({.config = config,
                                       .model = model,
                                       .data = data,
                                       .machine = planned.machine,
                                       .plan = planned.plan,
                                       .program = planned.program,
                                       .session = options_for(session, config, planned.plan),
                                       .lock = lock,
                                       .resume = std::move(resume),
                                       .signals = signals,
                                       .replan = replan_with(replanner),
                                       .traced = traced});
  const PlannedStep& last = replanner ? replanner->step() : planned;
  say(fmt::format("\n{} of {} steps done, {} of them now{}\n", result.steps, result.total_steps,
                  result.session_steps,
                  result.session_steps > 0 ? fmt::format("; last loss {:.4f}", result.last_loss) : ""));
  if (result.session_steps > 0) {
    const MeasuredStep measured{.step = result.median_step,
                                .compute = result.median_compute,
                                .exposed = std::max(0.0, result.median_step - result.median_compute),
                                .device_peak = result.device_peak,
                                .host_peak = result.host_peak};
    say(planned_and_measured(last, measured, last.machine));
    const Bytes arenas = last.program.device_bytes + last.program.host_bytes;
    say(fmt::format("process memory: planned {} in the arenas + at most {}, measured {}\n{:.0f} real tok/s\n",
                    format_bytes(arenas), format_bytes(kProcessAllowance), format_bytes(result.resident),
                    static_cast<double>(result.tokens) / result.step_seconds));
    if (!result.disk_method.empty())
      say(fmt::format("scratch disk: {}; {} written in {} steps\n", result.disk_method,
                      format_bytes(result.session_steps * disk_writes(planned.program)),
                      result.session_steps));
  }
  draw_losses(config);
  if (result.interrupted) {
    log::info("{}",
              config.save_only_model
                  ? "stopped by a signal; the model so far is saved, but save_only_model keeps nothing to "
                    "resume from"
                  : "stopped by a signal and saved; go on with resume_from_checkpoint=auto");
    return static_cast<int>(ExitCode::interrupted);
  }
  if (result.exported_step == result.steps)
    say(fmt::format("the model is in {}\n", config.output_dir));
  else
    say(fmt::format("the model of step {}, which was evaluated best, is in {}\n", result.exported_step,
                    config.output_dir));
  return 0;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("train", "Fine-tune a model as run.yaml says");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "run.yaml")->required()->check(CLI::ExistingFile);
  command->add_option("overrides", options->overrides, "key=value, as many as you like");
  command->footer([] {
    return "Keys of run.yaml:\n" + run_config_help() +
           "\nExample:\n  lazytrain train run.yaml learning_rate=2e-5 resume_from_checkpoint=auto\n";
  });
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
