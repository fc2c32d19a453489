#include "planning/solver.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"

namespace lazytrain {
namespace {

MilpColumn binary(double cost) {
  return {.name = "x", .upper = 1, .cost = cost, .integer = true};
}

TEST(Solver, SolvesALinearProgram) {
  // Most of 3x + 5y with x <= 4, 2y <= 12, 3x + 2y <= 18 is 36 at (2, 6) (Dantzig's example).
  MilpProblem problem;
  const auto x = problem.add(MilpColumn{.name = "x", .upper = 4, .cost = -3});
  const auto y = problem.add(MilpColumn{.name = "y", .cost = -5});
  problem.add(MilpRow{.name = "a", .upper = 12, .coefficients = {{y, 2}}});
  problem.add(MilpRow{.name = "b", .upper = 18, .coefficients = {{x, 3}, {y, 2}}});
  const MilpSolution solution = solve(problem);
  EXPECT_EQ(solution.status, MilpStatus::optimal);
  EXPECT_NEAR(solution.objective, -36, 1e-9);
  EXPECT_NEAR(solution.values[0], 2, 1e-9);
  EXPECT_NEAR(solution.values[1], 6, 1e-9);
}

TEST(Solver, SolvesKnapsacksLikeEnumeration) {
  for (std::uint64_t n = 0; n < 40; ++n) {
    Random random(n);
    constexpr int kItems = 10;
    MilpProblem problem;
    std::vector<double> weight, value;
    MilpRow row{.name = "weight", .coefficients = {}};
    double total = 0;
    for (int i = 0; i < kItems; ++i) {
      weight.push_back(1 + static_cast<double>(random.below(20)));
      value.push_back(1 + static_cast<double>(random.below(30)));
      total += weight.back();
      row.coefficients.emplace_back(problem.add(binary(-value.back())), weight.back());
    }
    row.upper = total / 2;
    problem.add(row);
    double best = 0;
    for (int chosen = 0; chosen < (1 << kItems); ++chosen) {
      double w = 0, v = 0;
      for (int i = 0; i < kItems; ++i)
        if ((chosen >> i & 1) != 0)
          w += weight[static_cast<std::size_t>(i)], v += value[static_cast<std::size_t>(i)];
      if (w <= row.upper) best = std::max(best, v);
    }
    const MilpSolution solution = solve(problem, {.gap = 0});
    ASSERT_EQ(solution.status, MilpStatus::optimal) << n << solution.complaint;
    EXPECT_NEAR(solution.objective, -best, 1e-9) << n;
    EXPECT_LE(solution.bound, solution.objective + 1e-6);
    EXPECT_EQ(broken_rule(problem, solution.values), "");
  }
}

TEST(Solver, SaysInfeasible) {
  MilpProblem problem;
  const auto x = problem.add(binary(1)), y = problem.add(binary(1));
  problem.add(MilpRow{.name = "sum", .lower = 3, .coefficients = {{x, 1}, {y, 1}}});
  const MilpSolution solution = solve(problem);
  EXPECT_EQ(solution.status, MilpStatus::infeasible);
  EXPECT_TRUE(solution.values.empty());
}

TEST(Solver, GivesTheSamePointTwice) {
  // Many equal items: only a fixed seed and one thread make the point unique.
  MilpProblem problem;
  MilpRow row{.name = "weight", .upper = 101, .coefficients = {}};
  for (int i = 0; i < 60; ++i) row.coefficients.emplace_back(problem.add(binary(-7 - i % 3)), 5 + i % 4);
  problem.add(row);
  const MilpSolution first = solve(problem), second = solve(problem);
  EXPECT_EQ(first.values, second.values);
}

TEST(Solver, RefusesMalformedProblems) {
  MilpProblem problem;
  problem.add(binary(1));
  problem.add(MilpRow{.name = "r", .coefficients = {{1, 1.0}}});
  EXPECT_THROW(solve(problem), std::logic_error);
  problem.rows[0].coefficients = {{0, 1.0}, {0, 2.0}};
  EXPECT_THROW(solve(problem), std::logic_error);
  problem.rows.clear();
  problem.columns[0].lower = 2;
  EXPECT_THROW(solve(problem), std::logic_error);
  problem.columns[0] = {.name = "x", .integer = true};  // not bounded
  EXPECT_THROW(solve(problem), std::logic_error);
}

TEST(BrokenRule, NamesWhatAPointBreaks) {
  MilpProblem problem;
  const auto x = problem.add(binary(1));
  const auto y = problem.add(MilpColumn{.name = "y", .lower = -1, .upper = 5});
  problem.add(MilpRow{.name = "cover", .lower = 2, .upper = 4, .coefficients = {{x, 1}, {y, 1}}});
  using Point = std::vector<double>;
  EXPECT_EQ(broken_rule(problem, Point{1, 2}), "");
  EXPECT_EQ(broken_rule(problem, Point{1, 1 - 1e-8}), "");  // within the tolerance
  EXPECT_EQ(broken_rule(problem, Point{1}), "1 values for 2 columns");
  EXPECT_EQ(broken_rule(problem, Point{0.5, 2}), "x = 0.5 is not whole");
  EXPECT_EQ(broken_rule(problem, Point{2, 2}), "x = 2 leaves [0, 1]");
  EXPECT_EQ(broken_rule(problem, Point{1, 0}), "row cover: 1 leaves [2, 4]");
  EXPECT_NE(broken_rule(problem, Point{1, std::numeric_limits<double>::quiet_NaN()}), "");
}

}  // namespace
}  // namespace lazytrain
