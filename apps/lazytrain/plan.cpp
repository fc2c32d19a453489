// lazytrain plan run.yaml [key=value ...]: needs the model's config.json only.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command_line.h"
#include "commands.h"
#include "core/file.h"
#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "program/program.h"
#include "report/layer_homes.h"
#include "report/plan_page.h"
#include "report/plan_report.h"
#include "run_setup.h"
#include "standard_output.h"

namespace lazytrain {
namespace {

struct Options {
  std::string file, out = "plan.json";
  std::string page, trace;  // empty: not written
  std::vector<std::string> overrides;
  bool listing = false;
  double supervised_fraction = 1;
};

int run(const Options& options) {
  require_writable(options.out, "--out");
  if (!options.page.empty()) require_writable(options.page, "--page");
  if (!options.trace.empty()) require_writable(options.trace, "--trace");
  const RunConfig config = load_config(options.file, options.overrides, {{"model_name_or_path"}});
  const Architecture architecture = read_architecture(config.model_name_or_path);
  require_positions(config, architecture);
  const SessionOptions session = training_options(config, architecture);
  PlanningInputs inputs = planning_inputs(config, architecture, session, options.supervised_fraction);
  if (config.max_steps > 0) inputs.most_disk_writes = most_disk_writes(config, config.max_steps);
  const PlannedStep planned = plan_step(inputs, config.policy);
  print("{}", tiers_table(planned.program, planned.machine));
  print("{}", policies_table(planned.table, planned.machine));
  print("{}", step_summary(planned, planned.machine, inputs.costs));
  print("{}", time_summary(planned));
  print("{}", layer_strip(planned.plan, planned.program.tiers));
  if (options.listing) print("{}", listing(planned.program));
  write_json(options.out, to_json(planned.plan));
  print("plan written to {}\n", options.out);
  const StepPicture picture{
      .step = planned, .costs = inputs.costs, .model = model_words(config, architecture)};
  if (!options.page.empty()) {
    write_file(options.page, plan_page(picture));
    print("page written to {}\n", options.page);
  }
  if (!options.trace.empty()) {
    write_file(options.trace, step_trace(picture));
    print("trace written to {}\n", options.trace);
  }
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
  command->add_option("file", options->file, "run.yaml")->required()->check(CLI::ExistingFile);
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
  command->footer(
      "Examples:\n  lazytrain plan run.yaml device_memory=240MB memory_model=emulated\n"
      "  lazytrain plan run.yaml --page plan.html\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
