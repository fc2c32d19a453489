#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "model/vocabulary.h"
#include "plan/json_fields.h"

namespace lazytrain {

void check_plan(const Plan& plan, const Architecture& architecture, const std::string& where) {
  const auto layers = static_cast<std::size_t>(architecture.layers);
  const auto refuse = [&](const std::string& what) {
    fail(ExitCode::usage, "{}: {}; make a new plan with `lazytrain plan`", where, what);
  };
  if (plan.layers.size() != layers || plan.boundaries.size() != layers + 1)
    refuse(fmt::format("the plan is for {} layers, the model has {}", plan.layers.size(), layers));
  const BatchGeometry& batch = plan.batch;
  if (batch.slots < 1 || batch.slot_tokens < 1 || batch.micro_batch < 1 || batch.micro_batch > batch.slots)
    refuse(fmt::format("{} slots of {} tokens in micro-batches of {} make no step", batch.slots,
                       batch.slot_tokens, batch.micro_batch));
  if (!plan.boundaries.front().materialised || !plan.boundaries.back().materialised)
    refuse("the first and the last boundary must be materialised");
  const std::int64_t micro_batches = batch.micro_batches();
  const auto check_shares = [&](const char* what, std::int64_t device, std::int64_t disk) {
    if (device < 0 || device > micro_batches)
      refuse(fmt::format("a {} has {} of {} micro-batches on the device", what, device, micro_batches));
    if (disk < 0 || disk > micro_batches - device)
      refuse(fmt::format("a {} has {} of {} micro-batches on the device and {} on disk", what, device,
                         micro_batches, disk));
  };
  for (const BoundaryPlan& boundary : plan.boundaries)
    check_shares("boundary", boundary.device_micro_batches, boundary.disk_micro_batches);
  for (const LayerPlan& layer : plan.layers)
    check_shares("stash", layer.stash_device_micro_batches, layer.stash_disk_micro_batches);
  if (plan.weight_slots < 1 || plan.weight_slots > 1024)
    refuse(fmt::format("{} weight slots", plan.weight_slots));
  if (plan.gradient_slots < 1 || plan.gradient_slots > 1024)
    refuse(fmt::format("{} gradient slots", plan.gradient_slots));
  if (plan.offload_lag < 0 || plan.offload_lag > (1 << 20))
    refuse(fmt::format("offload_lag {}", plan.offload_lag));
  if (plan.fetch_lead < 0 || plan.fetch_lead > (1 << 20))
    refuse(fmt::format("fetch_lead {}", plan.fetch_lead));
  if (plan.activation_stage_slots < 1 || plan.activation_stage_slots > 1024)
    refuse(fmt::format("{} stage slots of activations", plan.activation_stage_slots));
  if (plan.head_slices < 1 || plan.head_slices > vocabulary_blocks(architecture.vocab))
    refuse(fmt::format("{} slices of the head; its vocabulary of {} has 1 to {}", plan.head_slices,
                       architecture.vocab, vocabulary_blocks(architecture.vocab)));
  if (plan.head_slices > 1 && plan.retain_logits) refuse("a head in slices retains no logits");
  if (!plan.groups.empty() && plan.groups.size() != layers + 2)
    refuse(
        fmt::format("the plan is for {} parameter groups, the model has {}", plan.groups.size(), layers + 2));
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const GroupPlan& home = plan.groups[g];
    if (home.on_device && (g == 0 || g == layers + 1)) refuse("only decoder layers can be resident");
    if (home.on_device && (home.states_on_disk || home.gradient_on_disk || home.weights_on_disk))
      refuse(fmt::format("layer {} is resident and has something on disk", g - 1));
    if (home.weights_on_disk && !home.gradient_on_disk)
      refuse("weights are on disk only beside gradients on disk");
    if (!home.gradient_on_disk) continue;
    if (!home.states_on_disk) refuse("a gradient is on disk only beside states on disk");
    if (g == 0 || g == layers + 1) refuse("only gradients of decoder layers can be on disk");
  }
  for (const Block& block : blocks_of(plan)) {
    if (block.end - block.begin == 1) continue;
    for (std::int32_t l = block.begin; l < block.end; ++l) {
      const LayerPlan& layer = plan.layers[static_cast<std::size_t>(l)];
      if (layer.stash == StashLevel::none) continue;
      if (!is_swept(plan, l)) refuse(fmt::format("layer {} stashes at the end of a recomputed block", l));
      if (layer.stash_device_micro_batches < micro_batches)
        refuse(fmt::format("layer {} stashes inside a recomputed block, and not on the device alone", l));
    }
  }
}

std::vector<GroupPlan> groups_on_disk(std::int64_t level, std::int64_t layers) {
  if (level <= 0) return {};
  const std::int64_t groups = layers + 2;
  std::vector<GroupPlan> homes(static_cast<std::size_t>(groups));
  for (std::int64_t g = 0; g < groups; ++g) {
    GroupPlan& home = homes[static_cast<std::size_t>(g)];
    home.states_on_disk = g >= groups - level;
    const bool layer = g >= 1 && g <= layers;
    home.gradient_on_disk = layer && g > layers - (level - groups);
    home.weights_on_disk = layer && g > layers - (level - groups - layers);
  }
  return homes;
}

std::vector<Block> blocks_of(const Plan& plan) {
  std::vector<Block> blocks;
  std::int32_t begin = 0;
  for (std::int32_t b = 1; b < static_cast<std::int32_t>(plan.boundaries.size()); ++b) {
    if (!plan.boundaries[static_cast<std::size_t>(b)].materialised) continue;
    blocks.push_back({begin, b});
    begin = b;
  }
  return blocks;
}

nlohmann::json to_json(const Plan& plan) {
  nlohmann::json boundaries = nlohmann::json::array(), layers = nlohmann::json::array();
  for (const BoundaryPlan& boundary : plan.boundaries)
    boundaries.push_back({{"materialised", boundary.materialised},
                          {"device_micro_batches", boundary.device_micro_batches},
                          {"disk_micro_batches", boundary.disk_micro_batches}});
  for (const LayerPlan& layer : plan.layers)
    layers.push_back({{"stash", to_string(layer.stash)},
                      {"stash_device_micro_batches", layer.stash_device_micro_batches},
                      {"stash_disk_micro_batches", layer.stash_disk_micro_batches}});
  nlohmann::json groups = nlohmann::json::array();
  for (const GroupPlan& group : plan.groups)
    groups.push_back({{"states_on_disk", group.states_on_disk},
                      {"gradient_on_disk", group.gradient_on_disk},
                      {"weights_on_disk", group.weights_on_disk},
                      {"on_device", group.on_device}});
  return {{"version", Plan::kVersion},
          {"policy", plan.policy},
          {"slots", plan.batch.slots},
          {"slot_tokens", plan.batch.slot_tokens},
          {"micro_batch", plan.batch.micro_batch},
          {"boundaries", boundaries},
          {"layers", layers},
          {"groups", groups},
          {"weight_slots", plan.weight_slots},
          {"fetch_lead", plan.fetch_lead},
          {"offload_lag", plan.offload_lag},
          {"activation_stage_slots", plan.activation_stage_slots},
          {"gradient_slots", plan.gradient_slots},
          {"boundary_gradient_on_host", plan.boundary_gradient_on_host},
          {"head_slices", plan.head_slices},
          {"tail_skip", plan.tail_skip},
          {"sweep_last_layer", plan.sweep_last_layer},
          {"retain_logits", plan.retain_logits},
          {"optimizer_overlap", plan.optimizer_overlap},
          {"simulated_step_s", plan.simulated_step},
          {"cost_fingerprint", plan.cost_fingerprint},
          {"objective", plan.objective},
          {"bound", plan.bound}};
}

Plan plan_from_json(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where, ExitCode::usage);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const std::int64_t version = fields.integer("version", 0, kMost);
  if (version != Plan::kVersion)
    fail(ExitCode::usage, "{}: plan version {} is not {}; make a new plan with `lazytrain plan`", where,
         version, Plan::kVersion);
  Plan plan;
  plan.policy = fields.text("policy");
  plan.batch = {.slots = fields.integer("slots", 1, 1 << 20),
                .slot_tokens = fields.integer("slot_tokens", 1, 1 << 24),
                .micro_batch = fields.integer("micro_batch", 1, 1 << 20)};
  for (const nlohmann::json& entry : fields.array("boundaries")) {
    const JsonFields boundary(entry, where + ": boundaries", ExitCode::usage);
    plan.boundaries.push_back({.materialised = boundary.boolean("materialised"),
                               .device_micro_batches = boundary.integer("device_micro_batches", 0, kMost),
                               .disk_micro_batches = boundary.integer("disk_micro_batches", 0, kMost)});
  }
  for (const nlohmann::json& entry : fields.array("layers")) {
    const JsonFields layer(entry, where + ": layers", ExitCode::usage);
    plan.layers.push_back(
        {.stash = stash_level_from(layer.text("stash")),
         .stash_device_micro_batches = layer.integer("stash_device_micro_batches", 0, kMost),
         .stash_disk_micro_batches = layer.integer("stash_disk_micro_batches", 0, kMost)});
  }
  for (const nlohmann::json& entry : fields.array("groups")) {
    const JsonFields group(entry, where + ": groups", ExitCode::usage);
    plan.groups.push_back({.states_on_disk = group.boolean("states_on_disk"),
                           .gradient_on_disk = group.boolean("gradient_on_disk"),
                           .weights_on_disk = group.boolean("weights_on_disk"),
                           .on_device = group.boolean("on_device")});
  }
  plan.weight_slots = fields.integer("weight_slots", 1, 1024);
  plan.fetch_lead = fields.integer("fetch_lead", 0, 1 << 20);
  plan.offload_lag = fields.integer("offload_lag", 0, 1 << 20);
  plan.activation_stage_slots = fields.integer("activation_stage_slots", 1, 1024);
  plan.gradient_slots = fields.integer("gradient_slots", 1, 1024);
  plan.boundary_gradient_on_host = fields.boolean("boundary_gradient_on_host");
  plan.head_slices = fields.integer("head_slices", 1, kVocabularyBlocks);
  plan.tail_skip = fields.boolean("tail_skip");
  plan.sweep_last_layer = fields.boolean("sweep_last_layer");
  plan.retain_logits = fields.boolean("retain_logits");
  plan.optimizer_overlap = fields.boolean("optimizer_overlap");
  plan.simulated_step = fields.number("simulated_step_s", 0, 1e12);
  plan.cost_fingerprint = fields.text("cost_fingerprint");
  plan.objective = fields.number("objective", -1e18, 1e18);
  plan.bound = fields.number("bound", -1e18, 1e18);
  return plan;
}

Plan read_plan(const std::filesystem::path& path, const Architecture& architecture) {
  Plan plan = plan_from_json(read_json(path, ExitCode::usage), path.string());
  check_plan(plan, architecture, path.string());
  return plan;
}

}  // namespace lazytrain
