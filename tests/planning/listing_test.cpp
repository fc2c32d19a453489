// The Program of each policy for a model of 2 layers and a step of 2 micro-batches, op by op, against
// listings that were read and checked by hand (tests/data/planning).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "planning/planning_support.h"
#include "planning/policies.h"

namespace lazytrain {
namespace {

// Without the spaces that pad the columns.
std::string squeezed(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' || (!result.empty() && result.back() != ' ' && result.back() != '\n')) result += c;
  return result;
}

void expect_listing(const std::string& name, const PlanningInputs& inputs, Plan plan) {
  plan.weight_slots = 2;
  plan.gradient_slots = 2;
  plan.fetch_lead = 2;
  plan.offload_lag = 1;
  const Program program = lower_train_step(inputs.context, plan, small_workspace());
  EXPECT_EQ(text_of(verify(program, inputs.machine)), "");
  const std::string path = std::string(LAZYTRAIN_TESTS_DIR) + "/data/planning/" + name + ".txt";
  const std::string found = squeezed(listing(program));
  if (std::getenv("LAZYTRAIN_WRITE_LISTINGS") != nullptr) std::ofstream(path) << found;
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(expected.str(), found) << path;
}

constexpr BatchGeometry kBatch{.slots = 2, .slot_tokens = 8, .micro_batch = 1};

TEST(Listing, Megatrain) {
  const PlanningInputs inputs = small_inputs(2, kBatch);
  expect_listing("megatrain", inputs, megatrain_plan(inputs, kBatch));
}

TEST(Listing, EveryTwo) {
  const PlanningInputs inputs = small_inputs(2, kBatch, TierModel::tiered, false);
  expect_listing("every-2", inputs, every_k_plan(inputs, kBatch, 2));
}

TEST(Listing, KeepAll) {
  const PlanningInputs inputs = small_inputs(2, kBatch);
  expect_listing("keep-all", inputs, keep_all_plan(inputs, kBatch));
}

TEST(Listing, KeepAllUnified) {
  const PlanningInputs inputs = small_inputs(2, kBatch, TierModel::unified);
  expect_listing("keep-all-unified", inputs, keep_all_plan(inputs, kBatch));
}

TEST(Listing, OffloadAll) {
  const PlanningInputs inputs = small_inputs(2, kBatch);
  Plan plan = offload_all_plan(inputs, kBatch, StashLevel::attention);
  plan.boundary_gradient_on_host = true;
  plan.optimizer_overlap = false;
  expect_listing("offload-all", inputs, plan);
}

// Boundary 1 and the stashes are on disk, boundary 0 is gathered again.
TEST(Listing, OnDisk) {
  PlanningInputs inputs = small_inputs(2, kBatch);
  inputs.machine.disk_capacity = {1 << 20};
  Plan plan = offload_all_plan(inputs, kBatch, StashLevel::attention);
  for (BoundaryPlan& boundary : plan.boundaries) boundary.disk_micro_batches = 2;
  for (LayerPlan& layer : plan.layers) layer.stash_disk_micro_batches = 1;
  expect_listing("on-disk", inputs, plan);
}

TEST(Listing, OnDiskUnified) {
  PlanningInputs inputs = small_inputs(2, kBatch, TierModel::unified);
  inputs.machine.disk_capacity = {1 << 20};
  Plan plan = keep_all_plan(inputs, kBatch);
  for (BoundaryPlan& boundary : plan.boundaries)
    boundary = {.device_micro_batches = 1, .disk_micro_batches = 1};
  for (LayerPlan& layer : plan.layers)
    layer = {.stash = StashLevel::all, .stash_device_micro_batches = 1, .stash_disk_micro_batches = 1};
  expect_listing("on-disk-unified", inputs, plan);
}

TEST(Listing, Paper) {
  const PlanningInputs inputs = small_inputs(2, kBatch);
  const std::optional<Plan> plan = paper_plan(inputs, kBatch);
  ASSERT_TRUE(plan.has_value());
  expect_listing("paper", inputs, *plan);
}

}  // namespace
}  // namespace lazytrain
