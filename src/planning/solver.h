// A seam for mixed-integer linear programs: minimise cost . x subject to rows and bounds. The solver behind
// it (HiGHS) runs on one thread with a fixed seed and a node limit, never a time limit, so that the same
// problem gives the same point everywhere. Its word is not taken: every point is checked against the problem
// by code of our own before it is returned. It runs in a child process; where that crashes or hangs, the
// solver is asked once more without its presolve.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/units.h"

namespace lazytrain {

struct MilpColumn {
  std::string name;
  double lower = 0, upper = kInfinity;
  double cost = 0;
  bool integer = false;
};

struct MilpRow {
  std::string name;
  double lower = -kInfinity, upper = kInfinity;
  std::vector<std::pair<std::int32_t, double>> coefficients;  // (column, value), each column at most once
};

struct MilpProblem {
  std::vector<MilpColumn> columns;
  std::vector<MilpRow> rows;

  // Return the index of what was added.
  std::int32_t add(MilpColumn column);
  std::int32_t add(MilpRow row);
};

struct SolverOptions {
  double gap = 1e-3;               // relative: stop when the point is proven this close to the best
  std::int64_t node_limit = 1000;  // branch-and-bound nodes
  std::int32_t seed = 0;
  // Heuristics of the solver that look for points beside the tree: jumps, and parts of the problem as
  // problems of their own. They take most of the time, and pay where no point is known.
  bool heuristics = true;
};

enum class MilpStatus : std::uint8_t {
  optimal,     // within the gap, by the solver's bound and our own check of the point
  feasible,    // a valid point; the gap is not closed
  infeasible,  // the solver claims that there is none
  failed       // no usable point
};
[[nodiscard]] const char* to_string(MilpStatus status);

struct MilpSolution {
  MilpStatus status = MilpStatus::failed;
  double objective = 0;        // of `values`, computed by us
  double bound = 0;            // the solver's lower bound
  std::vector<double> values;  // integer columns hold whole numbers; empty unless optimal or feasible
  std::string complaint;       // why a point was not taken
};

// `start`: a point to begin with, where one is known; what it breaks is not looked at. Throws
// std::logic_error for a malformed problem (indices, NaN, crossed bounds).
MilpSolution solve(const MilpProblem& problem, const SolverOptions& options = {},
                   std::span<const double> start = {});

// The first row, bound or integrality that `values` breaks by more than `tolerance` (relative to the larger
// of 1 and the row's largest term); empty when there is none.
std::string broken_rule(const MilpProblem& problem, std::span<const double> values, double tolerance = 1e-6);

}  // namespace lazytrain
