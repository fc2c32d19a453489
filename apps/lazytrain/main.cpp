// lazytrain: plans a training step, then runs it. Subcommands are in files of their own.
#include <CLI/CLI.hpp>
#include <exception>

#include "commands.h"
#include "core/error.h"
#include "core/log.h"

int main(int argc, char** argv) {
  using namespace lazytrain;
  CLI::App app{
      "LazyTrain fine-tunes language models, all parameters, on hardware too small for them.\n"
      "It plans the whole training step first: what is stored where, what is recomputed, when each byte "
      "moves."};
  app.name("lazytrain");
  app.set_version_flag("--version", "lazytrain " LAZYTRAIN_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  lazytrain import model.gguf --out models/small\n"
      "  lazytrain plan run.yaml                    what fits, and how long a step will take\n"
      "  lazytrain train run.yaml learning_rate=2e-5 output_dir=runs/a\n"
      "  lazytrain eval run.yaml model_name_or_path=runs/a\n"
      "Exit codes: 0 ok, 2 usage or configuration, 3 data, 4 model file, 5 does not fit, 6 disk, 7 device, 8 "
      "numerics,\n"
      "            130 interrupted and saved");
  Action action;
  for (const auto add : {add_train, add_plan, add_eval, add_generate, add_export, add_import, add_inspect})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : static_cast<int>(ExitCode::usage);
  }
  try {
    return action ? action() : static_cast<int>(ExitCode::usage);
  } catch (const Error& error) {
    log::write(log::Level::error, error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    log::write(log::Level::error,
               "out of memory; lower device_memory and host_memory to what the system leaves free");
    return static_cast<int>(ExitCode::does_not_fit);
  } catch (const std::exception& error) {
    log::write(log::Level::error, std::string(error.what()) + " (a bug in lazytrain: please report it)");
    return 1;
  }
}
