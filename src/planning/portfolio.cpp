#include "planning/portfolio.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "model/vocabulary.h"
#include "planning/candidates.h"
#include "planning/local_search.h"
#include "planning/paper.h"
#include "planning/policies.h"
#include "planning/smallest_change.h"
#include "planning/solver.h"

namespace lazytrain {
namespace {

// Layers times sequences of a step for which the program is solved for every micro-batch size that has hope.
constexpr std::int64_t kSmallStep = 128;

// Differences of less than this count as none when the planner chooses between plans.
constexpr double kSameStep = 1e-3;
// Layer calls of all micro-batch sizes together that are tried once a plan fits: the sizes beyond are small,
// and the time to plan them would grow without end.
constexpr std::int64_t kMostPlannedCalls = kMostLayerCalls;

struct Best {
  std::unique_ptr<Candidate> candidate = {};  // none where nothing fits
  std::vector<Evaluation> table = {};
  std::vector<Plan> fitting = {};  // all plans that fit, with their simulated steps
  std::size_t chosen = 0;          // row of the table
};

// Calls of a layer in steps that use a disk for speed.
constexpr std::int64_t kFewestDiskCalls = 4, kMostDiskCalls = 24;

// What is written to disk wears it: a plan that writes more has to be faster by this part.
constexpr double kWorthWear = 0.02;

// Whether to take `step` and the writes that come with it rather than what is `best` so far.
bool better(const PlanningInputs& inputs, Seconds step, Bytes writes, Seconds best, Bytes best_writes) {
  const Bytes most = inputs.most_disk_writes;
  if (writes <= best_writes) return step < best || (best_writes > most && writes <= most);
  return writes <= most && step < best * (1 - (inputs.disk_for_speed ? kSameStep : kWorthWear));
}

// Adds candidates to the table; the fastest is the best, the earlier one where two are equal.
void consider(const PlanningInputs& inputs, Best& best, std::vector<Candidate> found) {
  for (Candidate& candidate : found) {
    best.table.push_back(candidate.row);
    if (!candidate.row.fits) continue;
    best.fitting.push_back(candidate.plan);
    if (best.candidate && !better(inputs, candidate.row.step, disk_writes(candidate.program),
                                  best.candidate->row.step, disk_writes(best.candidate->program)))
      continue;
    best.table[best.chosen].chosen = false;
    best.candidate = std::make_unique<Candidate>(std::move(candidate));
    best.chosen = best.table.size() - 1;
    best.table[best.chosen].chosen = true;
  }
}

// Overlap pays nearly always; where it does not, updates in one go after the backward are the simpler way.
void try_serial(const PlanningInputs& inputs, Candidates& candidates, Best& best) {
  if (!best.candidate || inputs.optimizer_overlap || !best.candidate->plan.optimizer_overlap) return;
  Plan plan = best.candidate->plan;
  plan.optimizer_overlap = false;
  Candidate serial = candidates.exactly(plan, best.candidate->row.variant);
  if (!serial.row.fits || serial.row.step > best.candidate->row.step * (1 + kSameStep)) return;
  best.table[best.chosen] = serial.row;
  best.table[best.chosen].chosen = true;
  best.candidate = std::make_unique<Candidate>(std::move(serial));
}

Best best_of(const PlanningInputs& inputs, const BatchGeometry& batch, const std::string& policy) {
  Candidates candidates(inputs, batch);
  Best best;
  consider(inputs, best, candidates.of(policy));
  try_serial(inputs, candidates, best);
  return best;
}

// The program is solved for the micro-batch sizes whose heuristics come close to the fastest; of small steps
// for all.
void consider_programs(const PlanningInputs& inputs, BatchGeometry batch, std::span<const std::int64_t> sizes,
                       std::vector<Best>& tried) {
  const bool small = batch.slots * inputs.context.architecture.layers <= kSmallStep;
  constexpr double kClose = 0.03;
  constexpr std::size_t kMostSizes = 2;
  constexpr std::int64_t kLargeModel = 16, kFineCalls = 12;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tried.size(); ++i)
    if (tried[i].candidate || small) order.push_back(i);
  const auto step = [&](std::size_t i) {
    return tried[i].candidate ? tried[i].candidate->row.step : kInfinity;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return step(a) < step(b); });
  // Where no heuristic fits, the smallest micro-batch is the last hope.
  if (order.empty() && !tried.empty()) order.push_back(tried.size() - 1);
  // The size that comes out best, and the smallest that comes close: what it moves is finer.
  if (!small)
    std::erase_if(order, [&](std::size_t i) {
      return tried[i].candidate && step(i) > step(order.front()) * (1 + kClose);
    });
  if (order.size() > kMostSizes && !small)
    order = {order.front(), *std::max_element(order.begin() + 1, order.end())};
  // And one that cuts a step of a large model fine: what waits for a disk waits in objects of this size.
  const std::int64_t layers = inputs.context.architecture.layers;
  for (std::size_t i = 0; i < sizes.size() && layers >= kLargeModel; ++i) {
    batch.micro_batch = sizes[i];
    if (batch.micro_batches() < kFineCalls) continue;
    if (tried.size() <= i) tried.resize(i + 1);
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
    break;
  }
  for (const std::size_t i : order) {
    batch.micro_batch = sizes[i];
    Candidates candidates(inputs, batch);
    const std::size_t before = tried[i].chosen;
    const bool had_one = tried[i].candidate != nullptr;
    consider(inputs, tried[i], candidates.programs());
    if (!had_one || tried[i].chosen != before) try_serial(inputs, candidates, tried[i]);
  }
}

// The plans of the micro-batch sizes that come close to the fastest are improved in simulation, where that is
// cheap. The search goes downhill: from several plans it finds more.
void improve(const PlanningInputs& inputs, BatchGeometry batch, std::span<const std::int64_t> sizes,
             std::vector<Best>& tried) {
  constexpr double kClose = 0.15;
  constexpr std::size_t kMostStarts = 5;
  std::int64_t calls_left = 50'000;  // about a second
  Seconds fastest = kInfinity;
  for (const Best& best : tried)
    if (best.candidate) fastest = std::min(fastest, best.candidate->row.step);
  for (std::size_t i = 0; i < tried.size(); ++i) {
    Best& best = tried[i];
    batch.micro_batch = sizes[i];
    if (!best.candidate || best.candidate->row.step > fastest * (1 + kClose) ||
        batch.micro_batches() * inputs.context.architecture.layers > kMostSearchedCalls)
      continue;
    std::stable_sort(best.fitting.begin(), best.fitting.end(),
                     [](const Plan& a, const Plan& b) { return a.simulated_step < b.simulated_step; });
    best.fitting.resize(std::min(best.fitting.size(), kMostStarts));
    Candidates candidates(inputs, batch);
    for (const Plan& start : best.fitting) {
      Candidate found = improved(candidates, inputs, candidates.exactly(start, ""), calls_left);
      const Candidate& known = *best.candidate;
      if (found.row.step >= start.simulated_step || found.row.step >= known.row.step * (1 - kSameStep) ||
          !better(inputs, found.row.step, disk_writes(found.program), known.row.step,
                  disk_writes(known.program)))
        continue;
      const std::string head = head_words(found.program);
      found.row.variant = (head.empty() ? "" : head + ", ") + "improved in simulation";
      found.row.chosen = true;
      best.table[best.chosen].chosen = false;
      best.chosen = best.table.size();
      best.table.push_back(found.row);
      best.candidate = std::make_unique<Candidate>(std::move(found));
    }
  }
}

// Calls of a layer in a step, 1, 2, 3, 4, 6, 8, 12, ...: one micro-batch size for each, large to small.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t slots, std::int64_t most_calls) {
  std::vector<std::int64_t> sizes;
  const auto add = [&](std::int64_t calls) {
    const std::int64_t size = (slots + calls - 1) / calls;
    if (calls <= most_calls && (sizes.empty() || size < sizes.back())) sizes.push_back(size);
  };
  for (std::int64_t calls = 1; calls < 2 * slots; calls *= 2) {
    add(std::min(calls, slots));
    if (calls > 1) add(std::min(calls / 2 * 3, slots));
  }
  return sizes;
}

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

PlannedStep finished(Best best, const Machine& machine) {
  Candidate& candidate = *best.candidate;
  return {.machine = machine,
          .plan = std::move(candidate.plan),
          .program = std::move(candidate.program),
          .simulation = std::move(candidate.simulation),
          .table = std::move(best.table)};
}

// Of the micro-batch sizes, large to small, the first that is no slower than the best of all and writes no
// more.
std::vector<Best>::iterator largest_of_the_best(const PlanningInputs& inputs, std::vector<Best>& tried) {
  const auto writes = [](const Best& one) { return disk_writes(one.candidate->program); };
  auto best = tried.end();
  for (auto one = tried.begin(); one != tried.end(); ++one) {
    if (!one->candidate) continue;
    if (best == tried.end() ||
        better(inputs, one->candidate->row.step, writes(*one), best->candidate->row.step, writes(*best)))
      best = one;
  }
  return std::find_if(tried.begin(), tried.end(), [&](const Best& one) {
    return one.candidate && one.candidate->row.step <= best->candidate->row.step * (1 + kSameStep) &&
           writes(one) <= writes(*best);
  });
}

// The best plan with inputs.head_slices; none where nothing fits.
std::optional<PlannedStep> plan_with_head(const PlanningInputs& inputs, const std::string& policy,
                                          std::span<const std::int64_t> micro_batches) {
  BatchGeometry batch = inputs.batch;
  // The largest micro-batch whose plan is no slower than the fastest. Smaller ones need less memory and hide
  // transfers better; once two in a row gain nothing, smaller still will not either.
  std::vector<Best> tried;
  std::optional<Seconds> fastest;
  int in_vain = 0;
  std::int64_t planned = 0;
  const bool small = batch.slots * inputs.context.architecture.layers <= kSmallStep;
  for (const std::int64_t size : micro_batches) {
    batch.micro_batch = size;
    tried.push_back(best_of(inputs, batch, policy));
    if (!tried.back().candidate) continue;
    const Seconds step = tried.back().candidate->row.step;
    in_vain = fastest && step >= *fastest * (1 - kSameStep) ? in_vain + 1 : 0;
    fastest = std::min(fastest.value_or(kInfinity), step);
    planned += batch.micro_batches() * inputs.context.architecture.layers;
    if ((in_vain == 2 && !small) || planned > kMostPlannedCalls) break;
  }
  if (policy == "auto") {
    consider_programs(inputs, batch, micro_batches, tried);
    improve(inputs, batch, micro_batches, tried);
  }
  if (std::none_of(tried.begin(), tried.end(), [](const Best& best) { return best.candidate != nullptr; }))
    return std::nullopt;
  const auto chosen = largest_of_the_best(inputs, tried);
  std::vector<Evaluation> others;
  for (auto other = tried.begin(); other != tried.end(); ++other)
    if (other != chosen && other->candidate) {
      others.push_back(other->candidate->row);
      others.back().chosen = false;
    }
  Best best = std::move(*chosen);
  best.table.insert(best.table.end(), others.begin(), others.end());
  return finished(std::move(best), inputs.machine);
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
    // With their room a larger micro-batch may fit, too.
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : micro_batches)
      if (size == found.plan.batch.micro_batch || (small && size > found.plan.batch.micro_batch))
        sizes.push_back(size);
    std::optional<PlannedStep> step = plan_with_head(in_slices, small ? "auto" : "milp", sizes);
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
  std::optional<PlannedStep> step = plan_with_head(inputs, policy, micro_batches);
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
  if (!step && !some_fits()) return step;
  for (in_slices.head_slices = std::min<std::int64_t>(4, most); !step; in_slices.head_slices = most) {
    step = plan_with_head(in_slices, policy, micro_batches);
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
      std::optional<PlannedStep> with_disk =
          plan_with_homes(inputs, policy == "auto" ? "milp" : policy, fine.empty() ? sizes : fine);
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
  Best best;
  best.candidate = std::make_unique<Candidate>(candidates.exactly(plan, "as given"));
  const Evaluation& row = best.candidate->row;
  if (!row.fits)
    fail(ExitCode::does_not_fit,
         "the plan of policy {} does not fit: {}; make a new plan with `lazytrain plan`", plan.policy,
         row.why_not);
  best.table.push_back(row);
  best.table.back().chosen = true;
  return finished(std::move(best), inputs.machine);
}

}  // namespace lazytrain
