#include "planning/portfolio.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "model/vocabulary.h"
#include "planning/candidates.h"
#include "planning/lean_sizes.h"
#include "planning/micro_batches.h"
#include "planning/paper.h"
#include "planning/policies.h"
#include "planning/smallest_change.h"

namespace lazytrain {
namespace {

// Calls of a layer in steps that use a disk for speed.
constexpr std::int64_t kFewestDiskCalls = 4, kMostDiskCalls = 24;

// Scratch and index arrays are computed from rows and widths in plain 64-bit arithmetic: no product of them
// may come near its end.
void check_step_size(const Architecture& a, const BatchGeometry& batch) {
  constexpr double kMostBytes = 1e18;
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };
  double inside = 0;
  for (const LayerKind kind : kLayerKinds)
    if (a.layers_of(kind) > 0)
      inside = std::max(inside, 2 * number(a.mlp_width(kind)) + number(a.projected_width(kind)));
  const double width = number(a.vocab) + number(a.hidden) + inside;
  const double rows = number(batch.slots) * number(batch.slot_tokens);
  if (rows * (width + number(batch.slot_tokens)) * 16 > kMostBytes) fail_bytes_overflow();
}

// Micro-batches that a step may have.
std::int64_t most_calls_of(const Architecture& architecture) {
  return std::max<std::int64_t>(1, kMostLayerCalls / architecture.layers);
}

// A head in slices, or in more, where that is faster than `found`: its logits are computed twice, and what
// the head leaves free takes stashes instead. Few slices first; where they do not pay, more will not either.
void try_slices(const PlanningInputs& inputs, std::span<const std::int64_t> micro_batches,
                PlannedStep& found) {
  constexpr double kWorthTrying = 0.02;  // of the device
  const std::int64_t so_far = found.plan.head_slices;
  const auto slots = static_cast<double>(found.plan.batch.slots);
  const Seconds repeated = so_far > 1 ? 0 : slots * inputs.costs.head_forward * inputs.supervised_fraction;
  const Architecture& a = inputs.context.architecture;
  const auto head = static_cast<double>(a.vocab * a.hidden * (inputs.context.type_bytes + 4));
  if (repeated >= found.simulation.recompute + found.simulation.exposed ||
      head < kWorthTrying * static_cast<double>(inputs.machine.device_capacity.value))
    return;
  const bool small = found.plan.batch.slots * a.layers <= kSmallStep;
  for (std::int64_t slices = 4 * so_far; slices <= vocabulary_blocks(a.vocab); slices *= 4) {
    PlanningInputs in_slices = inputs;
    in_slices.head_slices = slices;
    if (disk_writes(found.program) <= inputs.most_disk_writes) in_slices.known_step = found.simulation.step;
    // With their room a larger micro-batch may fit, too.
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : micro_batches)
      if (size == found.plan.batch.micro_batch || (small && size > found.plan.batch.micro_batch))
        sizes.push_back(size);
    std::optional<PlannedStep> step = plan_micro_batches(in_slices, small ? "auto" : "milp", sizes).step;
    if (!step) return;
    const bool pays = step->simulation.step < found.simulation.step * (1 - kSameStep) &&
                      better(inputs, step->simulation.step, disk_writes(step->program), found.simulation.step,
                             disk_writes(found.program));
    PlannedStep& other = pays ? found : *step;
    for (Evaluation& row : other.table) row.chosen = false;
    if (pays) std::swap(found, *step);
    found.table.insert(found.table.end(), step->table.begin(), step->table.end());
    if (!pays) return;
  }
}

// The best plan with states and gradients where inputs.context.homes says; none where nothing fits. The head
// is computed in slices where it has to be, and where that is faster.
std::optional<PlannedStep> plan_with_homes(const PlanningInputs& inputs, const std::string& policy,
                                           std::span<const std::int64_t> micro_batches) {
  SearchedSizes whole = plan_micro_batches(inputs, policy, micro_batches);
  std::optional<PlannedStep> step = std::move(whole.step);
  if (!may_slice_head(inputs, policy)) return step;
  const std::int64_t most = vocabulary_blocks(inputs.context.architecture.vocab);
  PlanningInputs in_slices = inputs;
  BatchGeometry leanest = inputs.batch;
  leanest.micro_batch = micro_batches.back();
  const auto some_fits = [&] {
    const std::vector<LeanSize> sizes = leanest_sizes(inputs, leanest, policy, true);
    return std::any_of(sizes.begin(), sizes.end(),
                       [&](const LeanSize& size) { return size.fits(inputs.machine); });
  };
  if (!step && (whole.too_slow || !some_fits())) return step;
  for (in_slices.head_slices = std::min<std::int64_t>(4, most); !step; in_slices.head_slices = most) {
    step = plan_micro_batches(in_slices, policy, micro_batches).step;
    if (in_slices.head_slices == most) break;
  }
  if (step && (policy == "auto" || policy == "milp")) try_slices(inputs, micro_batches, *step);
  return step;
}

// The most that the disk has room for; 0 where that is nothing.
std::int64_t most_level_on_disk(PlanningInputs inputs) {
  const std::int64_t layers = inputs.context.architecture.layers;
  std::int64_t level = most_disk_level(layers);
  for (; level > 0; --level) {
    inputs.context.homes = groups_on_disk(level, layers);
    if (bytes_on_disk(inputs.context) <= inputs.machine.disk_capacity) break;
  }
  return level;
}

// The least level up to `most` at which some plan fits; none where there is none. Memory shrinks with the
// level but where states, gradients and weights begin to move: each of them needs buffers on the host to pass
// through.
std::optional<std::int64_t> least_level_on_disk(PlanningInputs inputs, const BatchGeometry& batch,
                                                const std::string& policy, std::int64_t most) {
  const std::int64_t layers = inputs.context.architecture.layers;
  const auto some_fits = [&](std::int64_t level) {
    inputs.context.homes = groups_on_disk(level, layers);
    const std::vector<LeanSize> sizes = leanest_sizes(inputs, batch, policy, true);
    return std::any_of(sizes.begin(), sizes.end(),
                       [&](const LeanSize& size) { return size.fits(inputs.machine); });
  };
  std::int64_t first = 1;
  for (const std::int64_t all : {layers + 2, 2 * layers + 2, 3 * layers + 2}) {
    std::int64_t low = first, high = std::min(all, most);
    first = all + 1;
    if (low > high || !some_fits(high)) continue;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (some_fits(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
  return std::nullopt;
}

// ", or ...": the room on disk that would help; empty where none would.
std::string offer_of_a_larger_disk(PlanningInputs inputs, const BatchGeometry& batch,
                                   const std::string& policy) {
  constexpr std::size_t kMostPieces = 20'000;  // beyond, looking takes too long
  std::size_t pieces = 0;
  for (const std::vector<StatePieceSize>& group : inputs.context.state_pieces) pieces += group.size();
  const std::int64_t layers = inputs.context.architecture.layers, most = most_disk_level(layers);
  if (pieces > kMostPieces || most_level_on_disk(inputs) == most) return "";
  const std::optional<std::int64_t> level = least_level_on_disk(inputs, batch, policy, most);
  if (!level) return "";
  inputs.context.homes = groups_on_disk(*level, layers);
  return fmt::format(", or a {} with {} free (it has {})", inputs.disk_key,
                     format_bytes(bytes_on_disk(inputs.context)), format_bytes(inputs.machine.disk_capacity));
}

// Plans with ever more on disk, from the least that fits; the fastest in simulation. More on disk has to earn
// its wear.
std::optional<PlannedStep> plan_with_disk(PlanningInputs inputs, const std::string& policy,
                                          std::span<const std::int64_t> micro_batches) {
  const std::int64_t layers = inputs.context.architecture.layers, groups = layers + 2;
  const std::int64_t most = most_level_on_disk(inputs);
  const bool all_states = inputs.states_home == StatesHome::disk;
  if (most < (all_states ? groups : 1)) {
    if (!all_states)  // boundaries and stashes may need less
      if (std::optional<PlannedStep> step = plan_with_homes(inputs, policy, micro_batches)) return step;
    inputs.context.homes = groups_on_disk(groups, layers);
    fail(ExitCode::does_not_fit,
         "the scratch folder has {} free and all optimizer states need {} there; give a {} with more room{}",
         format_bytes(inputs.machine.disk_capacity), format_bytes(bytes_on_disk(inputs.context)),
         inputs.disk_key, all_states ? ", or states_home: auto" : "");
  }
  BatchGeometry leanest = inputs.batch;
  leanest.micro_batch = micro_batches.back();
  std::int64_t least = least_level_on_disk(inputs, leanest, policy, most).value_or(most);
  if (all_states) least = std::max(least, groups);
  std::optional<PlannedStep> best;
  std::set levels{least, std::clamp(groups, least, most), most};
  if (!all_states) levels.insert(0);  // nothing but boundaries and stashes
  for (const std::int64_t level : levels) {
    inputs.context.homes = groups_on_disk(level, layers);
    std::optional<PlannedStep> step = plan_with_homes(inputs, policy, micro_batches);
    if (!step) continue;
    if (!best || better(inputs, step->simulation.step, disk_writes(step->program), best->simulation.step,
                        disk_writes(best->program)))
      best = std::move(step);
    if (disk_writes(best->program) <= inputs.most_disk_writes) inputs.known_step = best->simulation.step;
    if (all_states) break;
  }
  return best;
}

}  // namespace

PlannedStep plan_step(const PlanningInputs& inputs, const std::string& policy) {
  check_policy_name(policy);
  if (policy == "paper" && inputs.context.architecture.layers > kMostPaperLayers)
    fail(ExitCode::usage, "policy: paper is solved for models of up to {} layers; use auto",
         kMostPaperLayers);
  BatchGeometry batch = inputs.batch;
  check(batch.slots >= 1 && batch.slot_tokens >= 1 && batch.micro_batch >= 0, "a step has slots and tokens");
  check_step_size(inputs.context.architecture, batch);
  if (batch.micro_batch > batch.slots)
    fail(ExitCode::usage, "micro_batch: {} is more than the {} slots of a step; use 1 to {} or auto",
         batch.micro_batch, batch.slots, batch.slots);
  const std::int64_t most_calls = most_calls_of(inputs.context.architecture);
  if (batch.micro_batch > 0 && batch.micro_batches() > most_calls)
    fail(ExitCode::usage,
         "micro_batch: {} cuts a step of {} slots into {} calls of each layer; give at least {}",
         batch.micro_batch, batch.slots, batch.micro_batches(), (batch.slots + most_calls - 1) / most_calls);
  std::vector<std::int64_t> sizes{batch.micro_batch};
  if (batch.micro_batch == 0) sizes = micro_batch_sizes(batch.slots, most_calls);

  if (inputs.homes_are_fixed) {
    if (std::optional<PlannedStep> step = plan_with_homes(inputs, policy, sizes)) return std::move(*step);
    batch.micro_batch = sizes.back();
    throw Error(ExitCode::does_not_fit, smallest_change(inputs, batch, policy));
  }
  PlanningInputs without_disk = inputs;
  without_disk.machine.disk_capacity = {};
  if (inputs.states_home != StatesHome::disk)
    if (std::optional<PlannedStep> step = plan_with_homes(without_disk, policy, sizes)) {
      if (!inputs.disk_for_speed || inputs.machine.disk_capacity.value == 0) return std::move(*step);
      // The heuristics are for what has no other room; for speed it takes the program, and a step that is cut
      // fine enough to keep the disk busy.
      std::vector<std::int64_t> fine = sizes;
      std::erase_if(fine, [&](std::int64_t size) {
        const std::int64_t calls = (batch.slots + size - 1) / size;
        return calls < kFewestDiskCalls || calls > kMostDiskCalls;
      });
      PlanningInputs faster_inputs = inputs;
      faster_inputs.known_step = step->simulation.step;
      std::optional<PlannedStep> with_disk =
          plan_with_homes(faster_inputs, policy == "auto" ? "milp" : policy, fine.empty() ? sizes : fine);
      const bool faster = with_disk && with_disk->simulation.step < step->simulation.step * (1 - kSameStep) &&
                          disk_writes(with_disk->program) <= inputs.most_disk_writes;
      return faster ? std::move(*with_disk) : std::move(*step);
    }
  PlanningInputs with_disk = inputs;
  if (inputs.find_disk && inputs.states_home != StatesHome::host) inputs.find_disk(with_disk.machine);
  if (with_disk.machine.disk_capacity.value > 0 && inputs.states_home != StatesHome::host) {
    if (std::optional<PlannedStep> step = plan_with_disk(with_disk, policy, sizes)) return std::move(*step);
    // Advice is about what is left to change: the rest is on disk already.
    batch.micro_batch = sizes.back();
    const std::string larger_disk = offer_of_a_larger_disk(with_disk, batch, policy);
    with_disk.context.homes =
        groups_on_disk(most_level_on_disk(with_disk), inputs.context.architecture.layers);
    throw Error(ExitCode::does_not_fit, smallest_change(with_disk, batch, policy) + larger_disk);
  }
  batch.micro_batch = sizes.back();
  throw Error(ExitCode::does_not_fit, smallest_change(with_disk, batch, policy));
}

PlannedStep use_plan(const PlanningInputs& inputs, const Plan& plan) {
  check_plan(plan, inputs.context.architecture, "plan");
  check_step_size(inputs.context.architecture, plan.batch);
  if (plan.batch.slots != inputs.batch.slots || plan.batch.slot_tokens != inputs.batch.slot_tokens)
    fail(ExitCode::usage,
         "the plan is for {} slots of {} tokens, the run has {} of {}; make a new plan with `lazytrain plan`",
         plan.batch.slots, plan.batch.slot_tokens, inputs.batch.slots, inputs.batch.slot_tokens);
  if (plan.batch.micro_batches() > most_calls_of(inputs.context.architecture))
    fail(ExitCode::usage,
         "the plan calls each layer {} times in a step; make a new plan with `lazytrain plan`",
         plan.batch.micro_batches());
  PlanningInputs there = inputs;
  there.context.homes = plan.groups;
  Candidates candidates(there, plan.batch);
  Candidate candidate = candidates.exactly(plan, "as given");
  Evaluation row = candidate.row;
  if (!row.fits)
    fail(ExitCode::does_not_fit,
         "the plan of policy {} does not fit: {}; make a new plan with `lazytrain plan`", plan.policy,
         row.why_not);
  row.chosen = true;
  return planned_step(std::move(candidate), {std::move(row)}, inputs.machine);
}

}  // namespace lazytrain
