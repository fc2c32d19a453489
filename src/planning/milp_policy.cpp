#include "planning/milp_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "planning/solver.h"
#include "planning/step_program.h"
#include "planning/step_rounding.h"

namespace lazytrain {
namespace {

constexpr double kGap = 1e-3;
// Beyond this a small program is searched.
constexpr double kGoodGap = 3e-3;
// What a simulated step may be below its program's bound, where bytes are a fluid that is due at the start of
// slots; 0.6 % was seen (milp_policy_test.cpp).
constexpr double kModelError = 0.02;
// The solver searches small programs, and where rounding finds nothing; in large ones it would look for many
// seconds for what is less than the simulator's error.
constexpr std::int64_t kSmallProgram = 200;  // integer columns, but for those of what sweeps keep
constexpr std::int64_t kManyNodes = 50, kFewNodes = 5, kAroundNodes = 10;

}  // namespace

StepOptions program_options(const PlanningInputs& inputs) {
  const std::vector<GroupPlan>& homes = inputs.context.homes;
  const bool on_disk =
      std::any_of(homes.begin(), homes.end(), [](const GroupPlan& home) { return home.states_on_disk; });
  const bool tiered = inputs.context.tiers == TierModel::tiered;
  return {.resident = tiered && !inputs.homes_are_fixed && !on_disk && !inputs.context.state_bytes.empty(),
          .activations_on_disk = inputs.machine.disk_capacity.value > 0};
}

std::vector<StepKnobs> program_knobs(std::int64_t micro_batches) {
  const auto calls = static_cast<double>(micro_batches);
  // A plan's fetch_lead and offload_lag in ops, as the program counts them.
  const auto lead = [&](double ops) { return (ops - 2) / (2 * calls); };
  const auto lag = [&](double ops) { return ops / calls; };
  std::vector<StepKnobs> knobs{{.lead = 2, .lag = 4},
                               {.lead = 1, .lag = 2},
                               {.lead = lead(4), .lag = lag(2)},
                               {.lead = lead(2), .lag = lag(2)},
                               {.lead = lead(2), .lag = lag(1), .gradient_slots = 1},
                               {.lead = lead(1), .lag = 0, .gradient_slots = 1},
                               {.lead = lead(1), .lag = 0, .weight_slots = 1, .gradient_slots = 1},
                               {.lead = lead(0), .lag = 0, .weight_slots = 1, .gradient_slots = 1}};
  if (micro_batches > 1) {
    knobs.push_back(knobs.back());
    knobs.back().boundary_gradient_on_host = true;
  }
  return knobs;
}

namespace {

// Rounds the relaxation in `parts` rounds, from the last layers to the first; each round sees what those
// before it cost. Without a point where one of them leaves none.
MilpSolution rounded(const StepModel& model, const StepProgram& program, const MilpSolution& relaxation,
                     std::int64_t parts, LevelRounding rounding) {
  StepProgram rest = program;
  for (MilpColumn& column : rest.problem.columns) column.integer = false;
  MilpSolution solution = relaxation;
  for (std::int64_t part = parts - 1; part >= 0 && !solution.values.empty(); --part) {
    fix_rounded_path(model, rest, solution.values, model.layers * part / parts, rounding);
    solution = solve(rest.problem, {.gap = kGap});
  }
  return solution;
}

// Searches the layers whose stash level or residency the relaxation splits, and what the sweeps over split
// blocks keep; all others stay as in `values`.
MilpSolution search_around(const StepProgram& program, const std::vector<double>& relaxed,
                           const std::vector<double>& values) {
  const auto split = [&](std::int32_t column) {
    if (column < 0) return false;
    const double value = relaxed[static_cast<std::size_t>(column)];
    return std::abs(value - std::round(value)) > 1e-6;
  };
  std::vector<bool> free(values.size(), false);
  const auto release = [&](std::int32_t column) {
    if (column >= 0) free[static_cast<std::size_t>(column)] = true;
  };
  for (std::size_t l = 0; l < program.levels.size(); ++l) {
    const LevelColumns& levels = program.levels[l];
    if (!split(program.resident[l]) && std::none_of(levels.begin(), levels.end(), split)) continue;
    std::for_each(levels.begin(), levels.end(), release);
    release(program.resident[l]);
    release(program.retained[l]);
  }
  for (std::size_t i = 1; i < program.blocks.size(); ++i) {
    if (!program.blocks[i].keep) continue;
    const std::int32_t lean = program.blocks[i - 1].column, keep = program.blocks[i].column;
    const bool chosen = values[static_cast<std::size_t>(lean)] + values[static_cast<std::size_t>(keep)] > 0.5;
    if (!chosen || (!split(lean) && !split(keep))) continue;
    release(lean);
    release(keep);
  }
  MilpProblem rest = program.problem;
  for (std::size_t c = 0; c < values.size(); ++c)
    if (rest.columns[c].integer && !free[c])
      rest.columns[c].lower = rest.columns[c].upper = std::round(values[c]);
  // Sub-problems found steps up to 0.14 % faster (27B with a disk) and took two thirds of all time to plan.
  return solve(rest, {.gap = kGap / 2, .node_limit = kAroundNodes, .heuristics = false}, values);
}

}  // namespace

std::optional<ProgramPlan> solve_step(const PlanningInputs& inputs, const BatchGeometry& batch,
                                      const StepModel& model, Seconds known_step) {
  const StepProgram program = make_step_program(model);
  StepProgram relaxed = program;
  for (MilpColumn& column : relaxed.problem.columns) column.integer = false;
  const MilpSolution relaxation = solve(relaxed.problem, {.gap = kGap});
  if (relaxation.status == MilpStatus::infeasible) return std::nullopt;
  double bound = relaxation.status == MilpStatus::optimal ? relaxation.objective : 0;
  if (bound * program.seconds_unit > known_step * (1 + kModelError))
    return ProgramPlan{.plan = {}, .how = {}, .too_slow = true};
  const auto gap = [&](const MilpSolution& solution) {
    if (solution.values.empty()) return kInfinity;
    return (solution.objective - bound) / std::max(std::abs(solution.objective), 1e-12);
  };
  const std::int64_t whole = std::count_if(program.problem.columns.begin(), program.problem.columns.end(),
                                           [](const MilpColumn& column) { return column.integer; });
  const std::int64_t keeping = std::count_if(program.blocks.begin(), program.blocks.end(),
                                             [](const auto& block) { return block.keep; });
  const bool small = whole - keeping <= kSmallProgram;
  MilpSolution solution;
  std::string how;
  const auto take = [&](MilpSolution tried, const char* from) {
    if (tried.values.empty() || (!solution.values.empty() && tried.objective >= solution.objective)) return;
    solution = std::move(tried);
    how = from;
  };
  if (!program.whole_shares && !relaxation.values.empty()) {
    const auto round = [&](std::int64_t parts, LevelRounding rounding) {
      take(rounded(model, program, relaxation, parts, rounding), "relaxation rounded");
    };
    round(1, LevelRounding::nearest);
    if (gap(solution) > kGoodGap) round(4, LevelRounding::nearest);
    if (gap(solution) > kGap) round(1, LevelRounding::down);
    if (!small && gap(solution) > kGap && !solution.values.empty())
      take(search_around(program, relaxation.values, solution.values),
           "searched around the rounded relaxation");
  }
  if (solution.values.empty() || (small && gap(solution) > kGoodGap)) {
    // A tree of 50 nodes without heuristics takes a third of the time of one of 20 with them, and ends 0.001
    // % above it, 0.07 % at worst (122 programs of the planner's quality tests).
    const auto search = [&](bool heuristics) {
      return solve(program.problem,
                   {.gap = kGap, .node_limit = small ? kManyNodes : kFewNodes, .heuristics = heuristics},
                   solution.values);
    };
    MilpSolution searched = search(!small);
    if (small && searched.values.empty() && searched.status != MilpStatus::infeasible)
      searched = search(true);
    if (!searched.values.empty()) bound = std::max(bound, searched.bound);
    take(std::move(searched), "searched");
  }
  if (solution.values.empty()) return std::nullopt;
  how += fmt::format(", gap {:.2f} %", 100 * std::max(0.0, gap(solution)));
  ProgramPlan result{
      .plan = round_to_plan(model, program, solution.values, bare_plan(inputs, batch, model.knobs)),
      .how = std::move(how)};
  result.plan.objective = step_seconds(program, solution.values);
  result.plan.bound = std::min(result.plan.objective, bound * program.seconds_unit);
  return result;
}

}  // namespace lazytrain
