// No step allocates a large piece of memory: all of it was laid out before the first.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

#include "runtime/allocation_watch.h"
#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"

namespace lazytrain::test {
namespace {

constexpr std::size_t kLarge = 64 * 1024;

TEST(AllocationWatch, SeesEveryWayToAllocate) {
  if (!kCanWatchAllocations) GTEST_SKIP() << "the sanitizer's allocator stays in place";
  const auto largest = [](auto allocate) {
    AllocationWatch watch(kLarge);
    allocate();
    return watch.stop();
  };
  EXPECT_EQ(largest([] { std::vector<char> bytes(100'000); }).largest, 100'000U);
  void* volatile kept = nullptr;  // or the compiler leaves the pair out
  EXPECT_EQ(largest([&] { kept = std::aligned_alloc(64, 128'000); }).large, 1U);
  std::free(kept);
  EXPECT_EQ(largest([] { std::vector<char> bytes(1000); }).large, 0U);
  EXPECT_GE(largest([] { make_cpu_device({})->allocate(Tier::device, Bytes{1 << 20}); }).largest, 1U << 20);
}

class StepAllocations : public ::testing::TestWithParam<MemoryModel> {};

// Steps that differ in what they hold: documents, supervised rows.
TEST_P(StepAllocations, AreSmall) {
  if (!kCanWatchAllocations) GTEST_SKIP() << "the sanitizer's allocator stays in place";
  // oneDNN's fp32 kernels of these processors allocate their packing buffers themselves.
  if (cpu_instruction_set().find("AVX-512") == std::string::npos)
    GTEST_SKIP() << "oneDNN allocates in every product on " << cpu_instruction_set();
  const Architecture architecture = wide_architecture(true, 4);
  const BatchGeometry batch{.slots = 4, .slot_tokens = 128, .micro_batch = 2};
  const SessionOptions options{.type = DataType::bf16,
                               .device = {.memory_model = GetParam(),
                                          .compute_threads = 2,
                                          .host_threads = 2,
                                          .device_capacity = Bytes{1}},
                               .position_rows = batch.slot_tokens,
                               .max_gradient_norm = 1.0};
  const PlanningInputs inputs = planning_inputs(architecture, options, batch);
  for (PlanCase& one : policy_cases(inputs)) {
    one.plan.optimizer_overlap = true;
    PlanRunner runner(architecture, options, {one.plan});
    random_parameters(5)(runner.session());
    AllocationCount worst;
    for (std::uint64_t step = 1; step <= 6; ++step) {
      const Tokens tokens = random_tokens(batch.slots, batch.slot_tokens, architecture.vocab, 700 + step);
      AllocationWatch watch(kLarge);
      runner.session().executor().train(runner.program(0), tokens.view(),
                                        {.lr = 1e-3, .step = static_cast<std::int64_t>(step)});
      const AllocationCount count = watch.stop();
      if (step > 1 && count.largest >= worst.largest) worst = count;
    }
    EXPECT_EQ(worst.large, 0U) << one.name << ": " << worst.largest << " bytes from" << worst.first_large;
    fmt::print("  {}: largest {} bytes, {} in all ({} bytes)\n", one.name, worst.largest, worst.all,
               worst.bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, StepAllocations,
                         ::testing::Values(MemoryModel::unified, MemoryModel::emulated),
                         [](const auto& test) { return std::string(to_string(test.param)); });

}  // namespace
}  // namespace lazytrain::test
