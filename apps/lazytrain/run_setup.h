// From a run's configuration to what planning and sessions need: the machine with its budgets, the session's
// options, the costs.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planning/portfolio.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "training/run_config.h"

namespace lazytrain {

// What the process needs beside its arenas: code, libraries' own buffers, thread stacks, tokenised data.
inline constexpr Bytes kProcessAllowance{200'000'000};

// Loads run.yaml with overrides, prints the notices; `required` keys must be set.
RunConfig load_config(const std::string& file, const std::vector<std::string>& overrides,
                      const std::vector<std::string_view>& required);

// Error(usage) where slots, or a prompt, are longer than the model has positions.
void require_positions(const RunConfig& config, const Architecture& architecture);
void require_positions(std::int64_t prompt, const Architecture& architecture);

// "SmolLM2-135M: llama, 30 layers, 134.5 M parameters", for titles.
std::string model_words(const RunConfig& config, const Architecture& architecture);

SessionOptions session_options(const RunConfig& config, bool training, std::int64_t positions);
// Of a training run, the optimizer's states included.
SessionOptions training_options(const RunConfig& config, const Architecture& architecture);
Machine machine_of(const RunConfig& config);
// Where a training run keeps what is on disk: scratch_dir, or else output_dir.
std::filesystem::path scratch_folder(const RunConfig& config);
// The options of a session that runs `plan`.
SessionOptions options_for(SessionOptions options, const RunConfig& config, const Plan& plan);
// What max_disk_writes_tb leaves each of so many steps.
Bytes most_disk_writes(const RunConfig& config, std::int64_t steps);
// What a run of `steps` steps writes to the scratch disk: each step's, and all of it once when it is loaded.
Bytes run_writes(const Program& program, std::int64_t steps);
// Error(usage) where a run of `steps` steps would write more to the scratch disk than max_disk_writes_tb.
void require_few_writes(const RunConfig& config, const Program& program, std::int64_t steps);
// How costs are measured for a run: with its threads, types and slots; quickly.
ProfileOptions profile_options(const RunConfig& config, const SessionOptions& session);

// Everything that planning a training step needs; costs measured or from the cache, see runtime/profiler.h.
// micro_batch 0 leaves it to the planner.
PlanningInputs planning_inputs(const RunConfig& config, const Architecture& architecture,
                               const SessionOptions& session, double supervised_fraction);

// A thread pool for tokenising and other work before the first step.
int worker_threads(const RunConfig& config);

}  // namespace lazytrain
