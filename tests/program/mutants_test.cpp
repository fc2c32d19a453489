// Programs that were damaged on purpose: the verifier must call unsafe every one that the exhaustive check
// calls unsafe, and no other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "program/exhaustive_check.h"
#include "program/program_support.h"

namespace lazytrain {
namespace {

std::size_t pick(Random& random, std::size_t count) {
  return static_cast<std::size_t>(random.below(count));
}

// Forgets one wait.
bool drop_wait(Program& program, Random& random) {
  std::vector<Op*> waiting;
  for (Op& op : program.ops)
    if (!op.after.empty()) waiting.push_back(&op);
  if (waiting.empty()) return false;
  Op& op = *waiting[pick(random, waiting.size())];
  op.after.erase(op.after.begin() + static_cast<std::ptrdiff_t>(pick(random, op.after.size())));
  return true;
}

// Exchanges two neighbours of one stream; waits stay where they are in the list.
bool swap_neighbours(Program& program, Random& random) {
  const std::size_t first = pick(random, program.ops.size());
  for (std::size_t i = first + 1; i < program.ops.size(); ++i) {
    if (program.ops[i].stream != program.ops[first].stream) continue;
    std::swap(program.ops[first], program.ops[i]);
    std::swap(program.ops[first].after, program.ops[i].after);
    return true;
  }
  return false;
}

// Moves a buffer by some cache lines.
bool move_offset(Program& program, Random& random) {
  Buffer& buffer = program.buffers[pick(random, program.buffers.size())];
  if (buffer.size.value == 0) return false;
  const std::int64_t lines = 1 + static_cast<std::int64_t>(random.below(64));
  buffer.offset.value += (random.below(2) == 0 ? 1 : -1) * lines * kBufferAlignment;
  return true;
}

// Puts an op on another stream.
bool change_stream(Program& program, Random& random) {
  Op& op = program.ops[pick(random, program.ops.size())];
  const auto other = static_cast<StreamId>(random.below(kStreamCount));
  if (other == op.stream) return false;
  op.stream = other;
  return true;
}

// Waits for a later op: often a cycle.
bool wait_for_later(Program& program, Random& random) {
  const std::size_t i = pick(random, program.ops.size() - 1);
  const std::size_t later = i + 1 + pick(random, program.ops.size() - i - 1);
  program.ops[i].after.push_back(static_cast<OpIndex>(later));
  return true;
}

// Reads or writes a buffer that belongs to another op.
bool change_operand(Program& program, Random& random) {
  Op& op = program.ops[pick(random, program.ops.size())];
  if (op.operands.empty()) return false;
  Operand& operand = op.operands[pick(random, op.operands.size())];
  const auto other = static_cast<BufferId>(pick(random, program.buffers.size()));
  if (program.at(other).size < program.at(operand.buffer).size) return false;
  operand.buffer = other;
  return true;
}

TEST(Mutants, VerifierAgreesWithTheExhaustiveCheck) {
  using Mutation = bool (*)(Program&, Random&);
  const std::vector<std::pair<const char*, Mutation>> mutations{{"drop a wait", drop_wait},
                                                                {"swap neighbours", swap_neighbours},
                                                                {"move an offset", move_offset},
                                                                {"change a stream", change_stream},
                                                                {"wait for a later op", wait_for_later},
                                                                {"change an operand", change_operand}};
  std::map<std::string, std::pair<int, int>> harmful;  // of how many
  const std::uint64_t programs = cases("LAZYTRAIN_MUTATED_PROGRAMS", 150);
  for (std::uint64_t n = 0; n < programs; ++n) {
    const RandomCase test = random_case(n);
    const Program program = lower_train_step(test.context, test.plan, small_workspace());
    const Machine machine = roomy_machine(test.context.tiers);
    for (const auto& [name, mutate] : mutations) {
      for (std::uint64_t k = 0; k < 4; ++k) {
        Random random(n, k);
        Program mutant = program;
        if (!mutate(mutant, random)) continue;
        const std::vector<std::string> wrong = exhaustive_check(mutant);
        const std::vector<Violation> violations = verify(mutant, machine);
        auto& [bad, all] = harmful[name];
        ++all;
        if (!wrong.empty()) ++bad;
        ASSERT_EQ(wrong.empty(), violations.empty())
            << name << ", case " << n << "." << k << ": "
            << (wrong.empty() ? text_of(violations) : wrong.front()) << "\n"
            << listing(mutant);
      }
    }
  }
  // The mutations do harm: otherwise this test would show nothing.
  for (const auto& [name, count] : harmful) {
    EXPECT_GT(count.first * 4, count.second) << name << ": " << count.first << " of " << count.second;
    std::printf("  %-20s %5d mutants, %5d harmful, every one of them refused and no other\n", name.c_str(),
                count.second, count.first);
  }
}

TEST(Mutants, ShrunkBuffersOfCopiesAreFound) {
  for (std::uint64_t n = 0; n < 100; ++n) {
    const RandomCase test = random_case(n);
    if (!test.context.architecture.kinds.empty()) continue;  // its layers differ in size
    Program program = lower_train_step(test.context, test.plan, small_workspace());
    for (const Op& op : program.ops) {
      if (op.kind != OpKind::load_weights && op.kind != OpKind::fetch_boundary &&
          op.kind != OpKind::offload_stash && op.kind != OpKind::offload_gradient &&
          op.kind != OpKind::offload_head_gradient)
        continue;
      const bool gradient = op.kind == OpKind::offload_gradient || op.kind == OpKind::offload_head_gradient;
      for (const Operand& operand : op.operands) {
        const bool shrinks = gradient
                                 ? operand.role != OperandRole::norm && operand.role != OperandRole::batch
                                 : operand.role == OperandRole::output;
        if (!shrinks) continue;
        Buffer& buffer = program.buffers[static_cast<std::size_t>(operand.buffer)];
        const Bytes size = buffer.size;
        // Accumulators and weight slots are as large as the largest layer, which all layers are here.
        buffer.size.value -= 1;
        const std::vector<Violation> violations = verify(program, roomy_machine(test.context.tiers));
        ASSERT_FALSE(violations.empty()) << "case " << n << " " << describe(op) << " " << buffer.name;
        EXPECT_EQ(violations.front().kind, Violation::Kind::overrun) << violations.front().what;
        buffer.size = size;
      }
    }
  }
}

// Boundary 1 of three micro-batches on disk, one stage each way: what keeps the steps of its way in order.
TEST(Mutants, ActivationsOnDiskNeedTheirWaits) {
  const Architecture architecture = small_architecture(2, true);
  const LoweringContext context = small_context(architecture, TierModel::tiered);
  Plan plan = plain_plan(architecture, {.slots = 3, .slot_tokens = 64, .micro_batch = 1});
  plan.boundaries[1] = {.device_micro_batches = 0, .disk_micro_batches = 3};
  plan.activation_stage_slots = 1;
  const Program good = lower_train_step(context, plan, small_workspace());
  const Machine machine = roomy_machine(TierModel::tiered);
  ASSERT_EQ(text_of(verify(good, machine)), "");
  const auto index_of = [&](const std::string& what) {
    for (std::size_t i = 0; i < good.ops.size(); ++i)
      if (describe(good.ops[i]) == what) return static_cast<OpIndex>(i);
    ADD_FAILURE() << "no op " << what;
    return OpIndex{0};
  };
  const std::pair<const char*, const char*> orders[] = {
      {"OffloadBoundary(1, m0)", "WriteBoundary(1, m0)"},  // what is written has left the device
      {"WriteBoundary(1, m0)", "OffloadBoundary(1, m1)"},  // the stage is free again
      {"WriteBoundary(1, m0)", "ReadBoundary(1, m0)"},     // what is read has been written
      {"ReadBoundary(1, m0)", "FetchBoundary(1, m0)"},     // what goes on has been read
      {"FetchBoundary(1, m1)", "ReadBoundary(1, m2)"}};    // the stage is free again
  for (const auto& [first, second] : orders) {
    Program mutant = good;
    // The first op may be known to have ended through a later one of its stream.
    const OpIndex before = index_of(first), after = index_of(second);
    const StreamId stream = good.ops[static_cast<std::size_t>(before)].stream;
    for (OpIndex i = before + 1; i <= after; ++i)
      std::erase_if(mutant.ops[static_cast<std::size_t>(i)].after, [&](OpIndex other) {
        return other >= before && good.ops[static_cast<std::size_t>(other)].stream == stream;
      });
    const std::vector<Violation> violations = verify(mutant, machine);
    ASSERT_FALSE(violations.empty()) << first << ", " << second << "\n" << listing(good);
    EXPECT_EQ(violations.front().kind, Violation::Kind::race) << violations.front().what;
  }
  // The stage of one micro-batch on the bytes of another that still holds its data.
  plan.activation_stage_slots = 2;
  Program mutant = lower_train_step(context, plan, small_workspace());
  const auto stage_of = [&](const std::string& what) -> Buffer& {
    return *std::find_if(mutant.buffers.begin(), mutant.buffers.end(),
                         [&](const Buffer& buffer) { return buffer.name == what; });
  };
  stage_of("host.in.b[1]m1").offset = stage_of("host.in.b[1]m0").offset;
  EXPECT_FALSE(verify(mutant, machine).empty());
}

TEST(Verifier, ReportsEachKind) {
  const Architecture architecture = small_architecture(1, true);
  const LoweringContext context = small_context(architecture, TierModel::tiered);
  const BatchGeometry batch{.slots = 1, .slot_tokens = 8, .micro_batch = 1};
  const Program good = lower_train_step(context, plain_plan(architecture, batch), small_workspace());
  Machine machine = roomy_machine(TierModel::tiered);
  const auto kind_of = [&](const Program& program) {
    const std::vector<Violation> violations = verify(program, machine);
    return violations.empty() ? std::string("none") : violations.front().what;
  };
  EXPECT_EQ(kind_of(good), "none");

  Program bad = good;
  bad.ops[0].after.push_back(999);
  EXPECT_EQ(kind_of(bad), "op 0 GatherEmbedding(m0) waits for op 999");
  bad = good;
  bad.ops[0].operands[0].buffer = -2;
  EXPECT_EQ(kind_of(bad), "op 0 GatherEmbedding(m0) names buffer -2");
  bad = good;
  bad.device_bytes = {10};
  EXPECT_NE(kind_of(bad).find("of an arena of 10 bytes"), std::string::npos) << kind_of(bad);

  machine.device_capacity = good.device_bytes - Bytes{1};
  const auto device = error_of([&] { verify_or_throw(good, machine); });
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(device->code(), ExitCode::does_not_fit);
  machine.device_capacity = good.device_bytes;
  machine.host_capacity = good.host_bytes - Bytes{1};
  const auto host = error_of([&] { verify_or_throw(good, machine); });
  ASSERT_TRUE(host.has_value());
  EXPECT_EQ(host->code(), ExitCode::does_not_fit);
  machine.host_capacity = good.host_bytes;
  EXPECT_NO_THROW(verify_or_throw(good, machine));
  bad = good;
  bad.ops.back().after.push_back(0);
  bad.ops[0].after.push_back(static_cast<OpIndex>(bad.ops.size()) - 1);
  EXPECT_THROW(verify_or_throw(bad, machine), std::logic_error);
}

}  // namespace
}  // namespace lazytrain
