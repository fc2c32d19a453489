#include "planning/micro_batches.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "planning/candidates.h"
#include "planning/local_search.h"

namespace lazytrain {
namespace {

// Layer calls of all micro-batch sizes together that are tried once a plan fits: the sizes beyond are small,
// and the time to plan them would grow without end.
constexpr std::int64_t kMostPlannedCalls = kMostLayerCalls;

struct Best {
  std::unique_ptr<Candidate> candidate = {};  // none where nothing fits
  std::vector<Evaluation> table = {};
  std::vector<Plan> fitting = {};  // all plans that fit, with their simulated steps
  std::size_t chosen = 0;          // row of the table
  bool too_slow = false;           // a program was left out
};

// Plans that write more than a run may are taken where there is no other: their steps say nothing about it.
void learn(const PlanningInputs& inputs, Seconds& known_step, const Best& best) {
  if (best.candidate && disk_writes(best.candidate->program) <= inputs.most_disk_writes)
    known_step = std::min(known_step, best.candidate->row.step);
}

// What is written to disk wears it: a plan that writes more has to be faster by this part.
constexpr double kWorthWear = 0.02;

}  // namespace

bool better(const PlanningInputs& inputs, Seconds step, Bytes writes, Seconds best, Bytes best_writes) {
  const Bytes most = inputs.most_disk_writes;
  if (writes <= best_writes) return step < best || (best_writes > most && writes <= most);
  return writes <= most && step < best * (1 - (inputs.disk_for_speed ? kSameStep : kWorthWear));
}

PlannedStep planned_step(Candidate candidate, std::vector<Evaluation> table, const Machine& machine) {
  return {.machine = machine,
          .plan = std::move(candidate.plan),
          .program = std::move(candidate.program),
          .simulation = std::move(candidate.simulation),
          .table = std::move(table)};
}

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

namespace {

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
  best.too_slow = candidates.too_slow();
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
  Seconds known_step = inputs.known_step;
  for (const Best& best : tried) learn(inputs, known_step, best);
  for (const std::size_t i : order) {
    batch.micro_batch = sizes[i];
    Candidates candidates(inputs, batch);
    const std::size_t before = tried[i].chosen;
    const bool had_one = tried[i].candidate != nullptr;
    consider(inputs, tried[i], candidates.programs(known_step));
    learn(inputs, known_step, tried[i]);
    tried[i].too_slow = tried[i].too_slow || candidates.too_slow();
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

}  // namespace

SearchedSizes plan_micro_batches(const PlanningInputs& inputs, const std::string& policy,
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
    if (!tried.back().candidate && !tried.back().too_slow) continue;
    const Seconds step = tried.back().candidate ? tried.back().candidate->row.step : inputs.known_step;
    in_vain = !tried.back().candidate || (fastest && step >= *fastest * (1 - kSameStep)) ? in_vain + 1 : 0;
    fastest = std::min(fastest.value_or(kInfinity), step);
    planned += batch.micro_batches() * inputs.context.architecture.layers;
    if ((in_vain == 2 && !small) || planned > kMostPlannedCalls) break;
  }
  if (policy == "auto") {
    consider_programs(inputs, batch, micro_batches, tried);
    improve(inputs, batch, micro_batches, tried);
  }
  const bool too_slow =
      std::any_of(tried.begin(), tried.end(), [](const Best& best) { return best.too_slow; });
  if (std::none_of(tried.begin(), tried.end(), [](const Best& best) { return best.candidate != nullptr; }))
    return {.step = std::nullopt, .too_slow = too_slow};
  const auto chosen = largest_of_the_best(inputs, tried);
  std::vector<Evaluation> others;
  for (auto other = tried.begin(); other != tried.end(); ++other)
    if (other != chosen && other->candidate) {
      others.push_back(other->candidate->row);
      others.back().chosen = false;
    }
  Best best = std::move(*chosen);
  best.table.insert(best.table.end(), others.begin(), others.end());
  return {.step = planned_step(std::move(*best.candidate), std::move(best.table), inputs.machine),
          .too_slow = too_slow};
}

}  // namespace lazytrain
