// Exact clipping: the norm that is summed while gradients leave the device is the norm of the gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/harness.h"

namespace lazytrain::test {
namespace {

struct Setting {
  DataType type;
  MemoryModel model;
  bool tied;
};

class GradientNorm : public ::testing::TestWithParam<Setting> {};

TEST_P(GradientNorm, EqualsASecondPassInFp64) {
  const auto [type, model, tied] = GetParam();
  const Architecture architecture = tiny_architecture(tied);
  const SessionOptions options{.type = type,
                               .device = {.memory_model = model,
                                          .compute_threads = 2,
                                          .host_threads = 2,
                                          .device_capacity = Bytes{std::int64_t{1} << 30}},
                               .position_rows = 32,
                               .max_gradient_norm = 0.5};
  Harness harness(
      architecture, nullptr, options,
      simple_plan(architecture, {.slots = 4, .slot_tokens = 32, .micro_batch = 2}, StashLevel::mlp));
  for (std::int64_t step = 1; step <= 3; ++step) {
    const Tokens tokens = random_tokens(4, 32, architecture.vocab, static_cast<std::uint64_t>(step));
    const StepOutcome outcome = harness.step(tokens, {.lr = 1e-3, .step = step});
    double squares = 0;
    for (const auto& [name, values] : harness.gradients())
      for (const float value : values) squares += static_cast<double>(value) * value;
    ASSERT_GT(squares, 0);
    EXPECT_NEAR(outcome.gradient_norm / std::sqrt(squares), 1, 1e-6) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GradientNorm,
                         ::testing::Values(Setting{DataType::bf16, MemoryModel::unified, true},
                                           Setting{DataType::bf16, MemoryModel::emulated, true},
                                           Setting{DataType::bf16, MemoryModel::emulated, false},
                                           Setting{DataType::f32, MemoryModel::unified, false}));

}  // namespace
}  // namespace lazytrain::test
