#include "planning/questions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/error.h"
#include "planning/policies.h"

namespace lazytrain {
namespace {

// The chosen line of a table.
Evaluation chosen_row(const PlannedStep& step) {
  const auto found =
      std::find_if(step.table.begin(), step.table.end(), [](const Evaluation& row) { return row.chosen; });
  check(found != step.table.end(), "a planned step has a chosen line");
  return *found;
}

// Why a step of fixed micro-batches is not planned; empty where it can be.
std::string too_many_calls(const PlanningInputs& inputs) {
  if (inputs.batch.micro_batch == 0) return "";
  const std::int64_t calls = inputs.batch.micro_batches() * inputs.context.architecture.layers;
  return calls <= kMostLayerCalls
             ? ""
             : fmt::format("micro-batches of {} are too many calls", inputs.batch.micro_batch);
}

Answer answer(const PlanningInputs& inputs, const std::string& policy, double value, std::string label) {
  Answer result{.label = std::move(label), .value = value, .why_not = too_many_calls(inputs), .row = {}};
  if (!result.why_not.empty()) return result;
  if (inputs.progress) inputs.progress(result.label);
  try {
    result.row = chosen_row(plan_step(inputs, policy));
    result.fits = true;
  } catch (const Error& error) {
    if (error.code() != ExitCode::does_not_fit) throw;
    result.why_not = error.what();
  }
  return result;
}

// 1, 2, 3, 4, 6, 8, 12, ...
std::int64_t next_batch(std::int64_t slots) {
  if (slots < 2) return slots + 1;
  std::int64_t power = 1;
  while (2 * power <= slots) power *= 2;
  return slots == power ? power + power / 2 : 2 * power;
}

}  // namespace

BatchAnswer find_batch(const PlanningInputs& inputs, const std::string& policy) {
  std::map<std::int64_t, Answer> tried;
  const auto at = [&](std::int64_t slots) -> const Answer& {
    const auto found = tried.find(slots);
    if (found != tried.end()) return found->second;
    PlanningInputs changed = inputs;
    changed.batch.slots = slots;
    changed.batch.micro_batch = std::min(inputs.batch.micro_batch, slots);
    Answer result = answer(changed, policy, static_cast<double>(slots), fmt::format("batch {}", slots));
    result.current = slots == inputs.batch.slots;
    return tried.emplace(slots, std::move(result)).first->second;
  };
  BatchAnswer batches;
  std::int64_t slots = 1, beyond = kMostBatch + 1;
  for (; slots <= kMostBatch; slots = next_batch(slots)) {
    if (!at(slots).fits) {
      beyond = slots;
      break;
    }
    batches.largest = slots;
  }
  // Memory grows with the batch, so what fits is found by halves.
  while (batches.largest > 0 && beyond - batches.largest > 1) {
    const std::int64_t middle = batches.largest + (beyond - batches.largest) / 2;
    (at(middle).fits ? batches.largest : beyond) = middle;
  }
  // Between the neighbours of the best of them there may be a better one.
  const auto best = [&] {
    return std::max_element(tried.begin(), tried.end(), [](const auto& a, const auto& b) {
      return a.second.row.tokens_per_second < b.second.row.tokens_per_second;
    });
  };
  if (batches.largest > 0) {
    for (int halvings = 0; halvings < 3; ++halvings) {
      const auto found = best();
      const std::int64_t here = found->first;
      const std::int64_t below = found == tried.begin() ? here : std::prev(found)->first;
      const std::int64_t above = std::next(found) == tried.end() ? here : std::next(found)->first;
      at(below + (here - below) / 2);
      at(std::min(batches.largest, here + (above - here + 1) / 2));
    }
    batches.best = best()->first;
  }
  for (auto& [number, result] : tried) batches.tried.push_back(std::move(result));
  return batches;
}

const char* to_string(SweepAxis axis) {
  switch (axis) {
    case SweepAxis::batch:
      return "batch";
    case SweepAxis::device:
      return "device";
    case SweepAxis::host:
      return "host";
    case SweepAxis::link:
      return "link";
    case SweepAxis::disk:
      return "disk";
  }
  return "?";
}

SweepAxis sweep_axis_from(const std::string& name) {
  for (const SweepAxis axis :
       {SweepAxis::batch, SweepAxis::device, SweepAxis::host, SweepAxis::link, SweepAxis::disk})
    if (name == to_string(axis)) return axis;
  fail(ExitCode::usage, "sweep: '{}' is nothing to sweep; use batch, device, host, link or disk", name);
}

std::vector<Answer> sweep(const PlanningInputs& given, const std::string& policy, SweepAxis axis) {
  PlanningInputs inputs = given;
  if (axis == SweepAxis::disk && inputs.machine.disk_capacity.value == 0 && inputs.find_disk)
    inputs.find_disk(inputs.machine);
  const Machine& machine = inputs.machine;
  const bool unified = machine.tiers == TierModel::unified;
  if (axis == SweepAxis::link && (unified || machine.h2d <= 0 || machine.d2h <= 0))
    fail(ExitCode::usage, "sweep: this machine has no link of a given rate; sweep batch or device");
  if (axis == SweepAxis::host && unified)
    fail(ExitCode::usage, "sweep: device and host are one memory on this machine; sweep device");
  if (axis == SweepAxis::disk && machine.disk_capacity.value == 0)
    fail(ExitCode::usage, "sweep: this machine has no disk to use; sweep host");
  std::vector<Answer> answers;
  for (int step = -4; step <= 4; ++step) {
    const double factor = std::pow(2.0, step / 2.0);
    PlanningInputs changed = inputs;
    const auto scaled = [&](Bytes bytes) {
      return Bytes{static_cast<std::int64_t>(static_cast<double>(bytes.value) * factor)};
    };
    double value = 0;
    std::string label;
    switch (axis) {
      case SweepAxis::batch: {
        const auto slots =
            std::max<std::int64_t>(1, std::llround(static_cast<double>(inputs.batch.slots) * factor));
        changed.batch.slots = slots;
        changed.batch.micro_batch = std::min(inputs.batch.micro_batch, slots);
        value = static_cast<double>(slots);
        label = fmt::format("batch {}", slots);
        break;
      }
      case SweepAxis::device:
        changed.machine.device_capacity = scaled(machine.device_capacity);
        value = changed.machine.device_capacity.gigabytes();
        label = fmt::format("{} {}", unified ? "memory" : "device",
                            format_bytes(changed.machine.device_capacity));
        break;
      case SweepAxis::host:
        changed.machine.host_capacity = scaled(machine.host_capacity);
        value = changed.machine.host_capacity.gigabytes();
        label = fmt::format("host {}", format_bytes(changed.machine.host_capacity));
        break;
      case SweepAxis::link:
        changed.machine.h2d *= factor;
        changed.machine.d2h *= factor;
        changed.machine.duplex *= factor;
        value = changed.machine.h2d;
        label = fmt::format("link {:.3g} GB/s", value);
        break;
      case SweepAxis::disk:
        changed.machine.disk_read *= factor;
        changed.machine.disk_write *= factor;
        changed.machine.disk_duplex *= factor;
        changed.find_disk = {};
        value = changed.machine.disk_read;
        label = fmt::format("disk {:.3g} GB/s", value);
        break;
    }
    if (!answers.empty() && answers.back().value == value) continue;  // small batches
    answers.push_back(answer(changed, policy, value, std::move(label)));
    answers.back().current = step == 0;
  }
  return answers;
}

namespace {

// A line for a step of which only the compute is known, nothing exposed: `forwards` times the forward of all
// layers, as the backward takes two.
Evaluation ideal(const PlanningInputs& inputs, const char* name, bool again) {
  const Architecture& architecture = inputs.context.architecture;
  Seconds slot = inputs.costs.head * inputs.supervised_fraction, repeated = 0;
  for (std::int64_t l = 0; l < architecture.layers; ++l) {
    const LayerCosts& layer = inputs.costs.of(architecture.kind_of(l));
    slot += layer.forward + layer.backward;
    repeated += layer.recompute[static_cast<std::size_t>(StashLevel::none)] + layer.down_projection;
  }
  Evaluation row{.policy = name,
                 .variant = again ? "each forward twice, nothing exposed" : "nothing again, nothing exposed",
                 .why_not = {},
                 .device = {},
                 .host = {}};
  const auto slots = static_cast<double>(inputs.batch.slots);
  row.fits = true;
  row.micro_batch = 0;
  row.recompute = again ? slots * repeated : 0;
  row.step = row.compute = slots * slot + row.recompute;
  row.tokens_per_second = slots * static_cast<double>(inputs.batch.slot_tokens) / row.step;
  return row;
}

}  // namespace

std::vector<Evaluation> compare_policies(const PlanningInputs& inputs) {
  std::vector<Evaluation> rows;
  for (const std::string& policy : policy_names()) {
    if (policy == "auto") continue;
    Answer one = answer(inputs, policy, 0, policy);
    if (!one.fits) {
      one.row.policy = policy;
      one.row.why_not = one.why_not;
    }
    one.row.chosen = false;
    rows.push_back(std::move(one.row));
  }
  const auto fastest = std::min_element(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.fits && (!b.fits || a.step < b.step);
  });
  if (fastest != rows.end() && fastest->fits) fastest->chosen = true;
  rows.push_back(ideal(inputs, "4F", true));
  rows.push_back(ideal(inputs, "3F", false));
  return rows;
}

Explanation explain(const PlanningInputs& inputs, const std::string& policy) {
  Explanation result{.step = plan_step(inputs, policy), .gains = {}};
  const Machine& machine = result.step.machine;
  const bool unified = machine.tiers == TierModel::unified;
  PlanningInputs found = inputs;
  found.machine = machine;
  if (machine.disk_capacity.value > 0) found.find_disk = {};
  const auto with = [&](const std::string& what, const std::function<void(PlanningInputs&)>& change) {
    PlanningInputs changed = found;
    change(changed);
    const Answer better = answer(changed, policy, 0, what);
    if (!better.fits) return;
    // What fitted still does: a planner that finds less with more has found too little.
    const Seconds before = result.step.simulation.step, step = std::min(before, better.row.step);
    result.gains.push_back({.what = what, .step = step, .part = 1 - step / before});
  };
  // One GB, or a tenth where that is more than the machine has anyway.
  const auto more = [](Bytes capacity) {
    return Bytes{std::min<std::int64_t>(1'000'000'000, std::max<std::int64_t>(1, capacity.value / 10))};
  };
  const auto memory = [&](const char* name, Bytes Machine::*capacity) {
    const Bytes plus = more(machine.*capacity);
    with(fmt::format("{} more {}", format_bytes(plus), name),
         [&](PlanningInputs& changed) { changed.machine.*capacity += plus; });
  };
  const auto rate = [&](const char* name, double Machine::*first, double Machine::*joint) {
    if (machine.*first <= 0) return;
    const double plus = machine.*first >= 4 ? 1 : machine.*first / 10;
    with(fmt::format("{:.3g} GB/s more {}", plus, name), [&](PlanningInputs& changed) {
      changed.machine.*first += plus;
      if (joint != nullptr && machine.*joint > 0) changed.machine.*joint += plus;
    });
  };
  memory(unified ? "memory" : "device memory", &Machine::device_capacity);
  if (!unified) {
    memory("host memory", &Machine::host_capacity);
    if (machine.pinned_capacity) {
      const Bytes plus = more(*machine.pinned_capacity);
      with(fmt::format("{} more pinned memory", format_bytes(plus)),
           [&](PlanningInputs& changed) { *changed.machine.pinned_capacity += plus; });
    }
    rate("to the device", &Machine::h2d, &Machine::duplex);
    rate("from the device", &Machine::d2h, &Machine::duplex);
  }
  if (machine.disk_capacity.value > 0) {
    memory("disk", &Machine::disk_capacity);
    rate("from disk", &Machine::disk_read, &Machine::disk_duplex);
    rate("to disk", &Machine::disk_write, &Machine::disk_duplex);
  }
  with("an optimizer 10 % faster", [&](PlanningInputs& changed) {
    changed.machine.optimizer_rate *= 1.1;
    changed.costs.update_per_parameter /= 1.1;
    changed.costs.update_eight_bit_per_parameter /= 1.1;
  });
  with("compute 10 % faster", [&](PlanningInputs& changed) { scale_compute(changed.costs, 1 / 1.1); });
  std::stable_sort(result.gains.begin(), result.gains.end(),
                   [](const Gain& a, const Gain& b) { return a.part > b.part; });
  return result;
}

}  // namespace lazytrain
