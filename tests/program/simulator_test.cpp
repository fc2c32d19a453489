// The simulator against times worked out by hand.
#include "program/simulator.h"

#include <gtest/gtest.h>

#include "program/program_support.h"

namespace lazytrain {
namespace {

constexpr double kNear = 1e-9;

// 1 s a forward, 2 s a backward, 3 s a head of one fully supervised slot; no overhead.
CostTable unit_costs() {
  CostTable costs;
  costs.of(LayerKind::attention).forward = 1;
  costs.of(LayerKind::attention).backward = 2;
  costs.of(LayerKind::attention).recompute = {0.75, 0.5, 0.25, 0};
  costs.of(LayerKind::attention).down_projection = 0.25;
  costs.head = 3;
  costs.update_per_parameter = 0.01;
  costs.offload_gradient_per_element = 0.002;
  costs.op_overhead = 0;
  return costs;
}

Machine links(double h2d, double d2h, double duplex) {
  Machine machine;
  machine.h2d = h2d;
  machine.d2h = d2h;
  machine.duplex = duplex;
  return machine;
}

Program program_of(std::vector<Op> ops) {
  Program program;
  program.batch = {.slots = 2, .slot_tokens = 8, .micro_batch = 1};
  program.ops = std::move(ops);
  return program;
}

Op on(StreamId stream, OpKind kind, std::vector<OpIndex> after = {}) {
  return {.kind = kind, .stream = stream, .micro_batch = 0, .after = std::move(after)};
}

Op copy(StreamId stream, double gigabytes, std::vector<OpIndex> after = {}) {
  return {.kind = stream == StreamId::h2d ? OpKind::load_weights : OpKind::offload_boundary,
          .stream = stream,
          .bytes = {static_cast<std::int64_t>(gigabytes * 1e9)},
          .after = std::move(after)};
}

TEST(Simulator, StreamsWorkInOrderAndWaitForEachOther) {
  // h2d loads for 2 s; compute: forward waits, then a backward; h2d loads again beside it.
  const Program program = program_of({copy(StreamId::h2d, 4), on(StreamId::compute, OpKind::forward, {0}),
                                      copy(StreamId::h2d, 1), on(StreamId::compute, OpKind::backward, {2})});
  const CostTable costs = unit_costs();
  const Simulation result = simulate(program, {.costs = costs, .machine = links(2, 2, 0)});
  EXPECT_NEAR(result.ops[0].end, 2.0, kNear);
  EXPECT_NEAR(result.ops[1].start, 2.0, kNear);
  EXPECT_NEAR(result.ops[1].end, 3.0, kNear);
  EXPECT_NEAR(result.ops[2].end, 2.5, kNear);
  EXPECT_NEAR(result.ops[3].start, 3.0, kNear);
  EXPECT_NEAR(result.step, 5.0, kNear);
  EXPECT_NEAR(result.compute, 3.0, kNear);
  EXPECT_NEAR(result.exposed, 2.0, kNear);
}

TEST(Simulator, BothDirectionsShareTheirJointCap) {
  const CostTable costs = unit_costs();
  // 2 GB up and 2 GB down at 2 GB/s each: 1 s without a cap, 1.6 s where both together get 2.5 GB/s.
  const Program even = program_of({copy(StreamId::h2d, 2), copy(StreamId::d2h, 2)});
  EXPECT_NEAR(simulate(even, {.costs = costs, .machine = links(2, 2, 0)}).step, 1.0, kNear);
  EXPECT_NEAR(simulate(even, {.costs = costs, .machine = links(2, 2, 2.5)}).step, 1.6, kNear);
  EXPECT_NEAR(simulate(even, {.costs = costs, .machine = links(2, 2, 8)}).step, 1.0, kNear);

  // 1 GB up, 4 GB down, cap 3 of 2 + 2: up ends at 2/3 s (1.5 GB/s), then down has 3 GB left at 2 GB/s.
  const Program uneven = program_of({copy(StreamId::h2d, 1), copy(StreamId::d2h, 4)});
  const Simulation result = simulate(uneven, {.costs = costs, .machine = links(2, 2, 3)});
  EXPECT_NEAR(result.ops[0].end, 2.0 / 3, kNear);
  EXPECT_NEAR(result.ops[1].end, 2.0 / 3 + 1.5, kNear);

  // A slow direction takes its 0.5 GB/s and leaves 2 of 2.5 to the other.
  const Program slow = program_of({copy(StreamId::h2d, 0.5), copy(StreamId::d2h, 2)});
  const Simulation shared = simulate(slow, {.costs = costs, .machine = links(0.5, 3, 2.5)});
  EXPECT_NEAR(shared.ops[0].end, 1.0, kNear);
  EXPECT_NEAR(shared.ops[1].end, 1.0, kNear);
}

TEST(Simulator, AGradientLeavesNoFasterThanItIsConverted) {
  // 500 elements at 2 ms each: 1 s, though the link would take 1000 bytes in a microsecond.
  Op op{.kind = OpKind::offload_gradient, .stream = StreamId::d2h, .bytes = {1000}, .elements = 500};
  const CostTable costs = unit_costs();
  EXPECT_NEAR(simulate(program_of({op}), {.costs = costs, .machine = links(1, 1, 0)}).step, 1.0, 1e-6);
  op.stream = StreamId::compute;  // unified machines convert in a compute op
  EXPECT_NEAR(simulate(program_of({op}), {.costs = costs, .machine = links(1, 1, 0)}).step, 1.0, kNear);
}

TEST(Simulator, UpdatesOfResidentLayersHaveThePaceOfTheDevice) {
  CostTable costs = unit_costs();
  costs.update_on_device_per_parameter = 0.004;
  costs.update_on_device_eight_bit_per_parameter = 0.001;
  Machine machine = links(1, 1, 0);
  machine.optimizer_rate = 10;  // parameters per second, of the host
  Op op{.kind = OpKind::update_group, .stream = StreamId::compute, .layer = 1, .elements = 500};
  op.eight_bit_elements = 100;
  const Simulation on_device = simulate(program_of({op}), {.costs = costs, .machine = machine});
  EXPECT_NEAR(on_device.step, 400 * 0.004 + 100 * 0.001, kNear);
  EXPECT_NEAR(on_device.compute, on_device.step, kNear);
  op.stream = StreamId::host;
  EXPECT_NEAR(simulate(program_of({op}), {.costs = costs, .machine = machine}).step, 50, kNear);
}

TEST(Simulator, RowsThatATiedHeadLeavesInFp32TakeTheirTime) {
  // 500 rounded elements, and 250 that leave in fp32 as well.
  Op op{.kind = OpKind::offload_head_gradient, .stream = StreamId::d2h, .bytes = {2000}, .elements = 500};
  CostTable costs = unit_costs();
  op.stream = StreamId::compute;
  EXPECT_NEAR(simulate(program_of({op}), {.costs = costs, .machine = links(1, 1, 0)}).step, 1.5, kNear);
  op.stream = StreamId::d2h;
  costs.offload_gradient_per_element = 0;
  const Seconds with_rows =
      simulate(program_of({op}), {.costs = costs, .machine = links(1e-6, 1e-6, 0)}).step;
  op.bytes = {1000};
  const Seconds without = simulate(program_of({op}), {.costs = costs, .machine = links(1e-6, 1e-6, 0)}).step;
  EXPECT_NEAR(with_rows, 2 * without, kNear);
}

TEST(Simulator, ReadsAndWritesOfADiskShareItsJointCap) {
  const auto disk = [](StreamId stream, double gigabytes) {
    return Op{.kind = stream == StreamId::disk_read ? OpKind::read_states : OpKind::write_states,
              .stream = stream,
              .bytes = {static_cast<std::int64_t>(gigabytes * 1e9)}};
  };
  const Program program = program_of({disk(StreamId::disk_read, 2), disk(StreamId::disk_write, 2)});
  const CostTable costs = unit_costs();
  Machine machine = links(1, 1, 0);
  machine.disk_read = 2, machine.disk_write = 4;
  const auto end = [&](std::size_t op) {
    return simulate(program, {.costs = costs, .machine = machine}).ops[op].end;
  };
  EXPECT_NEAR(end(0), 1.0, kNear);
  EXPECT_NEAR(end(1), 0.5, kNear);
  machine.disk_duplex = 3;  // 1.5 GB/s each until both have moved 2 GB
  EXPECT_NEAR(end(0), 4.0 / 3, kNear);
  EXPECT_NEAR(end(1), 4.0 / 3, kNear);
}

TEST(Simulator, AnUpdateAndACopyShareTheBandwidthOfHostMemory) {
  // 1e9 parameters with 8-bit moments: 14.06 GB in 10 s; the copy moves 10 GB in 10 s. Memory does half of
  // both.
  Op update{.kind = OpKind::update_group, .stream = StreamId::host, .elements = 1'000'000'000};
  update.eight_bit_elements = update.elements;
  CostTable costs = unit_costs();
  costs.update_eight_bit_per_parameter = 1e-8;
  Machine machine = links(1, 1, 0);
  const Program program = program_of({update, copy(StreamId::h2d, 10)});
  EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).step, 10, kNear);
  machine.host_memory = (14.06 + 10) / 10 / 2;
  const Simulation shared = simulate(program, {.costs = costs, .machine = machine});
  EXPECT_NEAR(shared.ops[0].end, 20, 1e-6);
  EXPECT_NEAR(shared.ops[1].end, 20, 1e-6);
}

TEST(Simulator, AStepWithActivationsOnASlowDiskTakesAsLongAsTheyDo) {
  const Architecture architecture = small_architecture(4, true);
  Plan plan = plain_plan(architecture, {.slots = 2, .slot_tokens = 64, .micro_batch = 1});
  for (BoundaryPlan& boundary : plan.boundaries) boundary = {.disk_micro_batches = 2};
  CostTable costs;
  costs.op_overhead = 0;
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified}) {
    const Program program = lower_train_step(small_context(architecture, tiers), plan, small_workspace());
    // Boundaries 1 to 3, each 64 rows of 32 values in 2 bytes, twice; boundary 0 is gathered again.
    EXPECT_EQ(disk_writes(program), Bytes{3 * 2 * 4096});
    EXPECT_EQ(disk_reads(program), disk_writes(program));
    EXPECT_EQ(program.disk_bytes, disk_writes(program));
    Machine machine = roomy_machine(tiers);
    machine.disk_write = 4096e-9, machine.disk_read = 2 * 4096e-9;  // a boundary is written in 1 s
    // The first to be read was the last but one to be written, and is read beside the last; on tiered
    // machines it comes into the last one's stage.
    const bool beside = tiers == TierModel::unified;
    EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).step, 6 + 3 - (beside ? 0.5 : 0),
                0.01);
    machine.disk_write *= 10;
    EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).step, 0.6 + 3 - (beside ? 0.1 : 0),
                0.01);
  }
}

TEST(Simulator, CostsOfEachOp) {
  CostTable costs = unit_costs();
  costs.op_overhead = 0.1;
  const Machine machine = links(2, 2, 0);
  const SimulationInput input{.costs = costs, .machine = machine, .supervised_fraction = 0.5};
  Program program;
  program.batch = {.slots = 3, .slot_tokens = 8, .micro_batch = 2};
  const auto seconds = [&](const Op& op) { return op_seconds(program, op, input); };
  Op op{.kind = OpKind::forward, .stream = StreamId::compute, .micro_batch = 0};
  EXPECT_NEAR(seconds(op), 2.1, kNear);  // two slots
  op.micro_batch = 1;
  EXPECT_NEAR(seconds(op), 1.1, kNear);  // the last one has one
  op.kind = OpKind::recompute;
  op.stash = StashLevel::attention;
  EXPECT_NEAR(seconds(op), 0.6, kNear);
  op.full = true;
  EXPECT_NEAR(seconds(op), 0.85, kNear);
  op.kind = OpKind::head_forward_backward;
  EXPECT_NEAR(seconds(op), 1.6, kNear);  // half of the tokens are supervised
  op = {.kind = OpKind::update_group, .stream = StreamId::host, .elements = 50};
  EXPECT_NEAR(seconds(op), 0.6, kNear);
  Machine slow = machine;
  slow.optimizer_rate = 25;  // parameters per second
  EXPECT_NEAR(op_seconds(program, op, {.costs = costs, .machine = slow}), 2.1, kNear);
  slow.optimizer_rate = 1e9;  // never faster than measured
  EXPECT_NEAR(op_seconds(program, op, {.costs = costs, .machine = slow}), 0.6, kNear);
  EXPECT_NEAR(seconds(copy(StreamId::h2d, 1)), 0.6, kNear);
}

TEST(Simulator, StreamsThatShareCoresRunAtHalfSpeed) {
  // Compute 2 s beside host work of 1 s (100 parameters), then host work alone.
  Op update{.kind = OpKind::update_group, .stream = StreamId::host, .elements = 100};
  const Program program = program_of({on(StreamId::compute, OpKind::backward), update});
  const CostTable costs = unit_costs();
  Machine machine = links(1, 1, 0);
  EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).step, 2.0, kNear);
  machine.emulated = true;
  const Simulation shared = simulate(program, {.costs = costs, .machine = machine});
  EXPECT_NEAR(shared.ops[1].end, 2.0, kNear);  // both at half speed
  EXPECT_NEAR(shared.ops[0].end, 3.0, kNear);  // the backward's second half alone
  EXPECT_NEAR(shared.compute, 2.0, kNear);
  EXPECT_NEAR(shared.exposed, 1.0, kNear);
  machine.split_cores = true;
  EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).step, 2.0, kNear);
}

TEST(Simulator, CountsRecomputation) {
  // 3 layers, 2 micro-batches of one slot; boundaries 0 and 3 only: a sweep over layers 0 and 1.
  const Architecture architecture = small_architecture(3, false);
  Plan plan = plain_plan(architecture, {.slots = 2, .slot_tokens = 8, .micro_batch = 1});
  plan.boundaries[1].materialised = plan.boundaries[2].materialised = false;
  const LoweringContext context = small_context(architecture, TierModel::unified);
  CostTable costs = unit_costs();
  costs.update_per_parameter = costs.offload_gradient_per_element = 0;
  Machine machine;
  machine.tiers = TierModel::unified;
  machine.split_cores = true;
  const auto run = [&] {
    return simulate(lower_train_step(context, plan, small_workspace()), {.costs = costs, .machine = machine});
  };
  Simulation result = run();
  // Forward 6, head 6, sweep 4, re-forward without down-projection 4.5, backward 12.
  EXPECT_NEAR(result.compute, 32.5, kNear);
  EXPECT_NEAR(result.recompute, 8.5, kNear);
  EXPECT_NEAR(result.step, 32.5, kNear);
  plan.tail_skip = false;  // 6 down-projections of 0.25
  EXPECT_NEAR(run().recompute, 10.0, kNear);
  plan.sweep_last_layer = true;  // 2 forwards more: five forwards in all beside the head
  result = run();
  EXPECT_NEAR(result.recompute, 12.0, kNear);
  EXPECT_NEAR(result.compute - 6, 5 * 6, kNear);
}

TEST(Simulator, LayersCostWhatTheirKindCosts) {
  // 4 layers, one of each kind: 1, 10, 100 and 1000 s forward, twice that backward; nothing else costs.
  const Architecture architecture = hybrid_architecture(4, false);
  const Plan plan = plain_plan(architecture, {.slots = 2, .slot_tokens = 8, .micro_batch = 1});
  CostTable costs = unit_costs();
  costs.head = costs.update_per_parameter = costs.offload_gradient_per_element = 0;
  double forward = 1;
  for (const LayerKind kind : kLayerKinds) {
    costs.of(kind) = {.forward = forward, .backward = 2 * forward};
    forward *= 10;
  }
  Machine machine;
  machine.tiers = TierModel::unified;
  machine.split_cores = true;
  const Program program =
      lower_train_step(small_context(architecture, TierModel::unified), plan, small_workspace());
  EXPECT_NEAR(simulate(program, {.costs = costs, .machine = machine}).compute, 2 * 3 * 1111, kNear);
}

}  // namespace
}  // namespace lazytrain
