// Plan, Machine and CostTable as JSON: round trips, and every refusal in its sentence.
#include "plan/plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/json.h"
#include "plan/plan_support.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 5, .slot_tokens = 16, .micro_batch = 2};

std::string message(const std::function<void()>& action) {
  const auto error = error_of(action);
  if (!error) return "";
  EXPECT_EQ(error->code(), ExitCode::usage);
  return error->what();
}

TEST(BatchGeometry, LastMicroBatchMayBeSmaller) {
  EXPECT_EQ(kBatch.micro_batches(), 3);
  EXPECT_EQ(kBatch.slots_of(0), 2);
  EXPECT_EQ(kBatch.slots_of(2), 1);
  EXPECT_EQ(kBatch.rows_of(2), 16);
  const BatchGeometry whole{.slots = 4, .slot_tokens = 16, .micro_batch = 2};
  EXPECT_EQ(whole.slots_of(1), 2);
}

TEST(Plan, RoundTrip) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    Random random(11, n);
    const Architecture architecture = small_architecture(1 + static_cast<std::int64_t>(n % 6), true);
    Plan plan = random_plan(random, architecture, kBatch);
    plan.simulated_step = 1.25 + static_cast<double>(n) / 3;
    plan.cost_fingerprint = "0123456789abcdef";
    plan.objective = 0.1;
    plan.bound = 0.3;
    const nlohmann::json json = to_json(plan);
    const Plan again = plan_from_json(nlohmann::json::parse(json.dump()), "plan.json");
    EXPECT_EQ(to_json(again), json);
    EXPECT_EQ(again.batch, plan.batch);
    EXPECT_EQ(again.boundaries.size(), plan.boundaries.size());
    EXPECT_EQ(again.simulated_step, plan.simulated_step);
    EXPECT_EQ(again.sweep_last_layer, plan.sweep_last_layer);
    EXPECT_NO_THROW(check_plan(again, architecture, "plan.json"));
  }
}

TEST(Plan, BlocksAreBetweenMaterialisedBoundaries) {
  Plan plan = plain_plan(small_architecture(5, true), kBatch);
  plan.boundaries[1].materialised = plan.boundaries[2].materialised = plan.boundaries[4].materialised = false;
  const std::vector<Block> blocks = blocks_of(plan);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].begin, 0);
  EXPECT_EQ(blocks[0].end, 3);
  EXPECT_EQ(blocks[1].begin, 3);
  EXPECT_EQ(blocks[1].end, 5);
}

TEST(Plan, RefusesWhatNoStepCanBe) {
  const Architecture architecture = small_architecture(3, true);
  const Plan good = plain_plan(architecture, kBatch);
  const auto refusal = [&](const std::function<void(Plan&)>& change) {
    Plan plan = good;
    change(plan);
    return message([&] { check_plan(plan, architecture, "p.json"); });
  };
  const std::string remedy = "; make a new plan with `lazytrain plan`";
  EXPECT_EQ(refusal([](Plan&) {}), "");
  EXPECT_EQ(refusal([](Plan& p) { p.layers.pop_back(); }),
            "p.json: the plan is for 2 layers, the model has 3" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.batch.micro_batch = 6; }),
            "p.json: 5 slots of 16 tokens in micro-batches of 6 make no step" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.batch.micro_batch = 0; }),
            "p.json: 5 slots of 16 tokens in micro-batches of 0 make no step" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.boundaries[3].materialised = false; }),
            "p.json: the first and the last boundary must be materialised" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.boundaries[1].device_micro_batches = 4; }),
            "p.json: a boundary has 4 of 3 micro-batches on the device" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.layers[1].stash_device_micro_batches = -1; }),
            "p.json: a stash has -1 of 3 micro-batches on the device" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.boundaries[1].disk_micro_batches = 1; }),
            "p.json: a boundary has 3 of 3 micro-batches on the device and 1 on disk" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.layers[1].stash_disk_micro_batches = -1; }),
            "p.json: a stash has 0 of 3 micro-batches on the device and -1 on disk" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.layers[1].stash_disk_micro_batches = 3; }), "");
  EXPECT_EQ(refusal([](Plan& p) { p.activation_stage_slots = 0; }),
            "p.json: 0 stage slots of activations" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.weight_slots = 0; }), "p.json: 0 weight slots" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.gradient_slots = 2000; }), "p.json: 2000 gradient slots" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.offload_lag = -1; }), "p.json: offload_lag -1" + remedy);
  EXPECT_EQ(refusal([](Plan& p) { p.fetch_lead = 1 << 21; }), "p.json: fetch_lead 2097152" + remedy);
  EXPECT_EQ(refusal([](Plan& p) {
              p.boundaries[2].materialised = false;
              p.layers[1].stash = StashLevel::mlp;
            }),
            "p.json: layer 1 stashes inside a recomputed block, and not on the device alone" + remedy);
  EXPECT_EQ(refusal([](Plan& p) {
              p.boundaries[2].materialised = false;
              p.layers[1] = {.stash = StashLevel::mlp, .stash_device_micro_batches = 3};
            }),
            "");
  EXPECT_EQ(refusal([](Plan& p) {
              p.boundaries[2].materialised = false;
              p.layers[2] = {.stash = StashLevel::mlp, .stash_device_micro_batches = 3};
            }),
            "p.json: layer 2 stashes at the end of a recomputed block" + remedy);
  const auto refused_home = [&](std::size_t group, const GroupPlan& home) {
    return refusal([&](Plan& p) {
      p.groups.resize(5);
      p.groups[group] = home;
    });
  };
  EXPECT_EQ(refused_home(3, {.on_device = true}), "");
  EXPECT_EQ(refused_home(0, {.on_device = true}), "p.json: only decoder layers can be resident" + remedy);
  EXPECT_EQ(refused_home(4, {.on_device = true}), "p.json: only decoder layers can be resident" + remedy);
  EXPECT_EQ(refused_home(2, {.states_on_disk = true, .on_device = true}),
            "p.json: layer 1 is resident and has something on disk" + remedy);
}

TEST(Plan, RefusesDamagedJson) {
  const nlohmann::json good = to_json(plain_plan(small_architecture(2, true), kBatch));
  const auto refusal = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = good;
    if (value.is_discarded())
      json.erase(key);
    else
      json[key] = value;
    return message([&] { plan_from_json(json, "p.json"); });
  };
  const nlohmann::json missing(nlohmann::json::value_t::discarded);
  EXPECT_EQ(refusal("version", 1), "p.json: plan version 1 is not 4; make a new plan with `lazytrain plan`");
  EXPECT_EQ(refusal("policy", missing), "p.json: key 'policy' is missing; add it or write the file anew");
  EXPECT_EQ(refusal("slots", 0), "p.json: 'slots' is 0; it must lie between 1 and 1048576");
  EXPECT_EQ(refusal("slots", 1.5), "p.json: 'slots' must be a whole number");
  EXPECT_EQ(refusal("slots", std::uint64_t{1} << 63), "p.json: 'slots' must be at most 1048576");
  EXPECT_EQ(refusal("boundaries", 3), "p.json: 'boundaries' must be a list");
  EXPECT_EQ(refusal("boundaries", {3}),
            "p.json: boundaries: a JSON object is expected here; write the file anew");
  EXPECT_EQ(refusal("tail_skip", "yes"), "p.json: 'tail_skip' must be true or false");
  EXPECT_EQ(refusal("simulated_step_s", "soon"), "p.json: 'simulated_step_s' must be a number");
  nlohmann::json json = good;
  json["layers"][0]["stash"] = "most";
  EXPECT_NE(message([&] { plan_from_json(json, "p.json"); }), "");
  EXPECT_EQ(message([&] { plan_from_json(nlohmann::json::array(), "p.json"); }),
            "p.json: a JSON object is expected here; write the file anew");
  // Every key of the file is needed.
  for (const auto& [key, value] : good.items()) EXPECT_NE(refusal(key.c_str(), missing), "") << key;
}

TEST(Plan, ReadsItsFile) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lazytrain-plan-" + std::to_string(::getpid()) + ".json");
  const Architecture architecture = small_architecture(2, true);
  const Plan plan = plain_plan(architecture, kBatch);
  write_file(path, to_json(plan).dump(2));
  EXPECT_EQ(to_json(read_plan(path, architecture)), to_json(plan));
  EXPECT_NE(message([&] { read_plan(path, small_architecture(3, true)); }), "");
  write_file(path, std::string("{\"version\": 1,"));
  EXPECT_NE(message([&] { read_plan(path, architecture); }), "");
  std::filesystem::remove(path);
}

TEST(Machine, RoundTripAndRefusals) {
  Machine machine;
  machine.name = "a machine";
  machine.device_capacity = {std::int64_t{1} << 40};
  machine.host_capacity = {1000};
  machine.emulated = machine.split_cores = true;
  machine.duplex = 1.5;
  machine.optimizer_rate = 2e8;
  machine.compute_threads = 3;
  const nlohmann::json good = to_json(machine);
  EXPECT_EQ(to_json(machine_from_json(good, "m.json")), good);
  const auto refusal = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[key] = value;
    return message([&] { machine_from_json(json, "m.json"); });
  };
  EXPECT_EQ(refusal("tiers", "three"), "m.json: tiers is 'three'; use unified or tiered");
  EXPECT_EQ(refusal("device_capacity", -1),
            "m.json: 'device_capacity' is -1; it must lie between 1 and 1125899906842624");
  EXPECT_EQ(refusal("h2d_gbps", -0.5), "m.json: 'h2d_gbps' is -0.5; it must lie between 0 and 100000");
  EXPECT_NE(refusal("host_threads", 0), "");
  EXPECT_EQ(refusal("tflops", 1e6), "m.json: 'tflops' is 1000000; it must lie between 0 and 100000");
}

TEST(Machine, AFileToPlanFromHasEveryRateThatCosts) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "lazytrain-machine.json";
  Machine machine;
  machine.device_capacity = machine.host_capacity = machine.disk_capacity = {std::int64_t{1} << 40};
  machine.h2d = machine.d2h = machine.disk_read = machine.disk_write = machine.tflops =
      machine.device_memory = 1;
  const auto refusal = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json json = to_json(machine);
    json[key] = value;
    if (value.is_null()) json.erase(key);
    write_json(path, json);
    const std::string sentence = message([&] { read_machine(path); });
    return sentence.empty() ? sentence : sentence.substr(path.string().size());
  };
  EXPECT_EQ(refusal("name", "good"), "");
  EXPECT_EQ(refusal("tflops", 0), ": 'tflops' is 0; a modelled step needs a rate: it must be above 0");
  EXPECT_EQ(refusal("tflops", nullptr), ": key 'tflops' is missing; add it or write the file anew");
  EXPECT_EQ(refusal("device_memory_gbps", -3),
            ": 'device_memory_gbps' is -3; it must lie between 0 and 1000000");
  EXPECT_EQ(refusal("h2d_gbps", 0),
            ": 'h2d_gbps' is 0; a machine with a device of its own needs a rate: it must be above 0");
  EXPECT_EQ(refusal("disk_write_gbps", 0),
            ": 'disk_write_gbps' is 0; a machine with a disk needs a rate: it must be above 0");
  EXPECT_EQ(refusal("device_capacity", 0),
            ": 'device_capacity' is 0; it must lie between 1 and 1125899906842624");
  write_json(path, nlohmann::json::array());
  EXPECT_EQ(message([&] { read_machine(path); }),
            path.string() + ": a JSON object is expected here; write the file anew");
  std::filesystem::remove(path);
  EXPECT_NE(message([&] { read_machine(path); }), "");
}

TEST(CostTable, RoundTripFingerprintAndRefusals) {
  const CostTable costs = modelled_costs(small_architecture(2, true), 64, 10, 5);
  const nlohmann::json good = to_json(costs);
  const CostTable again = cost_table_from_json(nlohmann::json::parse(good.dump()), "c.json");
  EXPECT_EQ(to_json(again), good);
  EXPECT_EQ(fingerprint(again), fingerprint(costs));
  CostTable other = costs;
  other.of(LayerKind::attention).forward *= 1.0000001;
  EXPECT_NE(fingerprint(other), fingerprint(costs));
  nlohmann::json older = good;
  older.erase("update_on_device_per_parameter_s");
  older.erase("update_on_device_eight_bit_per_parameter_s");
  older["update_per_parameter_s"] = 0.25;
  older["update_eight_bit_per_parameter_s"] = 0.125;
  const CostTable from_older = cost_table_from_json(older, "c.json");
  EXPECT_EQ(from_older.update_on_device_per_parameter, 0.25);
  EXPECT_EQ(from_older.update_on_device_eight_bit_per_parameter, 0.125);
  nlohmann::json bad = good;
  bad["recompute_s"] = {1, 2};
  EXPECT_EQ(message([&] { cost_table_from_json(bad, "c.json"); }),
            "c.json: 'recompute_s' must have 4 entries");
  for (const nlohmann::json& value : {nlohmann::json("x"), nlohmann::json(-1), nlohmann::json(1e300)}) {
    bad = good;
    bad["recompute_s"][1] = value;
    EXPECT_NE(message([&] { cost_table_from_json(bad, "c.json"); }), "") << value;
    bad = good;
    bad["forward_s"] = value;
    EXPECT_NE(message([&] { cost_table_from_json(bad, "c.json"); }), "") << value;
  }
}

TEST(CostTable, ModelledCostsByHand) {
  // One token of a layer: 2 hidden (qkv + query) + 4 query context, gate and up 4 hidden ffn, down 2 hidden
  // ffn.
  const Architecture a = small_architecture(2, true);
  const CostTable costs = modelled_costs(a, 8, 1, 1);
  const double attention = 2 * 32 * (64 + 32) + 4 * 32 * 4, up = 4 * 32 * 80, down = 2 * 32 * 80;
  EXPECT_NEAR(costs.of(LayerKind::attention).forward, 8 * (attention + up + down) / 1e9, 1e-15);
  EXPECT_NEAR(costs.of(LayerKind::attention).down_projection, 8 * down / 1e9, 1e-15);
  EXPECT_NEAR(costs.of(LayerKind::attention).recompute[0], 8 * (attention + up) / 1e9, 1e-15);
  EXPECT_NEAR(costs.of(LayerKind::attention).recompute[1], 8 * up / 1e9, 1e-15);
  EXPECT_NEAR(costs.of(LayerKind::attention).recompute[2], 8 * attention / 1e9, 1e-15);
  EXPECT_EQ(costs.of(LayerKind::attention).recompute[3], 0);
  EXPECT_NEAR(costs.head_forward, 8 * 2 * 32 * 48 / 1e9, 1e-15);
}

// The figures are those of the planner's research prototype (its function build, one slot of 1,024 tokens).
TEST(CostTable, AMachineFileGivesThePrototypesCosts) {
  const auto near = [](Seconds value, Seconds expected) { EXPECT_NEAR(value, expected, 1e-12 * expected); };
  Machine h800;
  h800.tflops = 400;
  h800.device_memory = 2700;
  h800.optimizer_rate = 6e9;
  Architecture qwen;  // Qwen3.6-27B
  qwen.layers = 4;
  qwen.hidden = 5120;
  qwen.ffn = 17408;
  qwen.heads = 24;
  qwen.kv_heads = 4;
  qwen.head_dim = 256;
  qwen.attention_gate = true;
  qwen.vocab = 248320;
  qwen.linear = {.key_heads = 16, .value_heads = 48, .key_dim = 128, .value_dim = 128, .taps = 4};
  qwen.kinds = {LayerKind::linear_attention, LayerKind::linear_attention, LayerKind::linear_attention,
                LayerKind::attention};
  const CostTable costs = modelled_costs(qwen, 1024, h800);
  const LayerCosts& linear = costs.of(LayerKind::linear_attention);
  near(linear.forward, 0.0021845612953599997);
  near(linear.backward, 0.0043545264128);
  near(linear.down_projection, 0.0004563402752);
  near(linear.recompute[0], 0.0017282210201599998);
  near(linear.recompute[1], 0.0009881780224);
  near(linear.recompute[2], 0.00059156463616);
  near(linear.recompute[3], 8.8080384e-05);
  const LayerCosts& attention = costs.of(LayerKind::attention);
  near(attention.forward, 0.00209614536704);
  near(attention.backward, 0.0041615884288);
  near(attention.recompute[0], 0.0016398050918400003);
  near(attention.recompute[2], 0.0005031487078400001);
  near(costs.head, 0.019528679424);
  EXPECT_EQ(costs.update_per_parameter, 1 / 6e9);
  EXPECT_EQ(costs.source, "modelled");
  // Its working sets of a forward, and of a backward beside what is stashed.
  const WorkspaceBytes workspace = modelled_layer_workspace(qwen, 1024, 2);
  EXPECT_EQ(workspace.forward.value, 148'897'792);
  EXPECT_EQ(workspace.backward.value, 344'129'536 - 128'122'880);

  Machine rtx3090;
  rtx3090.tflops = 65;
  rtx3090.device_memory = 780;
  Architecture dense;  // Qwen2.5-14B
  dense.layers = 1;
  dense.hidden = 5120;
  dense.ffn = 13824;
  dense.heads = 40;
  dense.kv_heads = 8;
  dense.head_dim = 128;
  dense.vocab = 152064;
  const CostTable slow = modelled_costs(dense, 1024, rtx3090);
  near(slow.of(LayerKind::attention).forward, 0.009382012770461537);
  near(slow.of(LayerKind::attention).backward, 0.018739666313846153);
  near(slow.of(LayerKind::attention).recompute[1], 0.004687618678153846);
  near(slow.head, 0.07359261270646154);
}

TEST(CostTable, AWindowShortensAttentionAlone) {
  Machine machine;
  machine.tflops = machine.device_memory = 1;
  Architecture a = small_architecture(1, true);
  const Seconds full = modelled_costs(a, 64, machine).of(LayerKind::attention).forward;
  a.kinds = {LayerKind::sliding_attention};
  const auto forward = [&] {
    return modelled_costs(a, 64, machine).of(LayerKind::sliding_attention).forward;
  };
  a.window = 64;
  EXPECT_EQ(forward(), full);
  a.window = 16;  // on average 14 keys a row instead of 32: 8 operations each, 64 rows of 32 elements
  EXPECT_NEAR(full - forward(), 8 * 32 * 18 * 64 / 1e12, 1e-15);
}

TEST(CostTable, OtherKindsOfLayersAreKeptBesideTheFirst) {
  const CostTable costs = modelled_costs(hybrid_architecture(4, true), 64, 10, 5);
  const nlohmann::json json = to_json(costs);
  EXPECT_EQ(json["forward_s"], costs.of(LayerKind::attention).forward);
  EXPECT_EQ(json["linear_attention"]["forward_s"], costs.of(LayerKind::linear_attention).forward);
  EXPECT_EQ(to_json(cost_table_from_json(json, "c.json")), json);
  EXPECT_FALSE(to_json(modelled_costs(small_architecture(4, true), 64, 10, 5)).contains("linear_attention"));
  nlohmann::json bad = json;
  bad["linear_attention"].erase("backward_s");
  EXPECT_EQ(message([&] { cost_table_from_json(bad, "c.json"); }),
            "c.json: key 'backward_s' is missing; add it or write the file anew");
}

}  // namespace
}  // namespace lazytrain
