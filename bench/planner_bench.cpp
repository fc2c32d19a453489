// How long the planner's mixed-integer program takes: 27B with several pools, a model of 128 layers, and the
// regime in which capacity forces layers to be recomputed and nothing but boundaries can be kept. Every
// instance is solved twice on the thread that calls, to the gap that the planner asks for; both times must
// give the same plan. Costs are modelled (examples/machines, examples/models); solve times are measured.
//
//   planner_bench [FOLDER]      FOLDER: the project's examples (default: examples)
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan_from_files.h"
#include "planning/milp_policy.h"
#include "planning/step_program.h"
#include "runtime/session.h"
#include "runtime/workspace.h"

namespace lazytrain::bench {
namespace {

constexpr double kGap = 1e-3;

struct Instance {
  std::string name;
  StepModel model;
  PlanningInputs inputs;
  Seconds bar = 0;
};

PlanningInputs inputs_of(const std::string& examples, const std::string& model, std::int64_t slots,
                         std::int64_t micro_batch, const std::string& pool) {
  return planning_inputs({.model = examples + "/models/" + model,
                          .machine = examples + "/machines/h800-80g.json",
                          .slots = slots,
                          .slot_tokens = 1024,
                          .micro_batch = micro_batch,
                          .optimizer = "adamw_8bit",
                          .host_pool = pool,
                          .disk = {},
                          .optimizer_overlap = "on"});
}

StepModel model_of(const PlanningInputs& inputs, StepOptions options) {
  return make_step_model(inputs, inputs.batch, program_knobs(inputs.batch.micro_batches())[1], options);
}

// The same model with another number of layers.
PlanningInputs with_layers(PlanningInputs inputs, std::int64_t layers) {
  Architecture architecture = inputs.context.architecture;
  architecture.layers = layers;
  SessionOptions session;
  session.device.memory_model = MemoryModel::emulated;
  session.position_rows = inputs.batch.slot_tokens;
  const Bytes before = inputs.machine.host_capacity;
  const Bytes states = lower_update_only(inputs.context).host_bytes;
  inputs.context = lowering_context(architecture, session);
  inputs.machine.host_capacity = before - states + lower_update_only(inputs.context).host_bytes;
  inputs.workspace = [architecture](std::int64_t slots, std::int64_t slot_tokens) {
    return workspace_bytes(architecture, DataType::bf16, slots, slot_tokens);
  };
  return inputs;
}

std::vector<Instance> instances(const std::string& examples) {
  std::vector<Instance> all;
  for (const char* pool : {"16GB", "64GB", "256GB", "640GB"}) {
    PlanningInputs inputs = inputs_of(examples, "qwen3.6-27b", 72, 18, pool);
    StepModel model = model_of(inputs, {.resident = true});
    all.push_back(
        {fmt::format("27B, 64 layers, pool of {}", pool), std::move(model), std::move(inputs), 1.5});
  }
  PlanningInputs deep = with_layers(inputs_of(examples, "qwen2.5-72b", 32, 8, "512GB"), 128);
  StepModel deep_model = model_of(deep, {.resident = true});
  all.push_back({"128 layers of 72B's size, pool of 512GB", std::move(deep_model), std::move(deep), 5});
  // 30 boundaries on the device and 21 on the host: 13 of 64 layers are recomputed.
  PlanningInputs forced = inputs_of(examples, "qwen3.6-27b", 72, 18, "0GB");
  StepModel boundaries = model_of(forced, {.stashes = false});
  boundaries.device_capacity =
      *std::max_element(boundaries.bare_device.begin(), boundaries.bare_device.end()) +
      30 * boundaries.boundary;
  boundaries.host_capacity = boundaries.bare_host - (64 - 22) * boundaries.boundary;
  all.push_back({"27B, boundaries alone, capacity forced", std::move(boundaries), std::move(forced), 6});
  return all;
}

int run(const std::string& examples) {
  fmt::print("{:<42} {:>7} {:>8} {:>6} | {:>8} {:>8} {:>9} {:>9} {:>7}  {}\n", "", "columns", "integers",
             "rows", "solve, s", "bar", "objective", "bound", "gap", "");
  bool holds = true;
  for (const Instance& instance : instances(examples)) {
    const StepProgram program = make_step_program(instance.model);
    const auto integers = std::count_if(program.problem.columns.begin(), program.problem.columns.end(),
                                        [](const MilpColumn& column) { return column.integer; });
    std::vector<Seconds> seconds;
    std::vector<nlohmann::json> plans;
    std::string how;
    double objective = 0, bound = 0;
    for (int time = 0; time < 2; ++time) {
      const auto begin = std::chrono::steady_clock::now();
      const std::optional<ProgramPlan> solved =
          solve_step(instance.inputs, instance.inputs.batch, instance.model);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      if (!solved) break;
      plans.push_back(to_json(solved->plan));
      how = solved->how;
      objective = solved->plan.objective;
      bound = solved->plan.bound;
    }
    const bool found = plans.size() == 2, same = found && plans[0] == plans[1];
    const double gap = found ? (objective - bound) / objective : 1;
    const Seconds slower = *std::max_element(seconds.begin(), seconds.end());
    const bool good = same && slower <= instance.bar && gap <= kGap;
    holds = holds && good;
    fmt::print("{:<42} {:>7} {:>8} {:>6} | {:>8.2f} {:>8.1f} {:>9.3f} {:>9.3f} {:>6.2f}%  {}{}{}\n",
               instance.name, program.problem.columns.size(), integers, program.problem.rows.size(), slower,
               instance.bar, objective, bound, 100 * gap, found ? how : "no plan",
               same ? "" : ", ANOTHER PLAN THE SECOND TIME", good ? "" : "  <-");
  }
  fmt::print("solve-time: {} (one thread, gap at most 0.1 %)\n", holds ? "PASS" : "FAIL");
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  try {
    return lazytrain::bench::run(argc > 1 ? argv[1] : "examples");
  } catch (const std::exception& error) {
    fmt::print(stderr, "planner_bench: {}\n", error.what());
    return 1;
  }
}
