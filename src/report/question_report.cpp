#include "report/question_report.h"

#include <fmt/core.h>

#include <algorithm>

namespace lazytrain {
namespace {

constexpr int kBar = 40;
// What saves less than this of a step binds nothing.
constexpr double kBinds = 0.001;

}  // namespace

std::string answers_table(const std::vector<Answer>& answers, const Machine& machine) {
  double most = 0;
  for (const Answer& answer : answers) most = std::max(most, answer.row.tokens_per_second);
  std::string text = fmt::format("times are simulated, in seconds a step{}\n",
                                 machine.emulated ? "; device and links are emulated" : "");
  text += fmt::format("  {:<18} {:>3} {:>9} {:>9} {:>9}  {:<13}\n", "", "mb", "step", "exposed", "tok/s",
                      "policy");
  for (const Answer& answer : answers) {
    text += fmt::format("{} {:<18} ", answer.current ? "*" : " ", answer.label);
    if (!answer.fits) {
      text += "does not fit\n";
      continue;
    }
    const Evaluation& row = answer.row;
    const int length =
        most > 0 ? std::max(1, static_cast<int>(row.tokens_per_second / most * kBar + 0.5)) : 0;
    text +=
        fmt::format("{:>3} {:>9.3f} {:>9.3f} {:>9.1f}  {:<13} {}\n", row.micro_batch, row.step, row.exposed,
                    row.tokens_per_second, row.policy, std::string(static_cast<std::size_t>(length), '#'));
  }
  return text;
}

std::string batch_table(const BatchAnswer& batches, const Machine& machine) {
  std::string text = answers_table(batches.tried, machine);
  if (batches.largest == 0) return text + "no batch fits\n";
  const auto best = std::find_if(batches.tried.begin(), batches.tried.end(), [&](const Answer& answer) {
    return static_cast<std::int64_t>(answer.value) == batches.best;
  });
  return text + fmt::format("best: {} slots a step, {:.1f} tok/s (simulated)\nlargest that fits: {}{}\n",
                            batches.best, best->row.tokens_per_second, batches.largest,
                            batches.largest == kMostBatch ? " (more was not tried)" : "");
}

std::string explanation_table(const Explanation& explanation) {
  const Simulation& simulation = explanation.step.simulation;
  std::string text = fmt::format(
      "a step of {:.3f} s (simulated): compute {:.3f} s, of it again {:.3f} s; exposed {:.3f} s\n",
      simulation.step, simulation.compute, simulation.recompute, simulation.exposed);
  text += fmt::format("  {:<36} {:>9} {:>8}\n", "with", "step, s", "saves");
  for (const Gain& gain : explanation.gains)
    text += fmt::format("  {:<36} {:>9.3f} {:>6.2f} %\n", gain.what, gain.step, 100 * gain.part);
  const bool memory_or_link = std::any_of(
      explanation.gains.begin(), explanation.gains.end(),
      [](const Gain& gain) { return gain.part >= kBinds && gain.what.find("compute") == std::string::npos; });
  if (!explanation.gains.empty() && memory_or_link) {
    const auto first = std::find_if(explanation.gains.begin(), explanation.gains.end(), [](const Gain& gain) {
      return gain.what.find("compute") == std::string::npos;
    });
    text += fmt::format("beside compute this binds most: {} saves {:.2f} % of a step\n", first->what,
                        100 * first->part);
  } else {
    text += "nothing but compute binds\n";
  }
  return text;
}

}  // namespace lazytrain
