// lazytrain calibrate run.yaml [key=value ...]: what this machine's operations cost for this model; needs the
// model's config.json only. `plan` and `train` read the result.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "command_line.h"
#include "commands.h"
#include "run_setup.h"
#include "runtime/profiler.h"
#include "standard_output.h"

namespace lazytrain {
namespace {

struct Options {
  std::string file, out;
  std::vector<std::string> overrides;
  bool quick = false;
  const CLI::Option* out_given = nullptr;
};

int run(const Options& options) {
  if (options.out_given->count() > 0) require_writable(options.out, "--out");
  require_apart({.run_file = options.file}, {{"--out", options.out}});
  const RunConfig config = load_config(options.file, options.overrides, {{"model_name_or_path"}});
  const Architecture architecture = read_architecture(config.model_name_or_path);
  require_positions(config, architecture);
  ProfileOptions profile = profile_options(config, session_options(config, true, config.cutoff_len));
  profile.quick = options.quick;
  std::filesystem::path out = options.out;
  if (out.empty()) out = cost_file(architecture, profile);
  // A slot of few tokens costs less in a call of many slots than alone.
  profile.micro_batch = config.micro_batch.value_or(1);
  const CostTable costs = measure_costs(architecture, profile);
  write_cost_table(out, costs);
  print("{}", costs_table(costs, architecture));
  const Machine machine = machine_of(config);
  const auto link = [](double rate) {
    return rate > 0 ? fmt::format("{:g} GB/s", rate) : std::string("not paced");
  };
  if (machine.emulated) {
    print("emulated links: to the device {}, to the host {}, both together {}\n", link(machine.h2d),
          link(machine.d2h), link(machine.duplex));
    if (machine.optimizer_rate > 0)
      print("emulated optimizer: at most {:.0f} M parameters/s\n", machine.optimizer_rate / 1e6);
  }
  print("written to {}\n", out.string());
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("calibrate", "Measure what the operations of a step cost on this machine");
  const auto options = std::make_shared<Options>();
  command->add_option("file", options->file, "run.yaml")->required()->check(CLI::ExistingFile);
  command->add_option("overrides", options->overrides, "key=value, as many as you like");
  options->out_given = command->add_option(
      "--out", options->out,
      "where the costs go (default: the place where plan and train look; for another place, "
      "set `calibration` in run.yaml)");
  command->add_flag("--quick", options->quick, "a few seconds, less exact");
  command->footer(
      "Run it while the machine has nothing else to do.\n"
      "With micro_batch it measures calls of so many slots, else of one.\n"
      "Example:\n  lazytrain calibrate run.yaml memory_model=emulated device_memory=240MB\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
