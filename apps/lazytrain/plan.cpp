// lazytrain plan run.yaml [key=value ...]: needs the model's config.json only. Or without a run.yaml, from a
// model, a machine file and a batch.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "core/file.h"
#include "core/log.h"
#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "plan_from_files.h"
#include "planning/policies.h"
#include "planning/questions.h"
#include "program/program.h"
#include "report/layer_homes.h"
#include "report/plan_page.h"
#include "report/plan_report.h"
#include "report/question_report.h"
#include "run_setup.h"
#include "standard_output.h"

namespace lazytrain {
namespace {

struct Questions {
  bool find_batch = false, compare = false, explain = false;
  std::string sweep;
};

struct Options {
  std::string file, out = "plan.json";
  std::string page, trace;  // empty: not written
  std::vector<std::string> overrides;
  bool listing = false;
  double supervised_fraction = 1;
  Questions questions;
  PlanFiles files;                               // in the place of `file`
  std::vector<const CLI::Option*> without_file;  // that fill it in
};

void show(const Options& options, const PlannedStep& planned, const CostTable& costs,
          const std::string& model) {
  print("{}", tiers_table(planned.program, planned.machine));
  print("{}", policies_table(planned.table, planned.machine));
  print("{}", step_summary(planned, planned.machine, costs));
  print("{}", time_summary(planned));
  print("{}", layer_strip(planned.plan, planned.program.tiers));
  if (options.listing) print("{}", listing(planned.program));
  write_json(options.out, to_json(planned.plan));
  print("plan written to {}\n", options.out);
  const StepPicture picture{.step = planned, .costs = costs, .model = model};
  if (!options.page.empty()) {
    write_file(options.page, plan_page(picture));
    print("page written to {}\n", options.page);
  }
  if (!options.trace.empty()) {
    write_file(options.trace, step_trace(picture));
    print("trace written to {}\n", options.trace);
  }
}

// A line on terminals that says what is planned: answers may take minutes. It is wiped out before anything
// else.
class PlanningLine {
 public:
  PlanningLine() : shown_(log::terminal()) {}
  ~PlanningLine() { wipe(); }
  PlanningLine(const PlanningLine&) = delete;
  PlanningLine& operator=(const PlanningLine&) = delete;

  void say(const std::string& what) const {
    if (shown_) fmt::print(stderr, "\r  planning: {}\x1b[K", what);
  }
  void wipe() const {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  bool shown_;
};

// Questions are answered in the place of a plan, in the order in which --help lists them. False: none was
// asked.
bool answer_questions(const Options& options, PlanningInputs inputs, const std::string& policy) {
  const Questions& asked = options.questions;
  const PlanningLine line;
  inputs.progress = [&](const std::string& what) { line.say(what); };
  const auto answer = [&](const std::string& table) {
    line.wipe();
    print("{}", table);
  };
  if (asked.find_batch) answer(batch_table(find_batch(inputs, policy), inputs.machine));
  if (!asked.sweep.empty())
    answer(answers_table(sweep(inputs, policy, sweep_axis_from(asked.sweep)), inputs.machine));
  if (asked.compare) answer(policies_table(compare_policies(inputs), inputs.machine));
  if (asked.explain) answer(explanation_table(explain(inputs, policy)));
  return asked.find_batch || !asked.sweep.empty() || asked.compare || asked.explain;
}

int run_from_files(const Options& options) {
  PlanFiles files = options.files;
  for (const auto& [given, name] :
       {std::pair{!files.model.empty(), "--model"}, std::pair{!files.machine.empty(), "--machine"},
        std::pair{files.slots > 0, "--batch"}, std::pair{files.slot_tokens > 0, "--tokens"}})
    if (!given)
      fail(ExitCode::usage, "{} is missing; give run.yaml, or --model, --machine, --batch and --tokens",
           name);
  check_policy_name(files.policy);
  files.supervised_fraction = options.supervised_fraction;
  const PlanningInputs inputs = planning_inputs(files);
  print("{}, {:.1f} G parameters, on {}: nothing is measured, costs are modelled and times simulated\n",
        inputs.context.architecture.model_type,
        static_cast<double>(parameter_count(inputs.context.architecture)) / 1e9, inputs.machine.name);
  if (answer_questions(options, inputs, files.policy)) return 0;
  show(options, plan_step(inputs, files.policy), inputs.costs,
       std::filesystem::path(files.model).lexically_normal().filename().string());
  return 0;
}

int run(const Options& options) {
  const std::vector<WrittenFile> written{
      {"--out", options.out}, {"--page", options.page}, {"--trace", options.trace}};
  require_apart({.run_file = options.file, .machine = options.files.machine, .model = options.files.model},
                written);
  require_writable(options.out, "--out");
  if (!options.page.empty()) require_writable(options.page, "--page");
  if (!options.trace.empty()) require_writable(options.trace, "--trace");
  if (options.file.empty()) return run_from_files(options);
  for (const CLI::Option* option : options.without_file)
    if (option->count() > 0)
      fail(ExitCode::usage, "{} goes without a run.yaml; leave one of the two out", option->get_name());
  const RunConfig config = load_config(options.file, options.overrides, {{"model_name_or_path"}});
  require_apart({.run_file = options.file, .model = config.model_name_or_path}, written);
  const Architecture architecture = read_architecture(config.model_name_or_path);
  require_positions(config, architecture);
  const SessionOptions session = training_options(config, architecture);
  PlanningInputs inputs = planning_inputs(config, architecture, session, options.supervised_fraction);
  if (config.max_steps > 0) inputs.most_disk_writes = most_disk_writes(config, config.max_steps);
  if (answer_questions(options, inputs, config.policy)) return 0;
  const PlannedStep planned = plan_step(inputs, config.policy);
  show(options, planned, inputs.costs, model_words(config, architecture));
  print(
      "  the dataset was not read: slots are taken as full, and {:g} % of their tokens as learned "
      "(--supervised)\n",
      100 * options.supervised_fraction);
  if (config.max_steps > 0) {
    if (planned.program.disk_bytes.value > 0)
      print("  {} steps write {:.3g} TB to {}\n", config.max_steps,
            run_writes(planned.program, config.max_steps).gigabytes() / 1e3, scratch_folder(config).string());
    require_few_writes(config, planned.program, config.max_steps);
  } else if (planned.program.disk_bytes.value > 0) {
    print(
        "  how much the run writes depends on its steps: give max_steps, or see what `train` says before it "
        "starts\n");
  }
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("plan", "Say what a step will use and how long it will take, before anything runs");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "run.yaml")->check(CLI::ExistingFile);
  command->add_option("overrides", options->overrides, "key=value, as many as you like");
  command->add_option("--out", options->out, "where the plan goes")->capture_default_str();
  command->add_option("--page", options->page, "also draw the plan: a page for a browser, one file");
  command->add_option("--trace", options->trace, "also write the simulated step as a trace for Perfetto");
  command->add_option("--supervised", options->supervised_fraction, "share of the tokens that are learned")
      ->check([](const std::string& text) {
        double value = -1;
        const bool number = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 1;  // NaN is not
        return number ? std::string() : fmt::format("'{}' is no share between 0 and 1", text);
      })
      ->capture_default_str();
  command->add_flag("--listing", options->listing, "print the Program, one operation a line");
  Questions& questions = options->questions;
  const std::string instead = "Questions, answered in the place of a plan (all times are simulated)";
  command
      ->add_flag("--find-batch", questions.find_batch,
                 "the batch with the most tokens a second, and the largest that fits")
      ->group(instead);
  command
      ->add_option("--sweep", questions.sweep, "a quarter to four times of batch, device, host, link or disk")
      ->check(CLI::IsMember({"batch", "device", "host", "link", "disk"}))
      ->group(instead);
  command
      ->add_flag("--compare", questions.compare,
                 "the best plan of every policy, beside 4F and 3F: every forward twice, or once, and nothing "
                 "exposed")
      ->group(instead);
  command
      ->add_flag("--explain", questions.explain, "which limit binds: what a little more of each would save")
      ->group(instead);
  PlanFiles& files = options->files;
  const std::string group = "Without a run.yaml";
  const auto add = [&](const char* name, auto& value, const char* help) {
    CLI::Option* option = command->add_option(name, value, help)->group(group);
    options->without_file.push_back(option);
    return option;
  };
  constexpr std::int64_t kMostSlots = 1 << 20, kMostTokens = 1 << 24;
  add("--model", files.model, "folder with the model's config.json; its weights are not needed");
  add("--machine", files.machine, "machine file, as in examples/machines");
  add("--batch", files.slots, "slots in a step")->check(CLI::Range(std::int64_t{1}, kMostSlots));
  add("--tokens", files.slot_tokens, "tokens in a slot")->check(CLI::Range(std::int64_t{1}, kMostTokens));
  add("--policy", files.policy, "as the key policy of run.yaml")->capture_default_str();
  add("--micro-batch", files.micro_batch, "slots in one layer call (default: the planner's choice)")
      ->check(CLI::Range(std::int64_t{1}, kMostSlots));
  add("--optimizer", files.optimizer, "adamw_torch (fp32 moments), adamw_8bit or adamw_hybrid")
      ->check(CLI::IsMember({"adamw_torch", "adamw_32bit", "adamw_8bit", "adamw_hybrid"}))
      ->capture_default_str();
  add("--host-pool", files.host_pool,
      "host memory for boundaries and stashes, e.g. 16GB, beside weights, states and gradients (default: the "
      "machine's host_capacity for all)");
  add("--disk", files.disk,
      "scratch disk to use wherever it makes a step faster, e.g. 1TB (default: the machine's disk_capacity, "
      "used "
      "only for what has no other room)");
  add("--overlap", files.optimizer_overlap, "hide the optimizer before the next forward: auto, on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command->footer(
      "Examples:\n  lazytrain plan run.yaml device_memory=240MB memory_model=emulated\n"
      "  lazytrain plan run.yaml --page plan.html\n"
      "  lazytrain plan --model examples/models/qwen3.6-27b --machine examples/machines/h800-80g.json "
      "--batch 72 --tokens 1024\n"
      "  lazytrain plan --model examples/models/qwen2.5-7b --machine examples/machines/rtx-3090.json "
      "--batch 6 --tokens 1024 --explain\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
