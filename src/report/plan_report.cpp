#include "report/plan_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "report/step_figures.h"

namespace lazytrain {
namespace {

std::string machine_word(const Machine& machine) {
  return machine.emulated ? " (emulated)" : "";
}

std::string tier_block(const Program& program, Tier tier, const std::string& name, Bytes planned,
                       Bytes budget) {
  std::string text = fmt::format("{:<36}{:>12} of {}\n", name, format_bytes(planned), format_bytes(budget));
  for (const MemoryItem& item : memory_items(program, tier))
    if (item.bytes.value > 0) text += fmt::format("  {:<34}{:>12}\n", item.what, format_bytes(item.bytes));
  return text;
}

// "1.234 s", always in seconds, so that columns can be compared.
std::string seconds(Seconds value) {
  return fmt::format("{:.3f}", value);
}

std::string difference(double planned, double measured) {
  if (planned <= 0) return "";
  return fmt::format("{:+.1f} %", (measured / planned - 1) * 100);
}

}  // namespace

std::string tiers_table(const Program& program, const Machine& machine) {
  const std::string disk =
      program.disk_bytes.value > 0
          ? tier_block(program, Tier::disk, "disk", program.disk_bytes, machine.disk_capacity)
          : "";
  const std::string pinned =
      machine.pinned_capacity
          ? fmt::format("  of the host, pinned: {} of the {} that may be\n",
                        format_bytes(pinned_bytes(program)), format_bytes(*machine.pinned_capacity))
          : "";
  if (program.tiers == TierModel::unified)
    return tier_block(program, Tier::device, "memory", program.device_bytes, machine.device_capacity) + disk;
  return tier_block(program, Tier::device, "device" + machine_word(machine), program.device_bytes,
                    machine.device_capacity) +
         tier_block(program, Tier::host, "host", program.host_bytes, machine.host_capacity) + pinned + disk;
}

std::string policies_table(const std::vector<Evaluation>& table, const Machine& machine) {
  const bool unified = machine.tiers == TierModel::unified;
  std::string text = fmt::format("times are simulated, in seconds a step{}\n",
                                 machine.emulated ? "; device and links are emulated" : "");
  text += fmt::format("  {:<13} {:<42} {:>3} {:>9} {:>9} {:>8} {:>8} {:>8} {:>9}\n", "policy", "variant",
                      "mb", unified ? "memory" : "device", unified ? "" : "host", "step", "recomp.",
                      "exposed", "tok/s");
  for (const Evaluation& row : table) {
    // A long variant is cut rather than pushing the figures out of their columns.
    const std::string variant = row.variant.size() > 42 ? row.variant.substr(0, 39) + "..." : row.variant;
    text += fmt::format("{} {:<13} {:<42} {:>3} {:>9} {:>9} ", row.chosen ? "*" : " ", row.policy, variant,
                        row.micro_batch, row.device.value > 0 ? format_bytes(row.device) : "-",
                        unified || row.host.value == 0 ? "" : format_bytes(row.host));
    if (row.fits)
      text += fmt::format("{:>8} {:>8} {:>8} {:>9.1f}\n", seconds(row.step), seconds(row.recompute),
                          seconds(row.exposed), row.tokens_per_second);
    else
      text += fmt::format("{:>8}\n", row.why_not.starts_with("not tried") ? "not tried" : "does not fit");
  }
  return text;
}

std::string step_summary(const PlannedStep& step, const Machine& machine, const CostTable& costs) {
  const Plan& plan = step.plan;
  const auto chosen =
      std::find_if(step.table.begin(), step.table.end(), [](const Evaluation& row) { return row.chosen; });
  const std::string variant =
      chosen == step.table.end() || chosen->variant.empty() ? "" : ", " + chosen->variant;
  const auto tokens = static_cast<double>(plan.batch.slots * plan.batch.slot_tokens);
  const Simulation& simulation = step.simulation;
  std::string text = fmt::format("plan: policy {}{}\n", plan.policy, variant);
  text += fmt::format("  {} slots of {} tokens in micro-batches of {}; optimizer {}\n", plan.batch.slots,
                      plan.batch.slot_tokens, plan.batch.micro_batch,
                      plan.optimizer_overlap ? "hidden before the next forward" : "after the backward");
  if (step.program.disk_bytes.value > 0) {
    const auto count = [&](auto member) {
      return std::count_if(plan.groups.begin(), plan.groups.end(),
                           [&](const GroupPlan& group) { return group.*member; });
    };
    const Bytes written = disk_writes(step.program);
    std::string what;
    if (!plan.groups.empty())
      what = fmt::format("states of {} of {} groups, gradients of {}, weights of {}; ",
                         count(&GroupPlan::states_on_disk), plan.groups.size(),
                         count(&GroupPlan::gradient_on_disk), count(&GroupPlan::weights_on_disk));
    for (const MemoryItem& item : memory_items(step.program, Tier::disk))
      if (item.what == "boundaries" || item.what == "stashes")
        what += fmt::format("{} of {}; ", format_bytes(item.bytes), item.what);
    text += fmt::format("  on disk: {}a step reads {} and writes {} ({:.3g} TB in 1,000 steps)\n", what,
                        format_bytes(disk_reads(step.program)), format_bytes(written), written.gigabytes());
  }
  const auto resident = std::count_if(plan.groups.begin(), plan.groups.end(),
                                      [](const GroupPlan& group) { return group.on_device; });
  if (resident > 0)
    text += fmt::format("  resident on the device, and updated there: {} of {} layers\n", resident,
                        plan.layers.size());
  text += fmt::format("  simulated step {} s: compute {} s (recompute {} s), exposed {} s; {:.1f} tok/s\n",
                      seconds(simulation.step), seconds(simulation.compute), seconds(simulation.recompute),
                      seconds(simulation.exposed), simulation.step > 0 ? tokens / simulation.step : 0.0);
  text += fmt::format("  from {} costs", costs.source);
  if (!costs.machine.empty()) text += " of " + costs.machine;
  if (machine.tiers == TierModel::tiered && machine.h2d > 0)
    text +=
        fmt::format("; links {} GB/s up, {} GB/s down{}", machine.h2d, machine.d2h, machine_word(machine));
  if (plan.bound > 0) text += fmt::format("; program {:.4g} s, bound {:.4g} s", plan.objective, plan.bound);
  return text + "\n";
}

std::string time_summary(const PlannedStep& step) {
  const std::vector<OpTime> times = op_times(step.simulation);
  const Seconds whole = last_end(times);
  if (whole <= 0) return "";
  const auto percent = [&](Seconds part) { return fmt::format("{:.1f} %", 100 * part / whole); };
  const ComputeTimes compute = compute_times(step.program, times);
  std::string text = "  of the step:";
  for (std::size_t i = 0; i < kComputePartCount; ++i) {
    const auto part = static_cast<ComputePart>(i);
    if (compute.of(part) > 0) text += fmt::format(" {} {},", to_string(part), percent(compute.of(part)));
  }
  text += fmt::format(" standing still {}", percent(std::max(0.0, whole - compute.sum())));
  const std::vector<Standstill> still = standstills(step.program, times);
  if (!still.empty() && still.front().kind)
    text += fmt::format(" (most for {})", to_string(*still.front().kind));
  text += "\n  streams busy:";
  const char* before = " ";
  for (const StreamUse& use : stream_uses(step.program, times)) {
    text += fmt::format("{}{} {}", before, to_string(use.stream), percent(use.busy));
    before = ", ";
  }
  return text + "\n";
}

std::string planned_and_measured(const PlannedStep& step, const MeasuredStep& measured,
                                 const Machine& machine) {
  const bool unified = machine.tiers == TierModel::unified;
  std::string text = fmt::format("{:<22} {:>12} {:>12} {:>10}\n", "", "simulated", "measured", "");
  const auto time = [&](const char* what, Seconds planned, Seconds found) {
    text += fmt::format("{:<22} {:>12} {:>12} {:>10}\n", what, seconds(planned), seconds(found),
                        difference(planned, found));
  };
  time("step, s", step.simulation.step, measured.step);
  time("compute, s", step.simulation.compute, measured.compute);
  time("exposed, s", step.simulation.exposed, measured.exposed);
  text += fmt::format("{:<22} {:>12} {:>12} {:>10}\n", "", "planned", "measured", "");
  const auto bytes = [&](const std::string& what, Bytes planned, Bytes found) {
    text += fmt::format("{:<22} {:>12} {:>12} {:>10}\n", what, format_bytes(planned), format_bytes(found),
                        planned == found ? "equal" : fmt::format("{:+} B", (found - planned).value));
  };
  bytes((unified ? "memory" : "device") + machine_word(machine), step.program.device_bytes,
        measured.device_peak);
  if (!unified) bytes("host", step.program.host_bytes, measured.host_peak);
  return text;
}

}  // namespace lazytrain
