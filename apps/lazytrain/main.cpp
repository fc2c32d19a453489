// lazytrain: plans a training step, then runs it. Subcommands are in files of their own.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <filesystem>

#include "command_line.h"
#include "commands.h"
#include "core/error.h"
#include "core/log.h"

namespace lazytrain {
namespace {

int ends(ExitCode code, const std::string& sentence) {
  log::write(log::Level::error, sentence);
  return static_cast<int>(code);
}

// Runs a command; everything that can go wrong ends in one sentence and an exit code.
int run(const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    return ends(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return ends(ExitCode::does_not_fit,
                "out of memory; lower device_memory and host_memory to what the system leaves free");
  } catch (const std::filesystem::filesystem_error& error) {
    return ends(ExitCode::disk, fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::exception& error) {
    log::write(log::Level::error, std::string(error.what()) + " (a bug in lazytrain: please report it)");
    return 1;
  }
}

// A report that did not arrive is an error, after everything else went well.
int finished(int code) {
  if (code != 0 || standard_output_arrived()) return code;
  return ends(ExitCode::disk, "standard output: not everything could be written to it; free some space");
}

}  // namespace
}  // namespace lazytrain

int main(int argc, char** argv) {
  using namespace lazytrain;
  open_standard_streams();
  // A file that may not grow any more shall fail to be written, as on a full disk, instead of ending the
  // process without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  // A pipe that nobody reads any more shall not end a training run; see standard_output.h.
  std::signal(SIGPIPE, SIG_IGN);
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
  for (const auto add : {add_train, add_plan, add_eval, add_generate, add_export, add_import, add_inspect,
                         add_calibrate, add_doctor, add_keys})
    add(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return finished(app.exit(error));  // --help and --version
    return ends(ExitCode::usage, sentence_of(error, app, argc, argv));
  }
  return finished(run(action));
}
