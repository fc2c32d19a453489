// Candidates: what the portfolio tries for one policy and one micro-batch size, and the search among the
// knobs and shares of each for the roomiest that fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planning/inputs.h"
#include "planning/portfolio.h"
#include "planning/step_model.h"

namespace lazytrain {

// A plan that was lowered, verified and simulated (where it fits), with its line in the table.
struct Candidate {
  Evaluation row;
  Plan plan;
  Program program;
  Simulation simulation;
};

class Candidates {
 public:
  // `batch.micro_batch` is set.
  Candidates(const PlanningInputs& inputs, const BatchGeometry& batch);

  // All candidates of a policy, in a fixed order. Those of `auto` are the heuristics; programs() comes on
  // top.
  std::vector<Candidate> of(const std::string& policy);
  // Plans of the step's mixed-integer program (planning/milp_policy.h), with different knobs; only such that
  // fit. Large programs whose bound says that they are slower than `known_step` are left out.
  std::vector<Candidate> programs(Seconds known_step = kInfinity);
  // Whether a program was left out as too slow.
  [[nodiscard]] bool too_slow() const { return too_slow_; }
  // One plan as it is.
  Candidate exactly(const Plan& plan, const std::string& variant);

 private:
  std::vector<Candidate> fall_backs();
  // None where there is no plan, or it is too slow.
  std::optional<Candidate> program(const StepKnobs& knobs, Seconds known_step);
  void try_knobs(Candidate& best);
  Candidate roomiest(const Plan& shape, const std::string& variant);
  void splits(std::vector<Candidate>& found);
  template <typename PlanOf>
  std::int64_t least_disk_share(std::int64_t most, const PlanOf& plan_of) const;
  void partial_stashes(std::vector<Candidate>& found);
  void finish(Candidate& candidate);
  [[nodiscard]] Program lower(const Plan& plan) const;
  // Lowers as far as memory; false where the plan does not fit (the Program is then an estimate).
  bool place(const Plan& plan, Program& program) const;
  [[nodiscard]] bool may_fit(const Plan& plan) const;
  [[nodiscard]] bool fits(const Program& program) const;

  const PlanningInputs& inputs_;
  BatchGeometry batch_;
  WorkspaceBytes workspace_;
  bool too_slow_ = false;
};

// What a candidate's line says of its head; empty where it is whole.
std::string head_words(const Program& program);

}  // namespace lazytrain
