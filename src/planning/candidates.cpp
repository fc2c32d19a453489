#include "planning/candidates.h"

#include <fmt/core.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "planning/milp_policy.h"
#include "planning/paper.h"
#include "planning/policies.h"
#include "program/builder.h"
#include "program/verifier.h"

namespace lazytrain {
namespace {

// The longest interval at which a sweep is tried that keeps the items of its layers: those of three layers at
// a time; of more they take more memory than boundaries would.
constexpr std::int64_t kMostKept = 4;

// The largest value in [low, high] for which `holds`, which is true up to some value and false beyond; low -
// 1 where it holds for none.
template <typename Holds>
std::int64_t largest(std::int64_t low, std::int64_t high, const Holds& holds) {
  std::int64_t best = low - 1;
  while (low <= high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (holds(middle))
      best = middle, low = middle + 1;
    else
      high = middle - 1;
  }
  return best;
}

// The two plans lower to the same Program.
bool same_decisions(const Plan& a, const Plan& b) {
  const auto same_boundary = [](const BoundaryPlan& x, const BoundaryPlan& y) {
    return x.materialised == y.materialised && x.device_micro_batches == y.device_micro_batches &&
           x.disk_micro_batches == y.disk_micro_batches;
  };
  const auto same_layer = [](const LayerPlan& x, const LayerPlan& y) {
    if (x.stash != y.stash) return false;
    return x.stash == StashLevel::none || (x.stash_device_micro_batches == y.stash_device_micro_batches &&
                                           x.stash_disk_micro_batches == y.stash_disk_micro_batches);
  };
  const auto knobs = [](const Plan& plan) {
    return std::tuple(plan.weight_slots, plan.fetch_lead, plan.offload_lag, plan.gradient_slots,
                      plan.boundary_gradient_on_host, plan.tail_skip, plan.sweep_last_layer,
                      plan.retain_logits, plan.optimizer_overlap, plan.activation_stage_slots,
                      plan.head_slices);
  };
  return knobs(a) == knobs(b) && a.groups == b.groups &&
         std::equal(a.boundaries.begin(), a.boundaries.end(), b.boundaries.begin(), b.boundaries.end(),
                    same_boundary) &&
         std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(), same_layer);
}

bool known(const std::vector<Candidate>& found, const Plan& plan) {
  return std::any_of(found.begin(), found.end(),
                     [&](const Candidate& candidate) { return same_decisions(candidate.plan, plan); });
}

}  // namespace

Candidates::Candidates(const PlanningInputs& inputs, const BatchGeometry& batch)
    : inputs_(inputs), batch_(batch), workspace_(inputs.workspace(batch.micro_batch, batch.slot_tokens)) {}

// The layout is the slow part of a lowering: it is left out where not even the bytes alive fit.
bool Candidates::place(const Plan& plan, Program& program) const {
  program = lower(plan);
  if (!fits(program)) return false;
  lay_out(program);
  return fits(program);
}

bool Candidates::may_fit(const Plan& plan) const {
  return fits(lower(plan));
}

// An estimate; the groups live where the plan says.
Program Candidates::lower(const Plan& plan) const {
  if (plan.groups == inputs_.context.homes)
    return lower_train_step(inputs_.context, plan, workspace_, LoweringDepth::estimate);
  LoweringContext context = inputs_.context;
  context.homes = plan.groups;
  return lower_train_step(context, plan, workspace_, LoweringDepth::estimate);
}

bool Candidates::fits(const Program& program) const {
  return lazytrain::fits(program, inputs_.machine);
}

void Candidates::finish(Candidate& candidate) {
  Evaluation& row = candidate.row;
  row.policy = candidate.plan.policy;
  if (const std::string head = head_words(candidate.program); !row.variant.starts_with(head))
    row.variant = row.variant.empty() ? head : head + ", " + row.variant;
  row.micro_batch = candidate.plan.batch.micro_batch;
  row.optimizer_overlap = candidate.plan.optimizer_overlap;
  row.device = candidate.program.device_bytes;
  row.host = candidate.program.host_bytes;
  row.fits = fits(candidate.program);
  if (!row.fits && candidate.program.disk_bytes > inputs_.machine.disk_capacity) {
    row.why_not = fmt::format("the disk needs {} and has {}", format_bytes(candidate.program.disk_bytes),
                              format_bytes(inputs_.machine.disk_capacity));
    return;
  }
  if (!row.fits && row.device <= inputs_.machine.device_capacity &&
      row.host <= inputs_.machine.host_capacity) {
    row.why_not =
        fmt::format("the host has to pin {} and may pin {}", format_bytes(pinned_bytes(candidate.program)),
                    format_bytes(inputs_.machine.pinned_capacity.value_or(Bytes{0})));
    return;
  }
  if (!row.fits) {
    const bool device = row.device > inputs_.machine.device_capacity;
    row.why_not =
        fmt::format("the {} needs {} and has {}", device ? "device" : "host",
                    format_bytes(device ? row.device : row.host),
                    format_bytes(device ? inputs_.machine.device_capacity : inputs_.machine.host_capacity));
    return;
  }
  add_dependencies(candidate.program);
  verify_or_throw(candidate.program, inputs_.machine);
  candidate.simulation = simulate(candidate.program, {.costs = inputs_.costs,
                                                      .machine = inputs_.machine,
                                                      .supervised_fraction = inputs_.supervised_fraction});
  const Simulation& simulation = candidate.simulation;
  row.step = simulation.step;
  row.compute = simulation.compute;
  row.recompute = simulation.recompute;
  row.exposed = simulation.exposed;
  const auto tokens = static_cast<double>(batch_.slots * batch_.slot_tokens);
  row.tokens_per_second = row.step > 0 ? tokens / row.step : 0;
  candidate.plan.simulated_step = row.step;
}

Candidate Candidates::exactly(const Plan& plan, const std::string& variant) {
  Candidate candidate;
  candidate.row.variant = variant;
  candidate.plan = plan;
  place(plan, candidate.program);
  finish(candidate);
  return candidate;
}

// The first rung of the ladder that fits; where none does, the leanest.
Candidate Candidates::roomiest(const Plan& shape, const std::string& variant) {
  Candidate candidate;
  candidate.row.variant = variant;
  std::vector<Plan> ladder = knob_ladder(shape, inputs_);
  for (std::size_t rung = 0; rung < ladder.size(); ++rung) {
    candidate.plan = ladder[rung];
    if (place(candidate.plan, candidate.program)) break;
    // Where the leanest does not fit either, there is no need to lower those between.
    if (rung == 0 && ladder.size() > 2 && !may_fit(ladder.back())) rung = ladder.size() - 2;
  }
  finish(candidate);
  return candidate;
}

std::vector<Candidate> Candidates::of(const std::string& policy) {
  const bool unified = inputs_.context.tiers == TierModel::unified;
  std::vector<Candidate> found;
  // Published policies know no slices of the head.
  const auto published = [&](const char* name) { return covers(policy, name) && inputs_.head_slices == 1; };
  if (published("megatrain")) found.push_back(roomiest(megatrain_plan(inputs_, batch_), ""));
  if (published("zero3-offload")) found.push_back(roomiest(zero3_offload_plan(inputs_, batch_), ""));
  if (covers(policy, "every-k"))
    for (const std::int64_t k : every_k_intervals(inputs_)) {
      found.push_back(roomiest(every_k_plan(inputs_, batch_, k), fmt::format("K={}", k)));
      if (k == 1 || k > kMostKept || !found.back().row.fits) continue;
      Candidate kept =
          roomiest(every_k_plan(inputs_, batch_, k, StashLevel::all), fmt::format("K={}, kept", k));
      if (kept.row.fits) found.push_back(std::move(kept));
    }
  if (covers(policy, "keep-all")) found.push_back(roomiest(keep_all_plan(inputs_, batch_), ""));
  if (policy == "offload-all" || (policy == "auto" && !unified)) {
    found.push_back(roomiest(offload_all_plan(inputs_, batch_, StashLevel::all), "stash all"));
    found.push_back(roomiest(offload_all_plan(inputs_, batch_, StashLevel::none), "stash none"));
  }
  if (published("paper")) {
    if (const std::optional<Plan> plan = paper_plan(inputs_, batch_)) {
      found.push_back(exactly(*plan, ""));
    } else {
      Candidate none;
      none.row.policy = "paper";
      none.row.micro_batch = batch_.micro_batch;
      none.row.why_not =
          inputs_.context.architecture.layers > kMostPaperLayers
              ? fmt::format("not tried: its program is solved for {} layers at most", kMostPaperLayers)
              : "no placement within the budgets";
      found.push_back(std::move(none));
    }
  }
  if (covers(policy, "greedy")) {
    splits(found);
    partial_stashes(found);
  }
  if (policy == "milp") {
    found = programs(inputs_.known_step);
    if (found.empty() && !too_slow_) found = fall_backs();
    for (Candidate& candidate : found) candidate.row.policy = candidate.plan.policy = policy;
  }
  return found;
}

// Where the program has no plan: shares by micro-batch, and where none fits, a boundary every few layers.
std::vector<Candidate> Candidates::fall_backs() {
  std::vector<Candidate> found;
  splits(found);
  partial_stashes(found);
  const auto fit = [](const Candidate& candidate) { return candidate.row.fits; };
  const char* name = "greedy";
  if (std::none_of(found.begin(), found.end(), fit)) {
    name = "every-k";
    found = of("every-k");
  }
  for (Candidate& candidate : found)
    candidate.row.variant = fmt::format("fell back to {}: {}", name, candidate.row.variant);
  return found;
}

// Solved, rounded and lowered. What the layout needs beyond the capacities is taken off them, and the program
// is solved again.
std::optional<Candidate> Candidates::program(const StepKnobs& knobs, Seconds known_step) {
  constexpr int kMostSolves = 6;
  StepModel model = make_step_model(inputs_, batch_, knobs, program_options(inputs_));
  for (int solves = 0; solves < kMostSolves; ++solves) {
    const std::optional<ProgramPlan> solved = solve_step(inputs_, batch_, model, known_step);
    if (!solved) return std::nullopt;
    too_slow_ = too_slow_ || solved->too_slow;
    if (solved->too_slow) return std::nullopt;
    Candidate candidate = exactly(solved->plan, solved->how);
    if (candidate.row.fits) return candidate;
    // More each time: gaps in the layout are not the program's to count.
    const auto excess = [&](Bytes needs, Bytes has) {
      return (1 << solves) * std::max(0.0, static_cast<double>((needs - has).value));
    };
    const Program& program = candidate.program;
    model.device_capacity -= excess(program.device_bytes, inputs_.machine.device_capacity);
    model.host_capacity -= excess(program.host_bytes, inputs_.machine.host_capacity);
    if (model.pinned_capacity)
      *model.pinned_capacity -= excess(pinned_bytes(program), *inputs_.machine.pinned_capacity);
    model.disk_capacity -= excess(program.disk_bytes, inputs_.machine.disk_capacity);
  }
  return std::nullopt;
}

// The program counts bytes as a fluid; whole objects of small models may do better with other knobs.
void Candidates::try_knobs(Candidate& best) {
  const Candidate solved = best;
  for (const Plan& plan : knob_ladder(solved.plan, inputs_)) {
    if (same_decisions(plan, solved.plan)) continue;
    Candidate tried = exactly(plan, solved.row.variant);
    if (tried.row.fits && tried.row.step < best.row.step) best = std::move(tried);
  }
}

std::vector<Candidate> Candidates::programs(Seconds known_step) {
  // Knobs that are solved for: all of tiny models, whose whole objects leave no share to round; two of
  // others.
  constexpr std::int64_t kFewLayers = 16, kTiny = 8, kSolvedKnobs = 2;
  const std::int64_t layers = inputs_.context.architecture.layers;
  std::vector<Candidate> found;
  if (layers > kMostProgramLayers) return found;
  std::vector<StepKnobs> all = program_knobs(batch_.micro_batches());
  if (inputs_.context.tiers == TierModel::unified) all.resize(1);  // nothing moves
  // The second, with one layer's lead, is nearly always good; what is roomier or leaner is tried beside it.
  if (all.size() > 1) std::swap(all[0], all[1]);
  std::int64_t solved = 0;
  const bool few = layers <= kFewLayers;  // fast to solve, and far from the fluid of the program
  if (few) known_step = kInfinity;
  for (const StepKnobs& knobs : all) {
    std::optional<Candidate> candidate = program(knobs, known_step);
    if (candidate && known(found, candidate->plan)) continue;
    if (!candidate && !too_slow_) continue;  // leaner knobs may have a plan
    if (candidate) {
      if (few)
        try_knobs(*candidate);
      else if (disk_writes(candidate->program) <= inputs_.most_disk_writes)
        known_step = std::min(known_step, candidate->row.step);
      found.push_back(std::move(*candidate));
    }
    if (++solved == kSolvedKnobs && layers * batch_.micro_batches() > kTiny) break;
  }
  return found;
}

// The least share of boundaries and stashes that has to live on disk; 0 where nothing has to, or no share
// helps, or there is no disk.
template <typename PlanOf>
std::int64_t Candidates::least_disk_share(std::int64_t most, const PlanOf& plan_of) const {
  Program program;
  if (inputs_.machine.disk_capacity.value == 0 || place(plan_of(0), program)) return 0;
  const std::int64_t enough =
      largest(1, most, [&](std::int64_t tried) { return !may_fit(plan_of(tried)); }) + 1;
  // The layout may need a little more than the bytes alive.
  for (std::int64_t share = enough, step = 1; share <= most && may_fit(plan_of(share));
       share += step, step *= 2)
    if (place(plan_of(share), program)) return share;
  return 0;
}

// Every layer stashes the same level; boundaries and stashes are shared between the tiers by micro-batch, as
// much on the device as fits, once boundaries first and once stashes first. What then the host has no room
// for goes to disk.
void Candidates::splits(std::vector<Candidate>& found) {
  const std::int64_t layers = inputs_.context.architecture.layers;
  const std::int64_t micro_batches = batch_.micro_batches();
  const bool unified = inputs_.context.tiers == TierModel::unified;
  for (const StashLevel level : kStashLevels) {
    for (const bool boundaries_first : {true, false}) {
      if (!boundaries_first && (level == StashLevel::none || unified)) continue;
      const std::int64_t most = level == StashLevel::none ? micro_batches : 2 * micro_batches;
      const auto split_of = [&](std::int64_t share) {
        const std::int64_t first = std::min(share, micro_batches), second = share - first;
        return Split{.level = level,
                     .boundary_share = boundaries_first ? first : second,
                     .stash_share = boundaries_first ? second : first,
                     .stashing_layers = layers};
      };
      const auto plan_of = [&](std::int64_t share) { return split_plan(inputs_, batch_, split_of(share)); };
      const auto variant_of = [&](std::int64_t share) {
        const Split split = split_of(share);
        if (unified) return fmt::format("stash {}", to_string(level));
        std::string text =
            fmt::format("stash {}, device: b {}/{}", to_string(level), split.boundary_share, micro_batches);
        if (level != StashLevel::none) text += fmt::format(", stash {}/{}", split.stash_share, micro_batches);
        return text;
      };
      const auto on_disk = [&](const Plan& plan) -> std::string {
        const std::int64_t boundaries = plan.boundaries.front().disk_micro_batches;
        const std::int64_t stashes = plan.layers.front().stash_disk_micro_batches;
        if (boundaries + stashes == 0) return "";
        if (level == StashLevel::none) return fmt::format(", disk: b {}/{}", boundaries, micro_batches);
        return fmt::format(", disk: b {}, stash {}", boundaries, stashes);
      };
      if (unified) {
        const auto spilled = [&](std::int64_t disk_share) {
          return split_plan(inputs_, batch_,
                            {.level = level, .stashing_layers = layers, .disk_share = disk_share});
        };
        const std::int64_t disk = least_disk_share(
            most, [&](std::int64_t share) { return knob_ladder(spilled(share), inputs_).back(); });
        const Plan plan = disk > 0 ? spilled(disk) : plan_of(most);
        if (!known(found, plan)) found.push_back(roomiest(plan, variant_of(most) + on_disk(plan)));
        continue;
      }
      const std::vector<Plan> ladder = knob_ladder(plan_of(0), inputs_);
      const auto device_fits = [&](const Plan& plan) {
        const Program program = lower_train_step(inputs_.context, plan, workspace_, LoweringDepth::estimate);
        return program.device_bytes <= inputs_.machine.device_capacity;
      };
      if (!device_fits(ladder.back())) continue;  // nor does any other knob or share
      for (const Plan& rung : ladder) {
        if (!device_fits(rung)) continue;
        const auto with_share = [&](std::int64_t share) {
          Plan plan = rung;
          const Plan shape = plan_of(share);
          plan.boundaries = shape.boundaries;
          plan.layers = shape.layers;
          return plan;
        };
        std::int64_t share = std::max<std::int64_t>(
            0, largest(1, most, [&](std::int64_t tried) { return device_fits(with_share(tried)); }));
        // The layout may need a little more than the bytes alive: one less, and then ever larger strides.
        Program program;
        for (std::int64_t tries = 0;
             share > 0 && may_fit(with_share(share)) && !place(with_share(share), program); ++tries)
          share =
              std::max<std::int64_t>(0, share - (std::int64_t{1} << std::max<std::int64_t>(0, tries - 7)));
        const auto spilled = [&](std::int64_t disk_share) {
          Split split = split_of(share);
          split.disk_share = disk_share;
          Plan plan = rung;
          const Plan shape = split_plan(inputs_, batch_, split);
          plan.boundaries = shape.boundaries;
          plan.layers = shape.layers;
          return plan;
        };
        const std::int64_t disk = least_disk_share(most - share, spilled);
        if (!known(found, spilled(disk)))
          found.push_back(exactly(spilled(disk), variant_of(share) + on_disk(spilled(disk))));
        break;
      }
    }
  }
}

// A full stash in the last n layers only, on one tier, n as large as fits: what neither tier has room for in
// every layer.
void Candidates::partial_stashes(std::vector<Candidate>& found) {
  const std::int64_t layers = inputs_.context.architecture.layers;
  const std::int64_t micro_batches = batch_.micro_batches();
  const bool unified = inputs_.context.tiers == TierModel::unified;
  for (const bool on_device : {true, false}) {
    if (unified && !on_device) continue;
    for (const bool boundaries_on_device : {true, false}) {
      if (unified && !boundaries_on_device) continue;
      const auto plan_of = [&](std::int64_t n) {
        return split_plan(inputs_, batch_,
                          {.level = StashLevel::all,
                           .boundary_share = boundaries_on_device ? micro_batches : 0,
                           .stash_share = on_device ? micro_batches : 0,
                           .stashing_layers = n});
      };
      const std::int64_t n = largest(1, layers - 1, [&](std::int64_t tried) {
        return may_fit(knob_ladder(plan_of(tried), inputs_).back());
      });
      if (n < 1) continue;
      std::string text = fmt::format("stash all in last {} layers", n);
      if (!unified)
        text += fmt::format(", {}; b {}", on_device ? "device" : "host",
                            boundaries_on_device ? "device" : "host");
      found.push_back(roomiest(plan_of(n), text));
    }
  }
}

std::string head_words(const Program& program) {
  return program.head_slices > 1 ? fmt::format("head in {} slices", program.head_slices) : "";
}

}  // namespace lazytrain
