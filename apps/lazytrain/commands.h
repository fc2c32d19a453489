// The subcommands of `lazytrain`. Each add_ function registers one with its options and help; what it does
// runs after parsing.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace lazytrain {

// Set by the chosen subcommand; returns the process's exit code.
using Action = std::function<int()>;

void add_train(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_import(CLI::App& app, Action& action);
void add_inspect(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_keys(CLI::App& app, Action& action);

}  // namespace lazytrain
