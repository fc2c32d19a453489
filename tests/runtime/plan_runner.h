// Trains the same model on the same tokens under many plans, in one Session, and says what came out as exact
// values, for tests that compare plans.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/harness.h"

namespace lazytrain::test {

// What a plan must not change: compared with ==, to the bit.
struct RunResult {
  std::vector<double> losses, norms;  // by step
  std::uint64_t parameters = 0;       // of weights, fp32 masters and moments of every group
  bool operator==(const RunResult&) const = default;
};
std::string to_string(const RunResult& result);

// Sets the parameters that every run starts from.
using Initialise = std::function<void(Session&)>;
Initialise random_parameters(std::uint64_t seed);

class PlanRunner {
 public:
  // Lowers and verifies every plan. The device's capacity is the largest of them, to the byte.
  PlanRunner(const Architecture& architecture, SessionOptions options, std::vector<Plan> plans);

  // AdamW steps on batches[0], batches[1], ... from the initial parameters, then what overlap has left over.
  RunResult run(std::size_t plan, const std::vector<Tokens>& batches, const Initialise& initialise);
  // The same with a plan for each step, as after planning again. All of them overlap updates, or none.
  RunResult run(const std::vector<std::size_t>& plan_of_step, const std::vector<Tokens>& batches,
                const Initialise& initialise);

  [[nodiscard]] std::size_t plans() const { return programs_.size(); }
  [[nodiscard]] const Program& program(std::size_t plan) const { return programs_[plan]; }
  [[nodiscard]] const Plan& plan(std::size_t index) const { return plans_[index]; }
  [[nodiscard]] Session& session() { return *session_; }

 private:
  std::vector<Plan> plans_;
  std::vector<Program> programs_;
  Program update_;
  std::unique_ptr<Session> session_;
};

}  // namespace lazytrain::test
