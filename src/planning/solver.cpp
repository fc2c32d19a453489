#include "planning/solver.h"

#include <fmt/core.h>
#include <interfaces/highs_c_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

#include "core/error.h"
#include "core/isolated.h"
#include "core/log.h"

namespace lazytrain {
namespace {

struct HighsDeleter {
  void operator()(void* highs) const { Highs_destroy(highs); }
};
using HighsHandle = std::unique_ptr<void, HighsDeleter>;

void check_problem(const MilpProblem& problem) {
  for (const MilpColumn& column : problem.columns) {
    check(column.lower <= column.upper && std::isfinite(column.cost),
          "columns of a program have sane bounds");
    check(!column.integer || (std::isfinite(column.lower) && std::isfinite(column.upper)),
          "integer columns are bounded");
  }
  std::vector<std::int32_t> seen(problem.columns.size(), -1);
  for (std::size_t r = 0; r < problem.rows.size(); ++r) {
    check(problem.rows[r].lower <= problem.rows[r].upper, "rows of a program have sane bounds");
    for (const auto& [column, value] : problem.rows[r].coefficients) {
      check(column >= 0 && static_cast<std::size_t>(column) < problem.columns.size() && std::isfinite(value),
            "rows of a program name columns that exist");
      auto& last = seen[static_cast<std::size_t>(column)];
      check(last != static_cast<std::int32_t>(r), "a row names a column once");
      last = static_cast<std::int32_t>(r);
    }
  }
}

// Row-wise arrays as the C interface takes them.
struct Arrays {
  std::vector<double> cost, column_lower, column_upper, row_lower, row_upper, value;
  std::vector<HighsInt> start, index, integrality;
};

Arrays to_arrays(const MilpProblem& problem, double infinity) {
  const auto finite = [&](double bound) { return std::clamp(bound, -infinity, infinity); };
  Arrays arrays;
  for (const MilpColumn& column : problem.columns) {
    arrays.cost.push_back(column.cost);
    arrays.column_lower.push_back(finite(column.lower));
    arrays.column_upper.push_back(finite(column.upper));
    arrays.integrality.push_back(column.integer ? kHighsVarTypeInteger : kHighsVarTypeContinuous);
  }
  for (const MilpRow& row : problem.rows) {
    arrays.row_lower.push_back(finite(row.lower));
    arrays.row_upper.push_back(finite(row.upper));
    arrays.start.push_back(static_cast<HighsInt>(arrays.index.size()));
    for (const auto& [column, value] : row.coefficients) {
      arrays.index.push_back(column);
      arrays.value.push_back(value);
    }
  }
  return arrays;
}

double objective_of(const MilpProblem& problem, std::span<const double> values) {
  double sum = 0;
  for (std::size_t c = 0; c < problem.columns.size(); ++c) sum += problem.columns[c].cost * values[c];
  return sum;
}

}  // namespace

const char* to_string(MilpStatus status) {
  switch (status) {
    case MilpStatus::optimal:
      return "optimal";
    case MilpStatus::feasible:
      return "feasible";
    case MilpStatus::infeasible:
      return "infeasible";
    case MilpStatus::failed:
      return "failed";
  }
  return "?";
}

std::int32_t MilpProblem::add(MilpColumn column) {
  columns.push_back(std::move(column));
  return static_cast<std::int32_t>(columns.size()) - 1;
}

std::int32_t MilpProblem::add(MilpRow row) {
  rows.push_back(std::move(row));
  return static_cast<std::int32_t>(rows.size()) - 1;
}

std::string broken_rule(const MilpProblem& problem, std::span<const double> values, double tolerance) {
  if (values.size() != problem.columns.size())
    return fmt::format("{} values for {} columns", values.size(), problem.columns.size());
  for (std::size_t c = 0; c < values.size(); ++c) {
    const MilpColumn& column = problem.columns[c];
    const double slack = tolerance * std::max(1.0, std::abs(values[c]));
    // Written so that NaN fails.
    if (!(values[c] >= column.lower - slack && values[c] <= column.upper + slack))
      return fmt::format("{} = {} leaves [{}, {}]", column.name, values[c], column.lower, column.upper);
    if (column.integer && !(std::abs(values[c] - std::round(values[c])) <= tolerance))
      return fmt::format("{} = {} is not whole", column.name, values[c]);
  }
  for (const MilpRow& row : problem.rows) {
    double sum = 0, largest = 1;
    for (const auto& [column, value] : row.coefficients) {
      const double term = value * values[static_cast<std::size_t>(column)];
      sum += term;
      largest = std::max(largest, std::abs(term));
    }
    const double slack = tolerance * largest;
    if (!(sum >= row.lower - slack && sum <= row.upper + slack))
      return fmt::format("row {}: {} leaves [{}, {}]", row.name, sum, row.lower, row.upper);
  }
  return {};
}

namespace {

enum class Presolve { on, off };

// What the solver says, unchecked. Doubles alone, so that it passes through a pipe.
struct Claim {
  double refused = 1, model_status = 0, bound = 0;
  std::vector<double> values;
};

Claim ask_solver(const MilpProblem& problem, const SolverOptions& options, std::span<const double> start,
                 Presolve presolve) {
  const HighsHandle highs(Highs_create());
  const auto set = [&](HighsInt status) { check(status == kHighsStatusOk, "the solver takes its options"); };
  set(Highs_setBoolOptionValue(highs.get(), "output_flag", 0));
  set(Highs_setIntOptionValue(highs.get(), "threads", 1));
  set(Highs_setStringOptionValue(highs.get(), "parallel", "off"));
  set(Highs_setIntOptionValue(highs.get(), "random_seed", options.seed));
  set(Highs_setDoubleOptionValue(highs.get(), "mip_rel_gap", options.gap));
  set(Highs_setDoubleOptionValue(highs.get(), "mip_abs_gap", 0));  // its default, 1e-6, may be a whole step
  set(Highs_setIntOptionValue(highs.get(), "mip_max_nodes", static_cast<HighsInt>(options.node_limit)));
  // Restarts throw a small tree away: without them steps of small models were solved in two thirds of the
  // time.
  set(Highs_setBoolOptionValue(highs.get(), "mip_allow_restart", 0));
  for (const char* heuristic : {"mip_heuristic_run_feasibility_jump", "mip_heuristic_run_rins",
                                "mip_heuristic_run_rens", "mip_heuristic_run_root_reduced_cost"})
    set(Highs_setBoolOptionValue(highs.get(), heuristic, options.heuristics ? 1 : 0));
  if (presolve == Presolve::off) {
    set(Highs_setStringOptionValue(highs.get(), "presolve", "off"));
    set(Highs_setDoubleOptionValue(highs.get(), "mip_heuristic_effort", 0));  // its searches would presolve
  }
  const Arrays arrays = to_arrays(problem, Highs_getInfinity(highs.get()));
  const HighsInt passed = Highs_passMip(
      highs.get(), static_cast<HighsInt>(problem.columns.size()), static_cast<HighsInt>(problem.rows.size()),
      static_cast<HighsInt>(arrays.index.size()), kHighsMatrixFormatRowwise, kHighsObjSenseMinimize, 0.0,
      arrays.cost.data(), arrays.column_lower.data(), arrays.column_upper.data(), arrays.row_lower.data(),
      arrays.row_upper.data(), arrays.start.data(), arrays.index.data(), arrays.value.data(),
      arrays.integrality.data());
  if (passed != kHighsStatusError && !start.empty())
    Highs_setSolution(highs.get(), start.data(), nullptr, nullptr, nullptr);
  Claim claim;
  if (passed == kHighsStatusError || Highs_run(highs.get()) == kHighsStatusError) return claim;
  claim.refused = 0;
  claim.model_status = static_cast<double>(Highs_getModelStatus(highs.get()));
  claim.values.resize(problem.columns.size());
  std::vector<double> rows(problem.rows.size());
  Highs_getSolution(highs.get(), claim.values.data(), nullptr, rows.data(), nullptr);
  Highs_getDoubleInfoValue(highs.get(), "mip_dual_bound", &claim.bound);
  return claim;
}

// The solver in a process of its own: its presolve is known to write where it should not (releases 1.11 to
// 1.15, on programs of tiny models), which ends in a crash or in a search without end. Nothing where it did.
std::optional<Claim> ask_apart(const MilpProblem& problem, const SolverOptions& options,
                               std::span<const double> start, Presolve presolve) {
  // Small programs take milliseconds, the largest some seconds. Only what hangs comes near these.
  constexpr std::size_t kSmall = 1000;  // columns
  const std::chrono::seconds most{problem.columns.size() < kSmall ? 10 : 120};
  const IsolatedResult result = run_isolated(
      [&] {
        Claim claim = ask_solver(problem, options, start, presolve);
        claim.values.insert(claim.values.end(), {claim.refused, claim.model_status, claim.bound});
        const auto raw = std::as_bytes(std::span(claim.values));
        return std::vector<std::byte>(raw.begin(), raw.end());
      },
      {.processor_time = most, .wall_time = 20 * most});
  if (result.end == IsolatedResult::End::not_started) return ask_solver(problem, options, start, presolve);
  if (result.end == IsolatedResult::End::died || result.bytes.size() < 3 * sizeof(double))
    return std::nullopt;
  Claim claim;
  claim.values.resize(result.bytes.size() / sizeof(double));
  std::memcpy(claim.values.data(), result.bytes.data(), claim.values.size() * sizeof(double));
  for (double* const last : {&claim.bound, &claim.model_status, &claim.refused}) {
    *last = claim.values.back();
    claim.values.pop_back();
  }
  return claim;
}

// What is left of a claim after our own checks.
MilpSolution checked(const MilpProblem& problem, const SolverOptions& options, std::optional<Claim> claim) {
  MilpSolution solution;
  if (!claim || claim->refused != 0) {
    solution.complaint = claim ? "the solver refused the problem" : "the solver crashed or hung";
    return solution;
  }
  const auto model_status = static_cast<HighsInt>(claim->model_status);
  std::vector<double>& values = claim->values;
  for (std::size_t c = 0; c < values.size(); ++c)
    if (problem.columns[c].integer && std::abs(values[c] - std::round(values[c])) <= 1e-5)
      values[c] = std::round(values[c]);
  solution.complaint = broken_rule(problem, values);
  if (!solution.complaint.empty()) {
    const bool none =
        model_status == kHighsModelStatusInfeasible || model_status == kHighsModelStatusUnboundedOrInfeasible;
    solution.status = none ? MilpStatus::infeasible : MilpStatus::failed;
    return solution;
  }
  solution.values = std::move(values);
  solution.objective = objective_of(problem, solution.values);
  const bool mixed = std::any_of(problem.columns.begin(), problem.columns.end(),
                                 [](const MilpColumn& column) { return column.integer; });
  solution.bound = solution.objective;
  if (mixed) solution.bound = claim->bound;
  const double distance = solution.objective - solution.bound;
  const bool closed = distance <= (options.gap + 1e-9) * std::abs(solution.objective) + 1e-12;
  solution.status =
      model_status == kHighsModelStatusOptimal && closed ? MilpStatus::optimal : MilpStatus::feasible;
  return solution;
}

}  // namespace

MilpSolution solve(const MilpProblem& problem, const SolverOptions& options, std::span<const double> start) {
  check_problem(problem);
  check(start.empty() || start.size() == problem.columns.size(), "a start has a value for every column");
  // A search that ends at its node limit without a point has not failed; a crash has, and an "optimal" point
  // that breaks a rule.
  bool failed = false;
  const auto ask = [&](Presolve presolve) {
    const std::optional<Claim> claim = ask_apart(problem, options, start, presolve);
    MilpSolution solution = checked(problem, options, claim);
    failed = solution.status == MilpStatus::failed &&
             (!claim || claim->refused != 0 ||
              static_cast<HighsInt>(claim->model_status) == kHighsModelStatusOptimal);
    return solution;
  };
  MilpSolution solution = ask(Presolve::on);
  if (failed) solution = ask(Presolve::off);
  if (failed) {
    static std::once_flag said;  // of many programs of one plan, or of a sweep
    std::call_once(said, [&] {
      log::warning("a mixed-integer program was left unsolved ({}); the plan may be slower than it could be",
                   solution.complaint);
    });
  }
  return solution;
}

}  // namespace lazytrain
