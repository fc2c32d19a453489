// Boundaries and stashes on disk: the bits of a step are those of a step that keeps them on the host, an
// emulated disk takes its time, and a disk that fails ends the step in its sentence.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>

#include "runtime/plan_runner.h"
#include "runtime/scratch_support.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 4, kSlotTokens = 24, kLayers = 5;

SessionOptions options_of(MemoryModel model, std::int64_t level = 0) {
  SessionOptions options{
      .type = DataType::bf16,
      .device = {.memory_model = model, .compute_threads = 2, .host_threads = 2, .device_capacity = Bytes{1}},
      .position_rows = kSlotTokens,
      .max_gradient_norm = 1.0,
      .moments = {.piece_elements = 4096}};
  options.scratch_folder = ::testing::TempDir();
  options.homes = groups_on_disk(level, kLayers);
  return options;
}

struct Shares {
  double boundaries = 0, stashes = 0;  // on disk
};

// Every `interval`th boundary is kept, layers alone in their block stash; what is not on disk is on the host.
Plan plan_of(const Architecture& architecture, std::int64_t micro_batch, std::int64_t interval,
             StashLevel level, const Shares& disk) {
  Plan plan =
      simple_plan(architecture, {.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = micro_batch});
  const std::int64_t all = plan.batch.micro_batches();
  const auto part = [&](double share) {
    return static_cast<std::int64_t>(share * static_cast<double>(all) + 0.5);
  };
  for (std::size_t b = 0; b < plan.boundaries.size(); ++b) {
    const bool end = b == 0 || b + 1 == plan.boundaries.size();
    plan.boundaries[b] = {.materialised = end || static_cast<std::int64_t>(b) % interval == 0,
                          .device_micro_batches = 0,
                          .disk_micro_batches = part(disk.boundaries)};
  }
  for (const Block& block : blocks_of(plan))
    if (block.end - block.begin == 1)
      plan.layers[static_cast<std::size_t>(block.begin)] = {
          .stash = level, .stash_device_micro_batches = 0, .stash_disk_micro_batches = part(disk.stashes)};
  return plan;
}

std::vector<Tokens> batches_of(const Architecture& architecture) {
  return {random_tokens(kSlots, kSlotTokens, architecture.vocab, 1),
          random_tokens(kSlots, kSlotTokens, architecture.vocab, 2)};
}

struct Setting {
  MemoryModel model;
  std::int64_t level = 0;  // of states, gradients and weights on disk
};

class ActivationsOnDisk : public ::testing::TestWithParam<Setting> {};

TEST_P(ActivationsOnDisk, GiveTheBitsOfThoseOnTheHost) {
  const Setting setting = GetParam();
  const Architecture architecture = tiny_architecture(true, kLayers);
  std::vector<Plan> plans;
  for (const std::int64_t micro_batch : {1, 2, 3})
    for (const auto& [interval, level] : {std::pair{1, StashLevel::all}, {2, StashLevel::attention}})
      for (const Shares disk : {Shares{1, 0}, {0, 1}, {0.5, 1}})
        for (const bool overlap : {false, true}) {
          plans.push_back(plan_of(architecture, micro_batch, interval, level, disk));
          plans.back().activation_stage_slots = overlap ? 3 : 1;
          plans.back().fetch_lead = 2 * plans.back().activation_stage_slots;
          plans.back().optimizer_overlap = overlap;
        }
  // Nothing on disk, everything that could be recomputed is.
  const std::vector<Tokens> batches = batches_of(architecture);
  PlanRunner reference(architecture, options_of(setting.model),
                       {plan_of(architecture, 1, 1, StashLevel::none, {})});
  EXPECT_EQ(reference.program(0).disk_bytes, Bytes{0});
  const RunResult expected = reference.run(0, batches, random_parameters(5));
  ASSERT_NE(expected.losses.front(), expected.losses.back());
  PlanRunner runner(architecture, options_of(setting.model, setting.level), plans);
  std::size_t on_disk = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (disk_writes(runner.program(i)).value > 0) ++on_disk;
    const RunResult result = runner.run(i, batches, random_parameters(5));
    EXPECT_TRUE(result == expected) << "plan " << i << "\n  " << to_string(result) << "\n  expected "
                                    << to_string(expected);
  }
  EXPECT_EQ(on_disk, plans.size());
}

INSTANTIATE_TEST_SUITE_P(Machines, ActivationsOnDisk,
                         ::testing::Values(Setting{MemoryModel::emulated}, Setting{MemoryModel::unified},
                                           Setting{MemoryModel::emulated, most_disk_level(kLayers)},
                                           Setting{MemoryModel::unified, kLayers + 2}),
                         [](const auto& test) {
                           return fmt::format("{}_{}", to_string(test.param.model), test.param.level);
                         });

// Boundaries 1 to 4, 24 rows of 64 values in two bytes a slot: 3072 bytes, one block of the disk.
TEST(DiskOfActivations, TakesItsTimeWhereItIsEmulated) {
  constexpr double kRate = 0.4e-3;  // GB/s
  constexpr std::int64_t kBytes = 4 * kSlots * 4096;
  SessionOptions options = options_of(MemoryModel::emulated);
  options.disk_read = options.disk_write = kRate;
  const Architecture architecture = tiny_architecture(true, kLayers);
  PlanRunner runner(architecture, options, {plan_of(architecture, 1, 1, StashLevel::none, {1, 0})});
  EXPECT_EQ(disk_writes(runner.program(0)), Bytes{kBytes});
  EXPECT_EQ(disk_reads(runner.program(0)), Bytes{kBytes});
  random_parameters(5)(runner.session());
  const StepOutcome outcome = runner.session().executor().train(
      runner.program(0), batches_of(architecture).front().view(), {.lr = 1e-3, .step = 1});
  // All but the last are written before the first is read.
  EXPECT_GE(outcome.seconds, (2 * kBytes - 2 * 4096) / (kRate * 1e9));
}

TEST(DiskOfActivations, EndsTheStepInASentenceWhereItFails) {
  const Folder folder;
  EXPECT_TRUE(in_child([&] {
    SessionOptions options = options_of(MemoryModel::emulated);
    options.scratch_folder = folder.path;
    const Architecture architecture = tiny_architecture(true, kLayers);
    PlanRunner runner(architecture, options, {plan_of(architecture, 1, 1, StashLevel::all, {1, 1})});
    random_parameters(5)(runner.session());
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4 * kDiskAlignment, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const auto step = [&] {
      runner.session().executor().train(runner.program(0), batches_of(architecture).front().view(),
                                        {.lr = 1e-3, .step = 1});
    };
    const std::string told = disk_error(step);
    std::fprintf(stderr, "%s\n", told.c_str());
    return told == folder.path.string() +
                       ": cannot write the scratch file: File too large; check the disk or choose another "
                       "folder";
  }));
}

TEST(DiskOfActivations, IsRefusedBeforeTheStepWhereItHasNoRoom) {
  SessionOptions options = options_of(MemoryModel::emulated);
  const Architecture architecture = tiny_architecture(true, kLayers);
  Plan plan = plan_of(architecture, 1, 1, StashLevel::all, {1, 1});
  Program program = lower_train_step(lowering_context(architecture, options), plan,
                                     {.forward = {1 << 20},
                                      .recompute = {1 << 20},
                                      .backward = {1 << 20},
                                      .head = {1 << 20},
                                      .head_slice = {1 << 20},
                                      .decode = {1 << 20}});
  EXPECT_GT(program.disk_bytes, Bytes{kSlots * 4 * 4096});
  program.disk_bytes = Bytes{std::int64_t{1} << 60};
  options.device.device_capacity = program.device_bytes;
  Session session(architecture, options);
  const Program* const programs[] = {&program};
  const std::string told = disk_error([&] { session.allocate(programs); });
  EXPECT_NE(told.find("free; free some space or choose another folder"), std::string::npos) << told;
}

}  // namespace
}  // namespace lazytrain::test
