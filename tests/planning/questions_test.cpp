// Questions about plans on a small model and a machine whose answers can be foreseen.
#include "planning/questions.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planning/planning_support.h"
#include "planning/policies.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 0};

TEST(Questions, TheLargestBatchFitsAndOneMoreDoesNot) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.batch = {.slots = 24, .slot_tokens = 8, .micro_batch = 4};
  const Bytes device = plan_step(inputs, "offload-all").program.device_bytes;
  const Bytes host = plan_step(inputs, "offload-all").program.host_bytes;
  inputs.machine.device_capacity = device;
  inputs.machine.host_capacity = host;
  const BatchAnswer batches = find_batch(inputs, "auto");
  ASSERT_GE(batches.largest, 24);
  PlanningInputs more = inputs;
  more.batch.slots = batches.largest;
  EXPECT_NO_THROW(plan_step(more, "auto"));
  ++more.batch.slots;
  EXPECT_THROW(plan_step(more, "auto"), Error);
  // The best of those that were tried, which come in order.
  double most = 0;
  for (const Answer& answer : batches.tried) most = std::max(most, answer.row.tokens_per_second);
  const auto best = std::find_if(batches.tried.begin(), batches.tried.end(), [&](const Answer& answer) {
    return static_cast<std::int64_t>(answer.value) == batches.best;
  });
  ASSERT_NE(best, batches.tried.end());
  EXPECT_EQ(best->row.tokens_per_second, most);
  EXPECT_TRUE(std::is_sorted(batches.tried.begin(), batches.tried.end(),
                             [](const Answer& a, const Answer& b) { return a.value < b.value; }));
}

TEST(Questions, MicroBatchesOfOneSlotEndTheSearchWhereCallsDo) {
  PlanningInputs inputs = small_inputs(64, kBatch);
  inputs.batch = {.slots = 4, .slot_tokens = 8, .micro_batch = 1};
  const BatchAnswer batches = find_batch(inputs, "megatrain");
  EXPECT_EQ(batches.largest, kMostLayerCalls / 64);
  EXPECT_NE(batches.tried.back().why_not.find("too many calls"), std::string::npos);
  inputs.batch.slots = kMostLayerCalls / 64;
  const std::vector<Answer> answers = sweep(inputs, "megatrain", SweepAxis::batch);
  EXPECT_TRUE(answers.front().fits);
  EXPECT_NE(answers.back().why_not.find("too many calls"), std::string::npos);
}

TEST(Questions, MoreOfAnythingIsNeverSlower) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.device_capacity = plan_step(inputs, "offload-all").program.device_bytes;
  for (const SweepAxis axis : {SweepAxis::device, SweepAxis::host, SweepAxis::link}) {
    const std::vector<Answer> answers = sweep(inputs, "auto", axis);
    ASSERT_EQ(answers.size(), 9u);
    EXPECT_TRUE(answers[4].current);
    EXPECT_NEAR(answers[8].value / answers[0].value, 16, 1e-3);
    double slowest = 1e9;
    for (const Answer& answer : answers) {
      if (!answer.fits) continue;
      EXPECT_LE(answer.row.step, slowest * 1.01) << answer.label;
      slowest = answer.row.step;
    }
    EXPECT_LT(slowest, 1e9) << to_string(axis);
  }
}

TEST(Questions, SweepsAreRefusedWhereThereIsNothingToSweep) {
  const PlanningInputs unified = small_inputs(3, kBatch, TierModel::unified);
  EXPECT_THROW(sweep(unified, "auto", SweepAxis::host), Error);
  EXPECT_THROW(sweep(unified, "auto", SweepAxis::link), Error);
  EXPECT_THROW(sweep(small_inputs(3, kBatch), "auto", SweepAxis::disk), Error);
  EXPECT_THROW(sweep_axis_from("width"), Error);
  EXPECT_EQ(sweep_axis_from("link"), SweepAxis::link);
}

TEST(Questions, PoliciesAreComparedWithFourForwardsAndThree) {
  const PlanningInputs inputs = small_inputs(4, kBatch);
  const std::vector<Evaluation> rows = compare_policies(inputs);
  ASSERT_EQ(rows.size(), policy_names().size() - 1 + 2);
  EXPECT_EQ(rows[rows.size() - 2].policy, "4F");
  EXPECT_EQ(rows.back().policy, "3F");
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const Evaluation& row) { return row.chosen; }), 1);
  for (const Evaluation& row : rows)
    if (row.fits) {
      EXPECT_GE(row.step, rows.back().step * (1 - 1e-9)) << row.policy;
    }
}

TEST(Questions, ASlowLinkIsWhatBindsWhereEverythingHasToCrossIt) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.h2d = inputs.machine.d2h = 0.002;
  const Explanation slow = explain(inputs, "auto");
  ASSERT_FALSE(slow.gains.empty());
  EXPECT_NE(slow.gains.front().what.find("the device"), std::string::npos) << slow.gains.front().what;
  EXPECT_GT(slow.gains.front().part, 0.01);
  inputs.machine.h2d = inputs.machine.d2h = 1000;
  EXPECT_EQ(explain(inputs, "auto").gains.front().what, "compute 10 % faster");
}

}  // namespace
}  // namespace lazytrain
