// Steps whose work is spread over all streams. Small enough for ThreadSanitizer, which sees every stream as a
// thread: a wait that a Program lacks is a data race.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

constexpr BatchGeometry kBatch{.slots = 3, .slot_tokens = 16, .micro_batch = 1};

SessionOptions stream_options(int threads) {
  return {.type = DataType::bf16,
          .device = {.memory_model = MemoryModel::emulated,
                     .compute_threads = threads,
                     .host_threads = threads,
                     .device_capacity = Bytes{1}},
          .position_rows = kBatch.slot_tokens,
          .max_gradient_norm = 1.0,
          .scratch_folder = ::testing::TempDir()};
}

TEST(Streams, EveryPolicyUsesThemWithoutARace) {
  const Architecture architecture = tiny_architecture(true, 3);
  const SessionOptions options = stream_options(2);
  const std::vector<Tokens> batches{random_tokens(3, 16, architecture.vocab, 1),
                                    random_tokens(3, 16, architecture.vocab, 2)};
  std::vector<PlanCase> cases = policy_cases(planning_inputs(architecture, options, kBatch), 2);
  for (PlanCase& random : random_cases(architecture, kBatch, 900, 6)) cases.push_back(std::move(random));
  std::vector<Plan> plans;
  for (const PlanCase& one : with_and_without_overlap(cases)) plans.push_back(one.plan);
  PlanRunner runner(architecture, options, std::move(plans));
  const RunResult expected = runner.run(0, batches, random_parameters(5));
  for (std::size_t i = 1; i < runner.plans(); ++i)
    EXPECT_TRUE(runner.run(i, batches, random_parameters(5)) == expected) << runner.plan(i).policy;
}

TEST(Streams, EvaluationBetweenSteps) {
  const Architecture architecture = tiny_architecture(false, 2);
  SessionOptions options = stream_options(2);
  options.device.device_capacity = Bytes{std::int64_t{1} << 26};
  Harness harness(architecture, nullptr, options, simple_plan(architecture, kBatch));
  const Tokens tokens = random_tokens(3, 16, architecture.vocab, 1);
  const double before = harness.evaluate(tokens).loss_sum;
  for (std::int64_t step = 1; step <= 3; ++step) harness.step(tokens, {.lr = 1e-2, .step = step});
  EXPECT_LT(harness.evaluate(tokens).loss_sum, before);
}

// A step that is timed without optimizer: same losses and norms every time, and not a bit of the model moves.
TEST(Streams, WithoutUpdatesTheModelStaysAsItCame) {
  const Architecture architecture = tiny_architecture(true, 2);
  const Tokens tokens = random_tokens(3, 16, architecture.vocab, 1);
  const auto result = [&](bool skip, bool overlap, std::int64_t steps) {
    SessionOptions options = stream_options(2);
    options.skip_updates = skip;
    Plan plan = simple_plan(architecture, kBatch);
    plan.optimizer_overlap = overlap;
    PlanRunner runner(architecture, options, {plan});
    return runner.run(0, std::vector<Tokens>(static_cast<std::size_t>(steps), tokens), random_parameters(5));
  };
  const RunResult untouched = result(false, false, 0);
  for (const bool overlap : {false, true}) {
    const RunResult skipped = result(true, overlap, 3);
    EXPECT_EQ(skipped.parameters, untouched.parameters);
    EXPECT_EQ(skipped.losses, std::vector<double>(3, skipped.losses.front()));
    EXPECT_NE(result(false, overlap, 3).parameters, untouched.parameters);
  }
}

#if defined(__SANITIZE_THREAD__)

// The sanitizer sees what it is here to see.
TEST(StreamsDeathTest, MissingWaitsAreARace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run_without_waits = [] {
    const Architecture architecture = tiny_architecture(true, 2);
    SessionOptions options = stream_options(1);
    options.device.device_capacity = Bytes{std::int64_t{1} << 26};
    Session session(architecture, options);
    Program program = lower_train_step(session.context(), simple_plan(architecture, kBatch),
                                       workspace_bytes(architecture, DataType::bf16, 1, kBatch.slot_tokens));
    for (Op& op : program.ops) op.after.clear();
    const Program* programs[] = {&program};
    session.allocate(programs);
    random_parameters(5)(session);
    session.executor().train(program, random_tokens(3, 16, architecture.vocab, 1).view(), {.lr = 1e-3});
  };
  EXPECT_DEATH(run_without_waits(), "data race");
}

#endif

}  // namespace
}  // namespace lazytrain::test
