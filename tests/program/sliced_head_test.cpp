// The head in slices as a Program: what it moves and how long it takes beside a whole one, and what the
// verifier holds against it.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/program_support.h"
#include "program/simulator.h"
#include "program/verifier.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 2};
constexpr std::int64_t kSlices = 3;  // of 16 tokens each

Program program_of(bool tied, std::int64_t slices) {
  const Architecture architecture = small_architecture(2, tied);
  Plan plan = plain_plan(architecture, kBatch);
  plan.head_slices = slices;
  return lower_train_step(small_context(architecture, TierModel::tiered), plan, small_workspace());
}

Bytes moved(const Program& program, OpKind kind) {
  Bytes bytes;
  for (const Op& op : program.ops)
    if (op.kind == kind) bytes += op.bytes;
  return bytes;
}

TEST(SlicedHeadProgram, MovesItsGradientOnceAndItsWeightsTwiceButForTheLastSlice) {
  for (const bool tied : {true, false}) {
    const Program whole = program_of(tied, 1), sliced = program_of(tied, kSlices);
    EXPECT_EQ(moved(sliced, OpKind::offload_head_gradient), moved(whole, OpKind::offload_head_gradient));
    const Architecture architecture = small_architecture(2, tied);
    const Bytes projection{architecture.vocab * architecture.hidden * 2};
    const Bytes again{projection.value / kSlices * (kSlices - 1)};
    EXPECT_EQ(moved(sliced, OpKind::load_head), moved(whole, OpKind::load_head) + again);
  }
}

TEST(SlicedHeadProgram, TakesTheTimeOfAWholeHeadAndOfItsLogitsOnceMore) {
  CostTable costs;
  costs.head = 5;
  costs.head_forward = 2;
  costs.op_overhead = 0;
  const Machine machine = roomy_machine(TierModel::tiered);
  const SimulationInput input{.costs = costs, .machine = machine, .supervised_fraction = 0.5};
  const auto head = [&](const Program& program) {
    Seconds seconds = 0;
    for (const Op& op : program.ops)
      if (is_head(op.kind)) seconds += op_seconds(program, op, input);
    return seconds;
  };
  const auto slots = static_cast<double>(kBatch.slots);
  EXPECT_NEAR(head(program_of(false, 1)), 0.5 * slots * 5, 1e-12);
  EXPECT_NEAR(head(program_of(false, kSlices)), 0.5 * slots * (5 + 2), 1e-12);
}

TEST(SlicedHeadProgram, HasTwoSlicesOnTheDeviceAtATime) {
  const Program program = program_of(false, kSlices);
  for (OpIndex i = 0; i < static_cast<OpIndex>(program.ops.size()); ++i) {
    const auto alive =
        std::count_if(program.buffers.begin(), program.buffers.end(), [&](const Buffer& buffer) {
          return buffer.name.starts_with("dev.projection") && buffer.first <= i && i <= buffer.last;
        });
    EXPECT_LE(alive, 2) << i;
  }
}

// The first op of this kind and slice.
Op& op_of(Program& program, OpKind kind, std::int32_t slice) {
  return *std::find_if(program.ops.begin(), program.ops.end(),
                       [&](const Op& op) { return op.kind == kind && op.slice == slice; });
}

bool refused(const Program& program, const std::string& why) {
  const std::vector<Violation> found = verify(program, roomy_machine(TierModel::tiered));
  return std::any_of(found.begin(), found.end(), [&](const Violation& violation) {
    return violation.what.find(why) != std::string::npos;
  });
}

TEST(SlicedHeadProgram, IsRefusedWhereASliceMeetsAnothersBuffersOrNeverLeaves) {
  for (const bool tied : {true, false}) {
    const Program good = program_of(tied, kSlices);
    EXPECT_TRUE(verify(good, roomy_machine(TierModel::tiered)).empty());
    Program other_slice = good;
    op_of(other_slice, OpKind::head_forward, 1).slice = 2;
    EXPECT_TRUE(refused(other_slice, "finds another slice's projection"));
    Program other_accumulator = good;
    op_of(other_accumulator, OpKind::offload_head_gradient, 1).slice = 0;
    EXPECT_TRUE(refused(other_accumulator, "finds another slice's projection_accumulator"));
    EXPECT_TRUE(refused(other_accumulator, "the gradient of slice 1 of the head leaves 0 times"));
    Program none_such = good;
    op_of(none_such, OpKind::load_head, 1).slice = kSlices;
    EXPECT_TRUE(refused(none_such, "of a head in 3"));
    Program short_scores = good;
    for (Buffer& buffer : short_scores.buffers)
      if (buffer.name == "dev.scores.m0") buffer.size.value -= 1;
    EXPECT_TRUE(refused(short_scores, "dev.scores.m0"));
  }
}

}  // namespace
}  // namespace lazytrain
