#include "planning/replan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kStepOff = 0.10;   // of a step's time
constexpr double kLinkLost = 0.30;  // of a link's rate
// A stream that should be and is busy for less of a step says little about its rate.
constexpr double kTelling = 0.02;
// The first steps of a plan touch memory and compile kernels; then the median of a few is looked at.
constexpr std::int64_t kIgnored = 2;
constexpr std::size_t kObserved = 3;
// Another plan has to be this much faster, under the measured rates.
constexpr double kWorthIt = 0.02;
// Plannings in vain in a row after which the run keeps its plan: the machine is what it is.
constexpr int kMostInVain = 3;

bool off(double factor, double by) {
  return factor > 1 + by || factor < 1 / (1 + by);
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::array<Seconds, kStreamCount> busy(const Program& program, std::span<const SimulatedOp> ops) {
  std::array<Seconds, kStreamCount> sums{};
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    sums[static_cast<std::size_t>(program.ops[i].stream)] += ops[i].end - ops[i].start;
  return sums;
}

}  // namespace

Replanner::Replanner(PlanningInputs inputs, std::string policy, PlannedStep planned)
    : inputs_(std::move(inputs)),
      policy_(std::move(policy)),
      planned_(std::move(planned)),
      expected_(planned_.simulation.step),
      ignored_(kIgnored) {
  inputs_.machine = planned_.machine;
  inputs_.context.homes = planned_.plan.groups;
  inputs_.batch = planned_.plan.batch;
  inputs_.homes_are_fixed = true;
}

bool Replanner::after_step(Seconds seconds, std::span<const SimulatedOp> measured) {
  const Program& program = planned_.program;
  check(measured.size() == program.ops.size(), "every operation of a step was timed");
  if (in_vain_ >= kMostInVain) return false;
  if (ignored_ > 0) {
    --ignored_;
    return false;
  }
  Observation seen{.seconds = seconds};
  const auto took = busy(program, measured), planned = busy(program, planned_.simulation.ops);
  for (std::size_t s = 0; s < kStreamCount; ++s)
    if (planned[s] > 0 && (planned[s] > kTelling * planned_.simulation.step || took[s] > kTelling * seconds))
      seen.slower[s] = took[s] / planned[s];
  recent_.push_back(seen);
  if (recent_.size() < kObserved) return false;
  const Observation usual = median();
  recent_.erase(recent_.begin());
  bool link_lost = false;
  for (std::size_t s = 0; s < kStreamCount; ++s)
    link_lost = link_lost || (is_link(static_cast<StreamId>(s)) && usual.slower[s] > 1 / (1 - kLinkLost));
  if (!link_lost && !off(usual.seconds / expected_, kStepOff)) return false;
  return plan_again(usual);
}

Replanner::Observation Replanner::median() const {
  const auto of = [&](auto value) {
    std::vector<double> values;
    for (const Observation& seen : recent_) values.push_back(value(seen));
    return middle(std::move(values));
  };
  Observation result{.seconds = of([](const Observation& seen) { return seen.seconds; })};
  for (std::size_t s = 0; s < kStreamCount; ++s)
    result.slower[s] = of([s](const Observation& seen) { return seen.slower[s]; });
  return result;
}

// Rates and costs become what they were in the steps that were seen.
void Replanner::correct(const Observation& seen) {
  const auto slower = [&](StreamId stream) {
    const double factor = seen.slower[static_cast<std::size_t>(stream)];
    return factor > 0 ? factor : 1;
  };
  Machine& machine = inputs_.machine;
  CostTable& costs = inputs_.costs;
  const auto link = [](double& rate, double& copy, double factor) { (rate > 0 ? rate : copy) /= factor; };
  link(machine.h2d, costs.copy_h2d, slower(StreamId::h2d));
  link(machine.d2h, costs.copy_d2h, slower(StreamId::d2h));
  machine.disk_read /= slower(StreamId::disk_read);
  machine.disk_write /= slower(StreamId::disk_write);
  scale_compute(costs, slower(StreamId::compute));
  const double host = slower(StreamId::host);
  machine.optimizer_rate /= host;
  for (Seconds* cost :
       {&costs.gather_embedding, &costs.scatter_embedding, &costs.finish_embedding, &costs.zero_embedding,
        &costs.update_per_parameter, &costs.update_eight_bit_per_parameter})
    *cost *= host;
}

// None where the planner finds none: a run that goes on does not end for that.
std::optional<PlannedStep> Replanner::other_plan() const {
  try {
    return plan_step(inputs_, policy_);
  } catch (const Error& error) {
    if (error.code() != ExitCode::does_not_fit) throw;
    return std::nullopt;
  }
}

bool Replanner::plan_again(const Observation& seen) {
  correct(seen);
  std::string found = fmt::format("steps take {:.3g} s instead of {:.3g} s", seen.seconds, expected_);
  for (const StreamId link : {StreamId::h2d, StreamId::d2h, StreamId::disk_read, StreamId::disk_write})
    if (const double factor = seen.slower[static_cast<std::size_t>(link)]; factor > 1 / (1 - kLinkLost))
      found += fmt::format(", {} runs at {:.2g} % of its rate", to_string(link), 100 / factor);

  // The plan in use, under what was measured.
  const Simulation as_it_is =
      simulate(planned_.program, {.costs = inputs_.costs,
                                  .machine = inputs_.machine,
                                  .supervised_fraction = inputs_.supervised_fraction});
  const std::optional<PlannedStep> next = other_plan();
  const bool better = next && next->simulation.step < as_it_is.step * (1 - kWorthIt) &&
                      next->plan.groups == planned_.plan.groups;
  why_ = better ? fmt::format("{}: a plan of policy {} takes over, simulated {:.3g} s instead of {:.3g} s",
                              found, next->plan.policy, next->simulation.step, as_it_is.step)
                : fmt::format("{}: no plan is faster", found);
  recent_.clear();
  ignored_ = kIgnored;
  if (better) {
    planned_ = *next;
    expected_ = planned_.simulation.step;
    in_vain_ = 0;
    return true;
  }
  // Simulated or measured, this is how long it takes now.
  planned_.simulation = as_it_is;
  planned_.machine = inputs_.machine;
  expected_ = seen.seconds;
  ++in_vain_;
  return false;
}

}  // namespace lazytrain
