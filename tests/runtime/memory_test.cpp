// Planned memory is real memory: the highest byte that a step touches is the highest that the plan names, and
// under AddressSanitizer an op that reaches outside its buffers ends the run.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 3, kSlotTokens = 32;

SessionOptions debug_options(MemoryModel model) {
  return {
      .type = DataType::bf16,
      .device = {.memory_model = model, .compute_threads = 2, .host_threads = 2, .device_capacity = Bytes{1}},
      .position_rows = kSlotTokens,
      .max_gradient_norm = 1.0,
      .debug_memory = true,
      .scratch_folder = ::testing::TempDir()};
}

// Every row is supervised, so that the head uses all the scratch it asked for.
Tokens full_batch(const Architecture& architecture) {
  Tokens tokens = random_tokens(kSlots, kSlotTokens, architecture.vocab, 3);
  for (std::int32_t& target : tokens.targets) target = std::max(target, 1);
  return tokens;
}

Bytes highest_end(const Program& program, Tier tier) {
  Bytes end;
  for (const Buffer& buffer : program.buffers)
    if (buffer.tier == tier) end = std::max(end, buffer.offset + buffer.size);
  return end;
}

std::vector<PlanCase> memory_cases(const Architecture& architecture, const SessionOptions& options) {
  std::vector<PlanCase> cases;
  for (const std::int64_t micro_batch : {1, 2, 3}) {
    const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = micro_batch};
    const PlanningInputs inputs = planning_inputs(architecture, options, batch);
    std::vector<PlanCase> more = policy_cases(inputs);
    for (PlanCase& random : random_cases(architecture, batch, 500, 8)) more.push_back(std::move(random));
    for (PlanCase& one : with_and_without_overlap(more)) {
      one.name += fmt::format(", micro-batch {}", micro_batch);
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

struct Setting {
  bool tied;
  MemoryModel model;
  bool resident = false;  // the layers but the first
  bool wide = false;      // wide_architecture()
};

class PlannedMemory : public ::testing::TestWithParam<Setting> {};

TEST_P(PlannedMemory, IsTouchedToTheByteAndNotBeyond) {
  const Architecture architecture =
      GetParam().wide ? wide_architecture(GetParam().tied, 4) : tiny_architecture(GetParam().tied, 4);
  SessionOptions options = debug_options(GetParam().model);
  if (GetParam().resident) {
    options.homes.resize(6);
    for (std::size_t layer = 1; layer < 4; ++layer) options.homes[layer + 1].on_device = true;
  }
  const std::vector<Tokens> batches(2, full_batch(architecture));
  std::size_t runs = 0;
  for (const PlanCase& one : memory_cases(architecture, options)) {
    PlanRunner runner(architecture, options, {one.plan});
    runner.run(0, batches, random_parameters(5));
    const Executor& executor = runner.session().executor();
    for (const Tier tier : {Tier::device, Tier::host}) {
      const Bytes planned = highest_end(runner.program(0), tier);
      EXPECT_EQ(executor.highest_byte_touched(tier), planned) << one.name << ", " << to_string(tier) << "\n"
                                                              << executor.arena(tier).size.value;
      // The arena ends where the last buffer ends, rounded up to the alignment of buffers.
      EXPECT_LT(executor.arena(tier).size - planned, Bytes{kBufferAlignment}) << one.name;
    }
    ++runs;
  }
  fmt::print("  {} plans: the highest byte touched is the highest byte planned\n", runs);
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, PlannedMemory,
    ::testing::Values(Setting{true, MemoryModel::unified}, Setting{true, MemoryModel::emulated},
                      Setting{false, MemoryModel::unified}, Setting{false, MemoryModel::emulated},
                      Setting{true, MemoryModel::emulated, true},
                      Setting{true, MemoryModel::emulated, false, true},
                      Setting{false, MemoryModel::unified, false, true}),
    [](const auto& test) {
      return fmt::format("{}_{}{}{}", test.param.tied ? "tied" : "untied", to_string(test.param.model),
                         test.param.resident ? "_resident" : "", test.param.wide ? "_wide" : "");
    });

#if defined(__SANITIZE_ADDRESS__)

// The sanitizer must see what the arenas' own layout hides: neighbours in an arena are valid memory.
class StrayAccess : public ::testing::TestWithParam<OpKind> {};

TEST_P(StrayAccess, EndsTheRun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OpKind kind = GetParam();
  const auto run_with_short_buffers = [kind] {
    const Architecture architecture = tiny_architecture(true, 2);
    SessionOptions options = debug_options(MemoryModel::emulated);
    options.device.device_capacity = Bytes{std::int64_t{1} << 28};
    const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = 1};
    Plan plan = simple_plan(architecture, batch, StashLevel::mlp);
    for (BoundaryPlan& boundary : plan.boundaries) boundary.device_micro_batches = 1;
    for (LayerPlan& layer : plan.layers) layer.stash_device_micro_batches = 1;
    Session session(architecture, options);
    Program program = lower_train_step(session.context(), plan,
                                       workspace_bytes(architecture, DataType::bf16, 1, kSlotTokens));
    const Program* programs[] = {&program};
    session.allocate(programs);
    random_parameters(5)(session);
    // The op believes that its last operand of some size is 64 bytes shorter than what it touches.
    for (const Op& op : program.ops) {
      if (op.kind != kind) continue;
      const auto operand = std::find_if(op.operands.rbegin(), op.operands.rend(), [&](const Operand& one) {
        return program.at(one.buffer).size > Bytes{64};
      });
      program.buffers[static_cast<std::size_t>(operand->buffer)].size -= Bytes{64};
    }
    session.executor().train(program, full_batch(architecture).view(), {.lr = 1e-3});
  };
  EXPECT_DEATH(run_with_short_buffers(), "use-after-poison");
}

INSTANTIATE_TEST_SUITE_P(EveryKind, StrayAccess,
                         ::testing::Values(OpKind::forward, OpKind::recompute, OpKind::backward,
                                           OpKind::head_forward_backward, OpKind::load_weights,
                                           OpKind::offload_boundary, OpKind::fetch_stash,
                                           OpKind::offload_gradient, OpKind::gather_embedding),
                         [](const auto& test) { return std::string(to_string(test.param)); });

#endif

}  // namespace
}  // namespace lazytrain::test
