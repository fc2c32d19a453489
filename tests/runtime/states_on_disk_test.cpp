// What lives on disk is what would live on the host: after steps that are not finite, in evaluations, and
// piece by piece between steps.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/harness.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kLayers = 4, kSlots = 2, kTokens = 32;

SessionOptions options_of(std::int64_t level, bool bf16 = true) {
  SessionOptions options{.type = bf16 ? DataType::bf16 : DataType::f32,
                         .device = {.memory_model = MemoryModel::emulated,
                                    .compute_threads = 2,
                                    .host_threads = 2,
                                    .device_capacity = Bytes{std::int64_t{1} << 30}},
                         .position_rows = kTokens,
                         .max_gradient_norm = 1.0,
                         .moments = {.format = StateFormat::adamw_8bit, .piece_elements = 4096}};
  options.homes = groups_on_disk(level, kLayers);
  options.scratch_folder = ::testing::TempDir();
  return options;
}

Harness harness_of(const SessionOptions& options, bool overlap) {
  const Architecture architecture = tiny_architecture(false, kLayers);
  Plan plan = simple_plan(architecture, {.slots = kSlots, .slot_tokens = kTokens, .micro_batch = 1});
  plan.groups = options.homes;
  plan.optimizer_overlap = overlap;
  return Harness(architecture, nullptr, options, plan);
}

Tokens tokens_of(std::int64_t step) {
  return random_tokens(kSlots, kTokens, tiny_architecture(false).vocab, static_cast<std::uint64_t>(step));
}

// Everything on disk, states alone, and nothing: by what follows each of them must be the same.
class StatesOnDisk : public ::testing::TestWithParam<bool> {};

TEST_P(StatesOnDisk, StepsThatAreNotFiniteLeaveThemAlone) {
  const bool overlap = GetParam();
  std::vector<std::uint64_t> sums;
  for (const std::int64_t level : {std::int64_t{0}, kLayers + 2, most_disk_level(kLayers)}) {
    SessionOptions options = options_of(level);
    // The last writes of an update take 50 ms: they still go on when the norm of the next step is known.
    if (level == kLayers + 2) options.disk_write = 0.001;
    Harness harness = harness_of(options, overlap);
    EXPECT_TRUE(harness.step(tokens_of(1), {.lr = 1e-3, .step = 1}).finite);
    // The weights become so large that the next gradients are none.
    EXPECT_TRUE(harness.step(tokens_of(2), {.lr = 1e30, .step = 2}).finite);
    EXPECT_FALSE(harness.step(tokens_of(3), {.lr = 1e-3, .step = 3}).finite);
    EXPECT_FALSE(harness.step(tokens_of(4), {.lr = 1e-3, .step = 3}).finite);
    harness.drain();
    sums.push_back(harness.weight_checksum());
  }
  EXPECT_EQ(sums[1], sums[0]);
  EXPECT_EQ(sums[2], sums[0]);
}

TEST_P(StatesOnDisk, EvaluationsBetweenStepsSeeThem) {
  const bool overlap = GetParam();
  std::vector<double> losses[3];
  std::vector<std::uint64_t> sums;
  for (const std::int64_t level : {std::int64_t{0}, kLayers + 2, most_disk_level(kLayers)}) {
    Harness harness = harness_of(options_of(level), overlap);
    std::vector<double>& loss = losses[sums.size()];
    for (std::int64_t step = 1; step <= 4; ++step) {
      harness.step(tokens_of(step), {.lr = 1e-2, .step = step});
      harness.drain();
      loss.push_back(harness.evaluate(tokens_of(9)).loss_sum);
    }
    sums.push_back(harness.weight_checksum());
  }
  EXPECT_NE(losses[0].front(), losses[0].back());
  for (const int level : {1, 2}) {
    EXPECT_EQ(losses[level], losses[0]);
    EXPECT_EQ(sums[static_cast<std::size_t>(level)], sums[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Overlap, StatesOnDisk, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "on" : "off"; });

TEST(StateWindow, ValuesAreSetAndReadInAnyOrder) {
  for (const bool bf16 : {true, false}) {
    Harness harness = harness_of(options_of(most_disk_level(kLayers), bf16), false);
    Session& session = harness.session();
    std::map<std::size_t, std::vector<float>> expected;
    for (const std::size_t group : {std::size_t{3}, std::size_t{1}, std::size_t{2}}) {
      std::vector<float>& values = expected[group];
      values = random_group(session.context().groups[group], 100 + group);
      session.set_group(group, values);
    }
    // A part in the middle of one group while another is loaded, across the ends of pieces.
    const std::vector<float> part(9000, 0.625F);
    session.set_values(2, 3000, part);
    std::vector<float> read(static_cast<std::size_t>(session.context().groups[3].elements));
    session.read_masters(3, read);
    EXPECT_EQ(read, expected[3]);
    const ParameterGroup& group = session.context().groups[2];
    for (const ParameterTensor& tensor : group.tensors)
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i)
        if (i >= 3000 && i < 12000) expected[2][static_cast<std::size_t>(i)] = 0.625F;
    session.read_masters(2, read);
    EXPECT_EQ(read, expected[2]);
    session.states().release();
    session.read_masters(1, read);
    EXPECT_EQ(read, expected[1]);
  }
}

}  // namespace
}  // namespace lazytrain::test
