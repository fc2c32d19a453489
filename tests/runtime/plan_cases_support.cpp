#include "runtime/plan_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "planning/policies.h"
#include "program/program_support.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

enum class Home { device, host, split };
constexpr Home kHomes[] = {Home::device, Home::host, Home::split};

const char* name_of(Home home) {
  return home == Home::device ? "on the device" : home == Home::host ? "on the host" : "split";
}

std::int64_t device_share(Home home, std::int64_t micro_batches) {
  return home == Home::device ? micro_batches : home == Home::host ? 0 : (micro_batches + 1) / 2;
}

bool stashes(const Plan& plan) {
  return std::any_of(plan.layers.begin(), plan.layers.end(),
                     [](const LayerPlan& layer) { return layer.stash != StashLevel::none; });
}

}  // namespace

PlanningInputs planning_inputs(const Architecture& architecture, const SessionOptions& options,
                               const BatchGeometry& batch) {
  PlanningInputs inputs;
  inputs.context = lowering_context(architecture, options);
  inputs.machine = roomy_machine(inputs.context.tiers);
  inputs.machine.disk_capacity = {std::int64_t{1} << 40};
  inputs.costs = modelled_costs(architecture, batch.slot_tokens, 50, 10);
  inputs.batch = batch;
  inputs.workspace = [architecture, type = options.type](std::int64_t slots, std::int64_t slot_tokens) {
    return workspace_bytes(architecture, type, slots, slot_tokens);
  };
  const Program roomy = lower_train_step(inputs.context, keep_all_plan(inputs, batch),
                                         inputs.workspace(batch.micro_batch, batch.slot_tokens));
  const Program lean = lower_train_step(
      inputs.context, knob_ladder(offload_all_plan(inputs, batch, StashLevel::none), inputs).back(),
      inputs.workspace(batch.micro_batch, batch.slot_tokens));
  if (inputs.context.tiers == TierModel::tiered)
    inputs.machine.device_capacity = {(roomy.device_bytes + lean.device_bytes).value / 2};
  return inputs;
}

std::vector<PlanCase> policy_cases(const PlanningInputs& inputs, std::int64_t longest_interval) {
  const BatchGeometry& batch = inputs.batch;
  std::vector<PlanCase> cases{{"megatrain", megatrain_plan(inputs, batch)}};
  for (std::int64_t k = 1; k <= longest_interval; ++k)
    cases.push_back({fmt::format("every-k {}", k), every_k_plan(inputs, batch, k)});
  for (std::int64_t k = 2; k <= longest_interval; ++k)
    cases.push_back({fmt::format("every-k {}, kept", k), every_k_plan(inputs, batch, k, StashLevel::all)});
  cases.push_back({"keep-all", keep_all_plan(inputs, batch)});
  for (const StashLevel level : kStashLevels)
    cases.push_back(
        {fmt::format("offload-all {}", lazytrain::to_string(level)), offload_all_plan(inputs, batch, level)});
  if (const std::optional<Plan> paper = paper_plan(inputs, batch)) cases.push_back({"paper", *paper});
  return cases;
}

std::vector<PlanCase> in_every_home(const std::vector<PlanCase>& cases, TierModel tiers) {
  if (tiers == TierModel::unified) return cases;  // one tier, one home
  std::vector<PlanCase> result;
  std::set<std::string> seen;  // plans without the policy's name
  const auto add = [&](const std::string& name, const Plan& plan) {
    Plan nameless = plan;
    nameless.policy.clear();
    if (seen.insert(to_json(nameless).dump()).second) result.push_back({name, plan});
  };
  for (const bool gradient_on_host : {false, true})
    for (const PlanCase& given : cases)
      for (const Home boundaries : kHomes)
        for (const Home stash : kHomes) {
          PlanCase changed = given;
          Plan& plan = changed.plan;
          if (!stashes(plan) && stash != Home::device) continue;
          const std::int64_t all = plan.batch.micro_batches();
          for (BoundaryPlan& boundary : plan.boundaries)
            boundary.device_micro_batches = device_share(boundaries, all);
          for (std::size_t l = 0; l < plan.layers.size(); ++l)
            if (!is_swept(plan, static_cast<std::int64_t>(l)))  // what a sweep keeps has one home
              plan.layers[l].stash_device_micro_batches = device_share(stash, all);
          plan.boundary_gradient_on_host = gradient_on_host;
          changed.name += fmt::format(", boundaries {}", name_of(boundaries));
          if (stashes(plan)) changed.name += fmt::format(", stashes {}", name_of(stash));
          if (gradient_on_host) changed.name += ", boundary gradient on the host";
          add(changed.name, plan);
        }
  return result;
}

std::vector<PlanCase> random_cases(const Architecture& architecture, const BatchGeometry& batch,
                                   std::uint64_t first_seed, std::int64_t count) {
  std::vector<PlanCase> cases;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::uint64_t seed = first_seed + static_cast<std::uint64_t>(n);
    Random random(11, seed);
    cases.push_back({fmt::format("random plan {}", seed), random_plan(random, architecture, batch)});
  }
  return cases;
}

std::vector<PlanCase> with_and_without_overlap(const std::vector<PlanCase>& cases) {
  std::vector<PlanCase> result;
  for (const bool overlap : {false, true})
    for (PlanCase changed : cases) {
      changed.plan.optimizer_overlap = overlap;
      if (overlap) changed.name += ", overlap";
      result.push_back(std::move(changed));
    }
  return result;
}

}  // namespace lazytrain::test
