// A plan cannot change a result: losses, norms, weights and moments after five bf16 steps of a tiny model are
// equal to the bit under every policy, home, micro-batch size, thread count and memory model, with overlap on
// and off, with optimizer states and gradients on the host or on disk, and with layers resident on the
// device.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>

#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 4, kSlotTokens = 32, kSteps = 5;

std::vector<Tokens> five_batches(const Architecture& architecture) {
  std::vector<Tokens> batches;
  for (std::uint64_t step = 0; step < kSteps; ++step)
    batches.push_back(random_tokens(kSlots, kSlotTokens, architecture.vocab, 100 + step));
  return batches;
}

// The untied model is trained with 8-bit moments, the tied one with fp32 moments.
// States of many pieces, as those of large models.
MomentOptions moments_of(bool tied) {
  constexpr std::int64_t kPiece = 4096;
  if (tied) return {.piece_elements = kPiece};
  return {
      .format = StateFormat::adamw_8bit, .embeddings = MomentPrecision::eight_bit, .piece_elements = kPiece};
}

SessionOptions options_of(MemoryModel model, int threads, bool tied) {
  return {.type = DataType::bf16,
          .device = {.memory_model = model,
                     .compute_threads = threads,
                     .host_threads = threads,
                     .device_capacity = Bytes{1}},
          .position_rows = kSlotTokens,
          .max_gradient_norm = 1.0,
          .moments = moments_of(tied)};
}

// One run that everything else is compared with: unified, one thread, nothing recomputed.
RunResult reference_run(const Architecture& architecture) {
  const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = kSlots};
  PlanRunner runner(architecture, options_of(MemoryModel::unified, 1, architecture.tied_head),
                    {simple_plan(architecture, batch, StashLevel::all)});
  return runner.run(0, five_batches(architecture), random_parameters(5));
}

// Every combination takes minutes: tools/show/plan-invariance asks for it. The suite takes every home at one
// micro-batch size and every policy at all.
bool thorough() {
  const char* value = std::getenv("LAZYTRAIN_THOROUGH");
  return value != nullptr && *value != '\0';
}

enum class Homes { host, some_states_on_disk, gradients_on_disk, everything_on_disk, resident_and_on_disk };

struct Setting {
  bool tied;
  MemoryModel model;
  int threads;
  Homes homes = Homes::host;
  bool wide = false;  // wide_architecture()
};

std::vector<GroupPlan> homes_of(Homes homes, std::int64_t layers) {
  if (homes == Homes::host) return {};
  std::vector<GroupPlan> result =
      groups_on_disk(homes == Homes::some_states_on_disk ? layers
                     : homes == Homes::gradients_on_disk ? 2 * layers
                                                         : most_disk_level(layers),
                     layers);
  // The first layer, which everything waits for, one that lies between others, and one that lies beside it.
  if (homes == Homes::resident_and_on_disk)
    for (const std::size_t layer : {0, 2, 3}) result[layer + 1] = {.on_device = true};
  return result;
}

std::string setting_name(const Setting& setting) {
  const char* homes = setting.homes == Homes::host                  ? ""
                      : setting.homes == Homes::some_states_on_disk ? "_some_states_on_disk"
                      : setting.homes == Homes::gradients_on_disk   ? "_gradients_on_disk"
                      : setting.homes == Homes::everything_on_disk  ? "_everything_on_disk"
                                                                    : "_resident_and_on_disk";
  return fmt::format("{}_{}_{}_threads{}", setting.tied ? "tied" : "untied", to_string(setting.model),
                     setting.threads, homes);
}

class PlanInvariance : public ::testing::TestWithParam<Setting> {};

TEST_P(PlanInvariance, EveryPlanGivesTheSameBits) {
  const Setting setting = GetParam();
  if (!thorough() && !setting.tied && setting.threads == 1) GTEST_SKIP() << "LAZYTRAIN_THOROUGH is not set";
  const Architecture architecture =
      setting.wide ? wide_architecture(setting.tied) : tiny_architecture(setting.tied);
  const std::vector<Tokens> batches = five_batches(architecture);
  const RunResult expected = reference_run(architecture);
  ASSERT_GT(expected.norms.back(), 0);
  ASSERT_NE(expected.losses.front(), expected.losses.back());
  SessionOptions options = options_of(setting.model, setting.threads, setting.tied);
  options.homes = homes_of(setting.homes, architecture.layers);
  options.scratch_folder = ::testing::TempDir();
  const TierModel tiers = setting.model == MemoryModel::unified ? TierModel::unified : TierModel::tiered;
  std::size_t runs = 0;
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = micro_batch};
    const PlanningInputs inputs = planning_inputs(architecture, options, batch);
    std::vector<PlanCase> cases = policy_cases(inputs);
    // Where groups live does not depend on where boundaries and stashes are.
    const bool few = setting.homes != Homes::host && !thorough();
    if (few && micro_batch != 2) continue;
    if (!few && (thorough() || micro_batch == 2)) cases = in_every_home(cases, tiers);
    for (PlanCase& random :
         random_cases(architecture, batch, 40 * static_cast<std::uint64_t>(micro_batch), few ? 2 : 8))
      cases.push_back(std::move(random));
    cases = with_and_without_overlap(cases);
    std::vector<Plan> plans;
    for (const PlanCase& one : cases) plans.push_back(one.plan);
    PlanRunner runner(architecture, options, std::move(plans));
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const RunResult result = runner.run(i, batches, random_parameters(5));
      EXPECT_TRUE(result == expected) << cases[i].name << ", micro-batch " << micro_batch << "\n  "
                                      << to_string(result) << "\n  expected " << to_string(expected);
    }
    runs += cases.size();
  }
  fmt::print("  {} runs of {} steps, all equal to {}\n", runs, kSteps, to_string(expected));
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, PlanInvariance,
    ::testing::Values(Setting{true, MemoryModel::unified, 1}, Setting{true, MemoryModel::unified, 2},
                      Setting{true, MemoryModel::emulated, 1}, Setting{true, MemoryModel::emulated, 2},
                      Setting{false, MemoryModel::unified, 1}, Setting{false, MemoryModel::unified, 2},
                      Setting{false, MemoryModel::emulated, 1}, Setting{false, MemoryModel::emulated, 2},
                      Setting{true, MemoryModel::emulated, 2, Homes::some_states_on_disk},
                      Setting{true, MemoryModel::unified, 1, Homes::everything_on_disk},
                      Setting{false, MemoryModel::unified, 2, Homes::some_states_on_disk},
                      Setting{false, MemoryModel::emulated, 2, Homes::gradients_on_disk},
                      Setting{false, MemoryModel::emulated, 4, Homes::everything_on_disk},
                      Setting{true, MemoryModel::emulated, 2, Homes::resident_and_on_disk},
                      Setting{false, MemoryModel::emulated, 2, Homes::resident_and_on_disk}),
    [](const auto& test) { return setting_name(test.param); });

INSTANTIATE_TEST_SUITE_P(
    Wide, PlanInvariance,
    ::testing::Values(Setting{true, MemoryModel::unified, 1, Homes::host, true},
                      Setting{false, MemoryModel::emulated, 2, Homes::host, true},
                      Setting{true, MemoryModel::emulated, 4, Homes::everything_on_disk, true},
                      Setting{false, MemoryModel::emulated, 3, Homes::resident_and_on_disk, true}),
    [](const auto& test) { return setting_name(test.param); });
}  // namespace
}  // namespace lazytrain::test
