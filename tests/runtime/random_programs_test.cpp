// Programs from random plans, run: random models, batches, homes of every object, numbers of threads. Each
// trains two steps to the bits of the plainest plan of the same model, and never waits for ever.
//
// LAZYTRAIN_RANDOM_RUNS: how many (make show WHAT=random-programs runs thousands).
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/random.h"
#include "plan/plan_support.h"
#include "runtime/plan_runner.h"

namespace lazytrain::test {
namespace {

std::uint64_t runs() {
  const char* text = std::getenv("LAZYTRAIN_RANDOM_RUNS");
  return text == nullptr ? 40 : std::strtoull(text, nullptr, 10);
}

struct Case {
  Architecture architecture;
  SessionOptions options;
  BatchGeometry batch;
};

// What all plans of one Session share.
Case case_of(Random& random) {
  const auto below = [&](std::uint64_t count) { return static_cast<std::int64_t>(random.below(count)); };
  const std::int64_t layers = 1 + below(5), slots = 1 + below(4), slot_tokens = 8 + 8 * below(3);
  const bool unified = below(4) == 0;
  Case result{.architecture = tiny_architecture(below(2) == 0, layers),
              .options = {.type = below(3) == 0 ? DataType::f32 : DataType::bf16,
                          .device = {.memory_model = unified ? MemoryModel::unified : MemoryModel::emulated,
                                     .compute_threads = 1 + static_cast<int>(below(3)),
                                     .host_threads = 1 + static_cast<int>(below(2)),
                                     .device_capacity = Bytes{1}},
                          .position_rows = slot_tokens,
                          .max_gradient_norm = below(2) == 0 ? 0.0 : 0.5,
                          .moments = {.piece_elements = 4096}},
              .batch = {.slots = slots,
                        .slot_tokens = slot_tokens,
                        .micro_batch = 1 + below(static_cast<std::uint64_t>(slots))}};
  result.options.scratch_folder = ::testing::TempDir();
  if (below(3) == 0) {
    result.options.homes =
        groups_on_disk(below(static_cast<std::uint64_t>(most_disk_level(layers)) + 1), layers);
  } else if (!unified) {
    result.options.homes.resize(static_cast<std::size_t>(layers) + 2);
    for (std::int64_t l = 1; l <= layers; ++l)
      result.options.homes[static_cast<std::size_t>(l)].on_device = below(2) == 0;
  }
  return result;
}

TEST(RandomPrograms, TrainToTheBitsOfThePlainestPlan) {
  constexpr std::uint64_t kPlans = 8;  // of one model
  std::uint64_t programs = 0, ops = 0, to_disk = 0, resident = 0;
  for (std::uint64_t n = 0; programs < runs(); ++n) {
    Random random(23, n);
    Case test = case_of(random);
    std::vector<Plan> plans;
    for (std::uint64_t k = 0; k < kPlans; ++k) {
      BatchGeometry batch = test.batch;
      batch.micro_batch =
          1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(batch.slots)));
      plans.push_back(random_plan(random, test.architecture, batch));
    }
    const std::vector<Tokens> batches{
        random_tokens(test.batch.slots, test.batch.slot_tokens, test.architecture.vocab, 2 * n),
        random_tokens(test.batch.slots, test.batch.slot_tokens, test.architecture.vocab, 2 * n + 1)};
    SessionOptions plain = test.options;
    plain.homes = {};
    PlanRunner reference(test.architecture, plain, {simple_plan(test.architecture, test.batch)});
    const RunResult expected = reference.run(0, batches, random_parameters(n));
    PlanRunner runner(test.architecture, test.options, plans);
    for (std::size_t k = 0; k < plans.size(); ++k) {
      const RunResult result = runner.run(k, batches, random_parameters(n));
      ASSERT_TRUE(result == expected) << "model " << n << ", plan " << k << "\n  " << to_string(result)
                                      << "\n  expected " << to_string(expected) << "\n"
                                      << listing(runner.program(k));
      ++programs;
      ops += runner.program(k).ops.size();
      to_disk += disk_writes(runner.program(k)).value > 0 ? 1 : 0;
    }
    for (const GroupPlan& home : test.options.homes) resident += home.on_device ? 1 : 0;
  }
  std::printf(
      "  %llu Programs run, of %llu operations on average; %llu write to disk, %llu resident layers\n",
      static_cast<unsigned long long>(programs), static_cast<unsigned long long>(ops / programs),
      static_cast<unsigned long long>(to_disk), static_cast<unsigned long long>(resident));
  EXPECT_GT(to_disk, 0U);
  EXPECT_GT(resident, 0U);
}

}  // namespace
}  // namespace lazytrain::test
