// lazytrain keys [KEY ...]: what run.yaml may say.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "standard_output.h"
#include "training/run_config.h"

namespace lazytrain {
namespace {

struct Options {
  std::vector<std::string> keys;
  bool markdown = false;
};

int run(const Options& options) {
  if (options.markdown) {
    print("{}", run_config_markdown());
  } else if (options.keys.empty()) {
    print("{}", run_config_help());
  }
  for (const std::string& key : options.keys) print("{}", describe_key(key));
  return 0;
}

}  // namespace

void add_keys(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("keys", "What run.yaml may say: every key, its default, values and meaning");
  const auto options = std::make_shared<Options>();
  command->add_option("keys", options->keys, "only these");
  command->add_flag("--markdown", options->markdown, "all keys as tables, for the manual");
  command->footer("Examples:\n  lazytrain keys\n  lazytrain keys learning_rate packing\n");
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace lazytrain
