// Cores that several streams share, and streams that have to wake up, against times worked out by hand.
#include <gtest/gtest.h>

#include "program/simulator.h"

namespace lazytrain {
namespace {

constexpr double kNear = 1e-9;

CostTable unit_costs() {
  CostTable costs;
  costs.of(LayerKind::attention).forward = 1;
  costs.update_per_parameter = 0.01;
  costs.offload_gradient_per_element = 0.002;
  costs.copy_h2d = costs.copy_d2h = 4;  // GB/s of one core
  costs.op_overhead = 0;
  return costs;
}

Machine split_machine(double rate) {
  Machine machine;
  machine.emulated = machine.split_cores = true;
  machine.h2d = machine.d2h = rate;
  return machine;
}

Program program_of(std::vector<Op> ops) {
  Program program;
  program.batch = {.slots = 1, .slot_tokens = 8, .micro_batch = 1};
  program.ops = std::move(ops);
  return program;
}

Op copy(StreamId stream, double gigabytes, std::vector<OpIndex> after = {}) {
  return {.kind = stream == StreamId::h2d ? OpKind::load_weights : OpKind::offload_boundary,
          .stream = stream,
          .bytes = {static_cast<std::int64_t>(gigabytes * 1e9)},
          .after = std::move(after)};
}

Op update(std::int64_t elements, std::vector<OpIndex> after = {}) {
  return {.kind = OpKind::update_group,
          .stream = StreamId::host,
          .elements = elements,
          .after = std::move(after)};
}

Op forward(std::vector<OpIndex> after = {}) {
  return {.kind = OpKind::forward, .stream = StreamId::compute, .micro_batch = 0, .after = std::move(after)};
}

TEST(SharedCores, APacedCopyTakesItsPartOfTheHostCore) {
  // 1 GB/s of 4: a quarter of the core. While the copy runs (2 s) the update has three quarters: 1.5 s of its
  // 3 s are done, the other 1.5 s follow.
  const Program program = program_of({copy(StreamId::h2d, 2), update(300), forward()});
  const CostTable costs = unit_costs();
  const Machine machine = split_machine(1);
  const Simulation result = simulate(program, {.costs = costs, .machine = machine});
  EXPECT_NEAR(result.ops[0].end, 2.0, kNear);
  EXPECT_NEAR(result.ops[1].end, 3.5, kNear);
  EXPECT_NEAR(result.ops[2].end, 1.0, kNear);  // compute has a core of its own
}

TEST(SharedCores, NobodyGetsMoreThanAFairPart) {
  // Not paced: both copies and the update want a whole core and get a third each.
  const Program program = program_of({copy(StreamId::h2d, 4), copy(StreamId::d2h, 4), update(100)});
  const CostTable costs = unit_costs();
  const Machine machine = split_machine(0);
  const Simulation result = simulate(program, {.costs = costs, .machine = machine});
  for (const SimulatedOp& op : result.ops) EXPECT_NEAR(op.end, 3.0, kNear);
}

TEST(SharedCores, AnEngineCopiesWithoutCores) {
  Machine machine = split_machine(1);
  machine.emulated = machine.split_cores = false;  // an accelerator
  const CostTable costs = unit_costs();
  const Program program = program_of({copy(StreamId::h2d, 2), update(300), forward()});
  const Simulation result = simulate(program, {.costs = costs, .machine = machine});
  EXPECT_NEAR(result.ops[0].end, 2.0, kNear);
  EXPECT_NEAR(result.ops[1].end, 3.0, kNear);
}

TEST(SharedCores, APacedUpdateLeavesTheCoreWhileItSleeps) {
  // 25 parameters/s though 100 would go: 4 s, a quarter of them busy. A copy that wants the whole core gets
  // three quarters: 3 GB in 1 s, and is done after 4 GB.
  Machine machine = split_machine(0);
  machine.optimizer_rate = 25;
  const CostTable costs = unit_costs();
  const Program program = program_of({update(100), copy(StreamId::h2d, 4)});
  const Simulation result = simulate(program, {.costs = costs, .machine = machine});
  EXPECT_NEAR(result.ops[0].end, 4.0, kNear);
  EXPECT_NEAR(result.ops[1].end, 4.0 / 3, kNear);
}

TEST(SharedCores, ThreadsOfBothPoolsMeetOnSharedCores) {
  // Two cores, two threads each for compute and host: half speed while both are there.
  Machine machine;
  machine.tiers = TierModel::unified;
  machine.compute_threads = machine.host_threads = 2;
  const CostTable costs = unit_costs();
  const Simulation result =
      simulate(program_of({forward(), update(50)}), {.costs = costs, .machine = machine});
  EXPECT_NEAR(result.ops[1].end, 1.0, kNear);
  EXPECT_NEAR(result.ops[0].end, 1.5, kNear);
}

TEST(SharedCores, AStreamThatSleptWakesUpFirst) {
  CostTable costs = unit_costs();
  costs.handover = 0.25;
  // Compute waits for the update (1 s), wakes, works, and needs no waking for its next op. The paced copy
  // that follows an op of another stream makes up for its waking; one at memory speed cannot.
  const std::vector<Op> ops{update(100), forward({0}), forward(), copy(StreamId::d2h, 1, {2})};
  const Machine paced = split_machine(1), free = split_machine(0);
  const Simulation slow = simulate(program_of(ops), {.costs = costs, .machine = paced});
  EXPECT_NEAR(slow.ops[1].start, 1.25, kNear);
  EXPECT_NEAR(slow.ops[2].start, 2.25, kNear);
  EXPECT_NEAR(slow.ops[3].end, 3.25 + 1, kNear);
  const Simulation fast = simulate(program_of(ops), {.costs = costs, .machine = free});
  EXPECT_NEAR(fast.ops[3].end, 3.25 + 0.25 + 0.25, kNear);
}

}  // namespace
}  // namespace lazytrain
