// A head in slices of the vocabulary gives the bits of one that is computed whole, in training and
// evaluation, from a smaller device.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "model/vocabulary.h"
#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 32, .micro_batch = 2};

SessionOptions emulated(DataType type) {
  return {.type = type,
          .device = {.memory_model = MemoryModel::emulated,
                     .compute_threads = 2,
                     .host_threads = 1,
                     .device_capacity = Bytes{std::int64_t{1} << 30}},
          .position_rows = kBatch.slot_tokens,
          .max_gradient_norm = 0.05};
}

Tokens tokens_of(const Architecture& architecture, std::uint64_t seed) {
  return random_tokens(kBatch.slots, kBatch.slot_tokens, architecture.vocab, seed);
}

// Nothing of the first micro-batch is learned.
Tokens half_supervised(Tokens tokens) {
  std::fill_n(tokens.targets.begin(), tokens.targets.size() / 2, -1);
  return tokens;
}

struct Setting {
  bool tied;
  DataType type;
  std::int64_t vocab;  // 150: rows behind the last block of 16, and elements behind the last row
};

class SlicedHead : public ::testing::TestWithParam<Setting> {};

TEST_P(SlicedHead, TrainsToTheBitsOfTheWholeHead) {
  const auto [tied, type, vocab] = GetParam();
  Architecture architecture = tiny_architecture(tied, 2);
  architecture.vocab = vocab;
  std::vector<Tokens> batches;
  for (const std::uint64_t seed : {1, 2, 3}) batches.push_back(tokens_of(architecture, seed));
  batches.push_back(half_supervised(batches.front()));
  SessionOptions unified = emulated(type);
  unified.device = {.memory_model = MemoryModel::unified};
  const RunResult expected = PlanRunner(architecture, unified, {simple_plan(architecture, kBatch)})
                                 .run(0, batches, random_parameters(5));
  EXPECT_NE(expected.losses[0], expected.losses[1]);

  std::vector<Plan> plans;
  for (std::int64_t slices = 1; slices <= vocabulary_blocks(vocab); ++slices) {
    for (const bool gradient_on_host : {false, true}) {
      plans.push_back(simple_plan(architecture, kBatch));
      plans.back().head_slices = slices;
      plans.back().boundary_gradient_on_host = gradient_on_host;
    }
  }
  PlanRunner runner(architecture, emulated(type), plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const RunResult result = runner.run(i, batches, random_parameters(5));
    EXPECT_TRUE(result == expected) << plans[i].head_slices << " slices\n  " << to_string(result)
                                    << "\n  expected " << to_string(expected);
  }
}

// As where a run plans again: every step has another plan, of head, blocks and what their sweep keeps.
TEST(PlansOfOneRun, MayDifferFromStepToStep) {
  for (const bool overlap : {false, true}) {
    const Architecture architecture = tiny_architecture(true, 3);
    std::vector<Tokens> batches;
    for (const std::uint64_t seed : {1, 2, 3, 4, 5}) batches.push_back(tokens_of(architecture, seed));
    std::vector<Plan> plans(5, simple_plan(architecture, kBatch));
    plans[1].head_slices = 3;
    plans[2].boundaries[1].materialised = false;
    plans[2].layers[0] = {.stash = StashLevel::all, .stash_device_micro_batches = kBatch.micro_batches()};
    plans[3].head_slices = vocabulary_blocks(architecture.vocab);
    plans[3].layers[1].stash = StashLevel::mlp;
    plans[4].boundaries[2].materialised = false;
    for (Plan& plan : plans) plan.optimizer_overlap = overlap;
    PlanRunner runner(architecture, emulated(DataType::bf16), plans);
    const RunResult expected = runner.run(0, batches, random_parameters(5));
    for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2, 3, 4}, {4, 3, 1, 2, 0}})
      EXPECT_TRUE(runner.run(order, batches, random_parameters(5)) == expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, SlicedHead,
    ::testing::Values(Setting{true, DataType::bf16, 160}, Setting{false, DataType::bf16, 160},
                      Setting{true, DataType::f32, 150}, Setting{false, DataType::f32, 150},
                      Setting{false, DataType::bf16, 17}),
    [](const auto& test) {
      return fmt::format("{}_{}_{}", test.param.tied ? "tied" : "untied",
                         test.param.type == DataType::bf16 ? "bf16" : "f32", test.param.vocab);
    });

TEST(SlicedHeadEvaluation, HasTheLossesOfTheWholeHeadFromASmallerDevice) {
  for (const bool tied : {true, false}) {
    Architecture architecture = tiny_architecture(tied, 2);
    architecture.vocab = 4000;
    Harness harness(architecture, nullptr, emulated(DataType::bf16), simple_plan(architecture, kBatch));
    const WorkspaceBytes workspace =
        workspace_bytes(architecture, DataType::bf16, kBatch.micro_batch, kBatch.slot_tokens);
    const Tokens tokens = tokens_of(architecture, 9);
    const auto outcome_of = [&](const Program& program) {
      return harness.session().executor().evaluate(program, tokens.view(), true);
    };
    const LoweringContext& context = harness.session().context();
    const Program whole = lower_evaluate(context, kBatch, 2, workspace);
    const StepOutcome expected = outcome_of(whole);
    for (const std::int64_t slices : {2, 5, 16}) {
      const Program program = lower_evaluate(context, kBatch, 2, workspace, slices);
      if (slices > 2) {
        EXPECT_LT(program.device_bytes, whole.device_bytes);
      }
      const StepOutcome outcome = outcome_of(program);
      EXPECT_EQ(outcome.loss_sum, expected.loss_sum);
      EXPECT_EQ(outcome.token_losses, expected.token_losses);
    }
  }
}

}  // namespace
}  // namespace lazytrain::test
