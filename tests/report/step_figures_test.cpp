// Where the time goes and what a tier holds: hand-made steps with figures worked out on paper, and planned
// ones against the program's own account of its memory.
#include "report/step_figures.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/planning_support.h"
#include "planning/policies.h"
#include "planning/portfolio.h"

namespace lazytrain {
namespace {

// Load 0..2, Forward 2..3, Head 3..4, a Forward again 4..4.5, Recompute 4.5..5, Backward 6..8 which waited
// for FetchBoundary 5..6, OffloadGradient 8..9.
Program small_program() {
  Program program;
  const auto add = [&](OpKind kind, StreamId stream, std::vector<OpIndex> after = {}) {
    program.ops.push_back({.kind = kind, .stream = stream, .layer = 0, .after = std::move(after)});
  };
  add(OpKind::load_weights, StreamId::h2d);
  add(OpKind::forward, StreamId::compute, {0});
  add(OpKind::head_forward_backward, StreamId::compute);
  add(OpKind::forward, StreamId::compute);
  add(OpKind::recompute, StreamId::compute);
  add(OpKind::fetch_boundary, StreamId::h2d, {4});
  add(OpKind::backward, StreamId::compute, {5});
  add(OpKind::offload_gradient, StreamId::d2h, {6});
  program.ops[0].bytes = {1000};
  program.ops[5].bytes = {500};
  return program;
}
const std::vector<OpTime> kTimes{{0, 2}, {2, 3}, {3, 4}, {4, 4.5}, {4.5, 5}, {5, 6}, {6, 8}, {8, 9}};

TEST(StepFigures, StreamsAndParts) {
  const Program program = small_program();
  EXPECT_EQ(last_end(kTimes), 9);
  const std::vector<StreamUse> uses = stream_uses(program, kTimes);
  ASSERT_EQ(uses.size(), 3U);
  EXPECT_EQ(uses[0].stream, StreamId::compute);
  EXPECT_EQ(uses[0].ops, 5);
  EXPECT_EQ(uses[0].busy, 5);
  EXPECT_EQ(uses[1].stream, StreamId::h2d);
  EXPECT_EQ(uses[1].busy, 3);
  EXPECT_EQ(uses[1].bytes, Bytes{1500});
  EXPECT_EQ(uses[2].busy, 1);

  const ComputeTimes times = compute_times(program, kTimes);
  EXPECT_EQ(times.of(ComputePart::forward), 1);
  EXPECT_EQ(times.of(ComputePart::recompute), 1);  // the forward after the head, and Recompute
  EXPECT_EQ(times.of(ComputePart::head), 1);
  EXPECT_EQ(times.of(ComputePart::backward), 2);
  EXPECT_EQ(times.sum(), 5);
  EXPECT_EQ(layer_times(program, kTimes, 1)[0].of(ComputePart::backward), 2);
}

TEST(StepFigures, WhatComputeWaitsFor) {
  const std::vector<Standstill> still = standstills(small_program(), kTimes);
  ASSERT_EQ(still.size(), 3U);
  EXPECT_EQ(still[0].kind, OpKind::load_weights);
  EXPECT_EQ(still[0].seconds, 2);
  EXPECT_EQ(still[1].seconds + still[2].seconds, 2);
  for (const Standstill& entry : {still[1], still[2]})
    EXPECT_TRUE(entry.kind == OpKind::fetch_boundary || entry.kind == OpKind::offload_gradient);
}

TEST(StepFigures, AGapWithoutAWaitIsNobodysFault) {
  Program program = small_program();
  program.ops.resize(2);
  program.ops[1].after.clear();
  const std::vector<Standstill> still = standstills(program, std::vector<OpTime>{{0, 2}, {0.5, 2}});
  ASSERT_EQ(still.size(), 1U);
  EXPECT_EQ(still[0].kind, std::nullopt);
  EXPECT_EQ(still[0].seconds, 0.5);
}

TEST(StepFigures, MemoryCurve) {
  Program program;
  program.ops.resize(4);
  const auto add = [&](std::int64_t size, OpIndex first, OpIndex last, bool persistent, Tier tier) {
    program.buffers.push_back(
        {.name = "b", .tier = tier, .size = {size}, .persistent = persistent, .first = first, .last = last});
  };
  add(100, -1, -1, true, Tier::device);
  add(10, 0, 1, false, Tier::device);
  add(20, 2, 3, false, Tier::device);
  add(7, 1, 1, false, Tier::host);
  EXPECT_EQ(memory_curve(program, Tier::device), (std::vector<MemoryPoint>{{0, {110}}, {2, {120}}}));
  EXPECT_EQ(memory_curve(program, Tier::host), (std::vector<MemoryPoint>{{0, {0}}, {1, {7}}, {2, {0}}}));
}

TEST(StepFigures, ThePeakIsWhatTheProgramAccountsFor) {
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified})
    for (const std::string& policy : policy_names()) {
      const PlannedStep step =
          plan_step(small_inputs(6, {.slots = 4, .slot_tokens = 8, .micro_batch = 1}, tiers), policy);
      for (const Tier tier : used_tiers(step.program)) {
        Bytes peak, accounted;
        for (const MemoryPoint& point : memory_curve(step.program, tier)) peak = std::max(peak, point.bytes);
        for (const MemoryItem& item : memory_items(step.program, tier))
          if (item.what != "alignment and gaps") accounted += item.bytes;
        EXPECT_EQ(peak, accounted) << policy;
        EXPECT_LE(peak, step.program.bytes_of(tier)) << policy;
      }
    }
}

TEST(StepFigures, StandstillsAddUpToWhatComputeDoesNotWork) {
  const PlannedStep step =
      plan_step(small_inputs(6, {.slots = 4, .slot_tokens = 8, .micro_batch = 1}), "every-k");
  const std::vector<OpTime> times = op_times(step.simulation);
  Seconds still = 0;
  for (const Standstill& entry : standstills(step.program, times)) still += entry.seconds;
  EXPECT_NEAR(still, last_end(times) - compute_times(step.program, times).sum(), 1e-6 * last_end(times));
  EXPECT_NEAR(last_end(times), step.simulation.step, 1e-12);
}

}  // namespace
}  // namespace lazytrain
