// A second opinion: programs of random steps are written as free MPS, solved by CBC as well, and the optima
// compared. Skipped where CBC is not installed (Debian: coinor-cbc).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "planning/milp_policy.h"
#include "planning/planning_support.h"
#include "planning/portfolio.h"
#include "planning/solver.h"
#include "planning/step_program.h"

namespace lazytrain {
namespace {

constexpr double kGap = 1e-3;

// Free MPS as CBC reads it: names without spaces, integers between markers, every column named once.
void write_mps(const MilpProblem& problem, const std::filesystem::path& path) {
  std::ofstream out(path);
  out.precision(17);
  out << "NAME P FREE\nROWS\n N OBJ\n";
  const auto kind = [](const MilpRow& row) {
    return row.lower == row.upper ? 'E' : std::isfinite(row.upper) ? 'L' : 'G';
  };
  for (std::size_t r = 0; r < problem.rows.size(); ++r)
    out << ' ' << kind(problem.rows[r]) << " R" << r << '\n';
  std::vector<std::vector<std::pair<std::size_t, double>>> entries(problem.columns.size());
  for (std::size_t r = 0; r < problem.rows.size(); ++r)
    for (const auto& [column, value] : problem.rows[r].coefficients)
      entries[static_cast<std::size_t>(column)].emplace_back(r, value);
  out << "COLUMNS\n";
  for (const bool integer : {false, true}) {
    if (integer) out << " M1 'MARKER' 'INTORG'\n";
    for (std::size_t c = 0; c < problem.columns.size(); ++c) {
      if (problem.columns[c].integer != integer) continue;
      out << " X" << c << " OBJ " << problem.columns[c].cost << '\n';
      for (const auto& [row, value] : entries[c]) out << " X" << c << " R" << row << ' ' << value << '\n';
    }
    if (integer) out << " M2 'MARKER' 'INTEND'\n";
  }
  out << "RHS\n";
  for (std::size_t r = 0; r < problem.rows.size(); ++r) {
    const MilpRow& row = problem.rows[r];
    const double side = kind(row) == 'G' ? row.lower : row.upper;
    if (side != 0) out << " RHS R" << r << ' ' << side << '\n';
  }
  out << "RANGES\n";
  for (std::size_t r = 0; r < problem.rows.size(); ++r) {
    const MilpRow& row = problem.rows[r];
    if (kind(row) == 'L' && std::isfinite(row.lower))
      out << " RNG R" << r << ' ' << row.upper - row.lower << '\n';
  }
  out << "BOUNDS\n";
  for (std::size_t c = 0; c < problem.columns.size(); ++c) {
    const MilpColumn& column = problem.columns[c];
    if (std::isfinite(column.lower))
      out << " LO B X" << c << ' ' << column.lower << '\n';
    else
      out << " MI B X" << c << '\n';
    if (std::isfinite(column.upper))
      out << " UP B X" << c << ' ' << column.upper << '\n';
    else
      out << " PL B X" << c << '\n';
  }
  out << "ENDATA\n";
}

struct Opinion {
  bool infeasible = false;
  std::optional<double> objective = {};
};

Opinion ask_cbc(const MilpProblem& problem, const std::filesystem::path& folder) {
  const std::filesystem::path mps = folder / "problem.mps", log = folder / "cbc.log";
  write_mps(problem, mps);
  const std::string command =
      "cbc " + mps.string() + " ratio " + std::to_string(kGap) + " sec 60 solve > " + log.string() + " 2>&1";
  Opinion opinion;
  if (std::system(command.c_str()) != 0) return opinion;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    if (line.find("infeasible") != std::string::npos) opinion.infeasible = true;
    const std::size_t at = line.find("Objective value:");
    if (at != std::string::npos) opinion.objective = std::strtod(line.c_str() + at + 16, nullptr);
  }
  if (opinion.objective) opinion.infeasible = false;
  return opinion;
}

TEST(TwoSolvers, AgreeWithinTheGap) {
  if (std::system("command -v cbc > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "the solver CBC is not installed (Debian: coinor-cbc)";
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "lazytrain-two-solvers";
  std::filesystem::create_directories(folder);
  int compared = 0, impossible = 0;
  for (std::uint64_t n = 0; n < 30; ++n) {
    Random random(17, n);
    const BatchGeometry batch{.slots = 4, .slot_tokens = 8, .micro_batch = n % 2 == 0 ? 1 : 2};
    const auto layers = 2 + static_cast<std::int64_t>(random.below(4));
    PlanningInputs inputs = small_inputs(layers, batch);
    inputs.machine.h2d = inputs.machine.d2h = 0.01 * std::pow(100, random.uniform());
    const Bytes roomy = plan_step(inputs, "keep-all").program.device_bytes;
    inputs.machine.device_capacity = {
        static_cast<std::int64_t>(static_cast<double>(roomy.value) * (0.7 + 0.5 * random.uniform()))};
    const StepModel model = make_step_model(inputs, batch, program_knobs(batch.micro_batches())[1],
                                            {.resident = random.below(2) == 0});
    const StepProgram program = make_step_program(model);
    const MilpSolution ours = solve(program.problem, {.gap = kGap, .node_limit = 20000});
    const Opinion theirs = ask_cbc(program.problem, folder);
    if (ours.status == MilpStatus::infeasible) {
      EXPECT_TRUE(theirs.infeasible) << n;
      ++impossible;
      continue;
    }
    ASSERT_EQ(ours.status, MilpStatus::optimal) << n << " " << ours.complaint;
    ASSERT_TRUE(theirs.objective.has_value()) << n;
    // Each is within the gap of the best.
    EXPECT_LE(std::abs(ours.objective - *theirs.objective), 2 * kGap * std::abs(ours.objective)) << n;
    EXPECT_LE(ours.bound, *theirs.objective * (1 + 1e-6) + 1e-9) << n;
    ++compared;
  }
  std::filesystem::remove_all(folder);
  std::printf(
      "  %d programs have the same optimum within the gap by HiGHS and CBC, %d have no point by both\n",
      compared, impossible);
  EXPECT_GE(compared, 20);
}

}  // namespace
}  // namespace lazytrain
