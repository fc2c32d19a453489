// Layers that are resident on the device give the bits of layers that are streamed: in training, evaluation
// and generation, after steps that are not finite, and through checkpoints of one kind that the other reads.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "program/verifier.h"
#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kLayers = 4, kSlots = 4, kTokens = 32;
constexpr double kClip = 0.05;
constexpr BatchGeometry kBatch{.slots = kSlots, .slot_tokens = kTokens, .micro_batch = 2};

enum class Homes { host, some_resident, all_resident, some_resident_others_on_disk };

std::vector<GroupPlan> homes_of(Homes homes) {
  if (homes == Homes::host) return {};
  std::vector<GroupPlan> result(kLayers + 2);
  if (homes == Homes::some_resident_others_on_disk)
    result = groups_on_disk(most_disk_level(kLayers), kLayers);
  for (const std::size_t group : {std::size_t{1}, std::size_t{3}, std::size_t{2}, std::size_t{4}})
    if (group % 2 == 1 || homes == Homes::all_resident) result[group] = {.on_device = true};
  return result;
}

const char* name_of(Homes homes) {
  switch (homes) {
    case Homes::host:
      return "host";
    case Homes::some_resident:
      return "some_resident";
    case Homes::all_resident:
      return "all_resident";
    case Homes::some_resident_others_on_disk:
      return "some_resident_others_on_disk";
  }
  return "?";
}

SessionOptions options_of(Homes homes, DataType type = DataType::bf16,
                          StateFormat format = StateFormat::adamw_8bit) {
  SessionOptions options{.type = type,
                         .device = {.memory_model = MemoryModel::emulated,
                                    .compute_threads = 2,
                                    .host_threads = 1,
                                    .device_capacity = Bytes{std::int64_t{1} << 30}},
                         .position_rows = kTokens,
                         .max_gradient_norm = kClip,
                         .moments = {.format = format, .piece_elements = 4096}};
  options.homes = homes_of(homes);
  options.scratch_folder = ::testing::TempDir();
  return options;
}

Tokens tokens_of(std::int64_t step) {
  return random_tokens(kSlots, kTokens, tiny_architecture(false).vocab, static_cast<std::uint64_t>(step));
}

Harness harness_of(const SessionOptions& options, bool overlap) {
  const Architecture architecture = tiny_architecture(false, kLayers);
  Plan plan = simple_plan(architecture, kBatch);
  plan.groups = options.homes;
  plan.optimizer_overlap = overlap;
  return Harness(architecture, nullptr, options, plan);
}

struct Setting {
  Homes homes;
  DataType type;
  StateFormat format;
};

class ResidentBits : public ::testing::TestWithParam<Setting> {};

// Losses, norms, weights, masters and moments after four steps, all of them clipped.
TEST_P(ResidentBits, AreThoseOfStreamedLayers) {
  const auto [homes, type, format] = GetParam();
  const Architecture architecture = tiny_architecture(homes == Homes::all_resident, kLayers);
  std::vector<Tokens> batches;
  for (std::int64_t step = 1; step <= 4; ++step) batches.push_back(tokens_of(step));
  SessionOptions unified = options_of(Homes::host, type, format);
  unified.device = {.memory_model = MemoryModel::unified};
  const RunResult expected = PlanRunner(architecture, unified, {simple_plan(architecture, kBatch)})
                                 .run(0, batches, random_parameters(5));
  for (const double norm : expected.norms) EXPECT_GT(norm, 2 * kClip);

  std::vector<PlanCase> cases{{"simple plan", simple_plan(architecture, kBatch)}};
  for (PlanCase& random : random_cases(architecture, kBatch, 900, 4)) cases.push_back(std::move(random));
  cases = with_and_without_overlap(cases);
  std::vector<Plan> plans;
  for (const PlanCase& one : cases) plans.push_back(one.plan);
  PlanRunner runner(architecture, options_of(homes, type, format), std::move(plans));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const RunResult result = runner.run(i, batches, random_parameters(5));
    EXPECT_TRUE(result == expected) << cases[i].name << "\n  " << to_string(result) << "\n  expected "
                                    << to_string(expected);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, ResidentBits,
    ::testing::Values(Setting{Homes::some_resident, DataType::bf16, StateFormat::adamw_8bit},
                      Setting{Homes::some_resident, DataType::f32, StateFormat::adamw_8bit},
                      Setting{Homes::some_resident, DataType::bf16, StateFormat::adamw_32bit},
                      Setting{Homes::all_resident, DataType::bf16, StateFormat::adamw_8bit},
                      Setting{Homes::all_resident, DataType::f32, StateFormat::adamw_32bit},
                      Setting{Homes::some_resident_others_on_disk, DataType::bf16, StateFormat::adamw_8bit},
                      Setting{Homes::some_resident_others_on_disk, DataType::f32, StateFormat::adamw_32bit}),
    [](const auto& test) {
      return fmt::format("{}_{}_{}", name_of(test.param.homes),
                         test.param.type == DataType::bf16 ? "bf16" : "f32", to_string(test.param.format));
    });

class ResidentSession : public ::testing::TestWithParam<bool> {};

TEST_P(ResidentSession, StepsThatAreNotFiniteLeaveItAlone) {
  std::vector<std::uint64_t> sums;
  for (const Homes homes : {Homes::host, Homes::some_resident, Homes::some_resident_others_on_disk}) {
    Harness harness = harness_of(options_of(homes), GetParam());
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

TEST_P(ResidentSession, EvaluationsAndGradientsAreThoseOfStreamedLayers) {
  std::vector<std::vector<double>> losses;
  std::vector<std::map<std::string, std::vector<float>>> gradients;
  for (const Homes homes : {Homes::host, Homes::some_resident, Homes::all_resident}) {
    Harness harness = harness_of(options_of(homes), GetParam());
    std::vector<double>& loss = losses.emplace_back();
    for (std::int64_t step = 1; step <= 3; ++step) {
      harness.step(tokens_of(step), {.lr = 1e-2, .step = step});
      harness.drain();
      loss.push_back(harness.evaluate(tokens_of(9)).loss_sum);
    }
    gradients.push_back(harness.gradients());
  }
  EXPECT_NE(losses[0].front(), losses[0].back());
  for (const std::size_t resident : {1, 2}) {
    EXPECT_EQ(losses[resident], losses[0]);
    EXPECT_EQ(gradients[resident], gradients[0]);
  }
}

// What a checkpoint has of every group: weights, and the pieces of its state.
using Saved = std::vector<std::vector<std::byte>>;

Saved save(Session& session) {
  Saved saved;
  for (std::size_t g = 0; g < session.context().groups.size(); ++g) {
    const auto keep = [&](std::span<const std::byte> bytes) {
      saved.emplace_back(bytes.begin(), bytes.end());
    };
    keep(session.weights(g, false));
    for (std::size_t p = 0; p < session.states().pieces(g); ++p) keep(session.states().piece(g, p, false));
  }
  return saved;
}

void restore(Session& session, const Saved& saved) {
  auto next = saved.begin();
  for (std::size_t g = 0; g < session.context().groups.size(); ++g) {
    std::ranges::copy(*next++, session.weights(g, true).begin());
    for (std::size_t p = 0; p < session.states().pieces(g); ++p)
      std::ranges::copy(*next++, session.states().piece(g, p, true).begin());
  }
}

TEST_P(ResidentSession, ItsCheckpointsAreThoseOfEveryOtherPlan) {
  const bool overlap = GetParam();
  const auto two_steps = [](Harness& harness, std::int64_t first) {
    for (std::int64_t step = first; step < first + 2; ++step)
      harness.step(tokens_of(step), {.lr = 1e-2, .step = step});
    harness.drain();
  };
  Harness whole = harness_of(options_of(Homes::host), overlap);
  two_steps(whole, 1);
  const Saved half_way = save(whole.session());
  two_steps(whole, 3);
  const Saved end = save(whole.session());
  EXPECT_NE(half_way, end);
  constexpr Homes kHomes[] = {Homes::host, Homes::some_resident, Homes::all_resident,
                              Homes::some_resident_others_on_disk};
  for (const Homes homes : kHomes) {
    Harness first = harness_of(options_of(homes), overlap);
    two_steps(first, 1);
    EXPECT_TRUE(save(first.session()) == half_way) << name_of(homes);
    Harness second = harness_of(options_of(homes), !overlap);
    restore(second.session(), half_way);
    two_steps(second, 3);
    EXPECT_TRUE(save(second.session()) == end) << name_of(homes);
  }
}

INSTANTIATE_TEST_SUITE_P(Overlap, ResidentSession, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "on" : "off"; });

// The tokens that a model generates after a step of training, in one session.
std::vector<std::int32_t> generated(Homes homes) {
  const Architecture architecture = tiny_architecture(true, kLayers);
  const SessionOptions options = options_of(homes);
  Session session(architecture, options);
  Plan plan = simple_plan(architecture, kBatch);
  plan.groups = options.homes;
  const GenerationGeometry geometry{
      .sequences = 2, .capacity = kTokens, .prefill = {.slots = 1, .slot_tokens = 16, .micro_batch = 1}};
  const Program train =
      lower_train_step(session.context(), plan, workspace_bytes(architecture, options.type, 2, kTokens));
  const GenerationPrograms programs =
      lower_generation(session.context(), geometry, 2, workspace_bytes(architecture, options.type, 1, 16, 2));
  const Program* all[] = {&train, &programs.prefill, &programs.decode};
  for (const Program* program : all) verify_or_throw(*program, machine_for(*program));
  session.allocate(all);
  random_parameters(5)(session);
  session.executor().train(train, tokens_of(1).view(), {.lr = 1e-2, .step = 1});

  // Two prompts of eight tokens in one slot.
  std::vector<std::int32_t> tokens, positions, start, sequence;
  for (std::int32_t i = 0; i < 16; ++i) {
    tokens.push_back(3 + 7 * i);
    positions.push_back(i % 8);
    start.push_back(i / 8 * 8);
    sequence.push_back(i / 8);
  }
  const std::vector<std::int32_t> last{7, 15};
  std::vector<std::int32_t> next = session.executor()
                                       .prefill(programs.prefill, geometry,
                                                {.tokens = tokens,
                                                 .positions = positions,
                                                 .document_start = start,
                                                 .cache_sequence = sequence,
                                                 .cache_entry = positions,
                                                 .last_row = last})
                                       .next_tokens;
  std::vector<std::int32_t> result = next, length{8, 8};
  const std::vector<std::uint8_t> active{1, 1};
  for (int i = 0; i < 6; ++i) {
    next = session.executor()
               .decode(programs.decode, geometry, {.tokens = next, .length = length, .active = active})
               .next_tokens;
    result.insert(result.end(), next.begin(), next.end());
    for (std::int32_t& entries : length) ++entries;
  }
  return result;
}

TEST(ResidentGeneration, GivesTheTokensOfStreamedLayers) {
  const std::vector<std::int32_t> expected = generated(Homes::host);
  EXPECT_EQ(expected.size(), 14u);
  EXPECT_EQ(generated(Homes::some_resident), expected);
  EXPECT_EQ(generated(Homes::all_resident), expected);
}

TEST(ResidentState, IsSetAndReadInAnyOrder) {
  for (const DataType type : {DataType::bf16, DataType::f32}) {
    Harness harness = harness_of(options_of(Homes::some_resident_others_on_disk, type), false);
    Session& session = harness.session();
    std::map<std::size_t, std::vector<float>> expected;
    for (const std::size_t group : {std::size_t{3}, std::size_t{1}, std::size_t{2}}) {
      std::vector<float>& values = expected[group];
      values = random_group(session.context().groups[group], 100 + group);
      session.set_group(group, values);
    }
    // A part of a resident group while one on disk is loaded, across the ends of pieces.
    const std::vector<float> part(9000, 0.625F);
    session.set_values(3, 3000, part);
    for (const ParameterTensor& tensor : session.context().groups[3].tensors)
      for (std::int64_t i = tensor.offset; i < tensor.offset + tensor.elements; ++i)
        if (i >= 3000 && i < 12000) expected[3][static_cast<std::size_t>(i)] = 0.625F;
    std::vector<float> read(static_cast<std::size_t>(session.context().groups[1].elements));
    for (const std::size_t group : {std::size_t{2}, std::size_t{3}, std::size_t{1}}) {
      session.read_masters(group, read);
      EXPECT_EQ(read, expected[group]) << group;
      session.states().release();
    }
  }
}

}  // namespace
}  // namespace lazytrain::test
