// The sentence that says what does not fit: its figures are true, and what it offers works.
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include "core/units.h"

#include "planning/lean_sizes.h"
#include "planning/planning_support.h"
#include "planning/portfolio.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 256, .micro_batch = 2};

std::string refusal(const PlanningInputs& inputs, const std::string& policy) {
  const auto error = error_of([&] { plan_step(inputs, policy); });
  if (!error) return "it fits";
  EXPECT_EQ(error->code(), ExitCode::does_not_fit);
  return error->what();
}

// What stands behind `key: ` in the sentence, digits and capitals.
std::string offered(const std::string& sentence, const std::string& key) {
  const std::size_t at = sentence.find(key + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size() + 2;
  return sentence.substr(begin, sentence.find_first_not_of("0123456789MB", begin) - begin);
}

TEST(DoesNotFit, DeviceBudget) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.device_capacity = {300'000};
  const std::string sentence = refusal(inputs, "auto");
  EXPECT_EQ(sentence.rfind("the device budget of 300.0 kB is too small: the leanest plan needs ", 0), 0u)
      << sentence;
  PlanningInputs more = inputs;
  const std::string device = offered(sentence, "device_memory");
  ASSERT_NE(device, "") << sentence;
  more.machine.device_capacity = parse_bytes(device, "device_memory");
  EXPECT_NO_THROW(plan_step(more, "auto"));
}

TEST(DoesNotFit, OffersOfBatchWork) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  for (const std::int64_t kilobytes : {600, 700, 800, 900, 1000, 1200}) {
    inputs.machine.device_capacity = {kilobytes * 1000};
    const std::string sentence = refusal(inputs, "auto");
    if (sentence == "it fits") continue;
    PlanningInputs changed = inputs;
    int offers = 0;
    if (const std::string size = offered(sentence, "micro_batch"); !size.empty()) {
      changed.batch.micro_batch = std::stoll(size);
      EXPECT_NO_THROW(plan_step(changed, "auto")) << sentence;
      ++offers;
    }
    if (const std::string tokens = offered(sentence, "cutoff_len"); !tokens.empty()) {
      changed = inputs;
      changed.batch.slot_tokens = std::stoll(tokens);
      EXPECT_NO_THROW(plan_step(changed, "auto")) << sentence;
      changed.batch.slot_tokens += 64;  // the offer is the largest
      EXPECT_NE(refusal(changed, "auto"), "it fits") << sentence;
      ++offers;
    }
    EXPECT_GT(offers, 0) << sentence;
  }
}

// On a device that has room for layers with their states the host needs less; these tests are about the host.
PlanningInputs inputs_without_resident_layers(std::int64_t layers) {
  PlanningInputs inputs = small_inputs(layers, kBatch);
  const Bytes least = leanest_sizes(inputs, inputs.batch, "offload-all").front().device;
  inputs.machine.device_capacity = {least.value * 102 / 100};
  return inputs;
}

double host_of_offloaded_boundaries(const PlanningInputs& inputs) {
  return static_cast<double>(leanest_sizes(inputs, inputs.batch, "offload-all").front().host.value);
}

TEST(DoesNotFit, HostBudget) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.host_capacity = {200'000};  // too little even where every layer lives on the device
  const std::string sentence = refusal(inputs, "auto");
  EXPECT_EQ(sentence.rfind("the host budget of 200.0 kB is too small: the leanest plan without layers that "
                           "live on the device needs ",
                           0),
            0u)
      << sentence;
  PlanningInputs more = inputs;
  more.machine.host_capacity = parse_bytes(offered(sentence, "host_memory"), "host_memory");
  EXPECT_NO_THROW(plan_step(more, "auto")) << sentence;
}

TEST(DoesNotFit, StatesGoToDiskWhereTheHostIsTooSmallAndOnlyThen) {
  PlanningInputs inputs = inputs_without_resident_layers(8);
  inputs.machine.disk_capacity = {std::int64_t{1} << 30};
  inputs.machine.disk_read = inputs.machine.disk_write = 1;
  const PlannedStep roomy = plan_step(inputs, "auto");
  const double least_host = host_of_offloaded_boundaries(inputs);
  EXPECT_TRUE(roomy.plan.groups.empty());
  EXPECT_EQ(roomy.program.disk_bytes, Bytes{0});
  for (const double part : {0.8, 0.7, 0.6}) {
    inputs.machine.host_capacity = {static_cast<std::int64_t>(part * least_host)};
    const PlannedStep step = plan_step(inputs, "auto");
    EXPECT_LE(step.program.host_bytes, inputs.machine.host_capacity);
    EXPECT_GT(step.program.disk_bytes, Bytes{0}) << part;
    EXPECT_GE(disk_writes(step.program), step.program.disk_bytes);
    EXPECT_GE(step.simulation.step, roomy.simulation.step);
    EXPECT_EQ(to_json(plan_from_json(to_json(step.plan), "again")), to_json(step.plan));
  }
  inputs.states_home = StatesHome::host;
  EXPECT_NE(refusal(inputs, "auto"), "it fits");
  inputs.states_home = StatesHome::disk;
  inputs.machine.host_capacity = {std::int64_t{1} << 40};
  EXPECT_EQ(plan_step(inputs, "auto").plan.groups, groups_on_disk(10, 8));
  inputs.machine.disk_capacity = {1000};
  EXPECT_EQ(
      refusal(inputs, "auto").rfind("the scratch folder has 1.0 kB free and all optimizer states need ", 0),
      0U);
  inputs.states_home = StatesHome::automatic;
  inputs.machine.host_capacity = {static_cast<std::int64_t>(0.6 * least_host)};
  EXPECT_EQ(
      refusal(inputs, "auto").rfind("the scratch folder has 1.0 kB free and all optimizer states need ", 0),
      0U);
}

TEST(DoesNotFit, ALargerDiskIsOfferedWhereItHelps) {
  PlanningInputs inputs = inputs_without_resident_layers(8);
  inputs.machine.disk_capacity = {std::int64_t{1} << 30};
  inputs.machine.disk_read = inputs.machine.disk_write = 1;
  const double least_host = host_of_offloaded_boundaries(inputs);
  inputs.machine.host_capacity = {static_cast<std::int64_t>(0.6 * least_host)};
  const Bytes needed = plan_step(inputs, "auto").program.disk_bytes;
  EXPECT_GT(needed, Bytes{0});
  // A plan takes more of a disk than it must: half of that may do.
  const std::string offer = ", or a scratch_dir with ";
  std::string sentence = "it fits";
  for (std::int64_t part = 2; sentence == "it fits" && part <= 64; part += 1) {
    inputs.machine.disk_capacity = {needed.value / part};
    sentence = refusal(inputs, "auto");
  }
  const std::size_t at = sentence.find(offer);
  ASSERT_NE(at, std::string::npos) << sentence;
  const std::string size = sentence.substr(at + offer.size(), sentence.find(" free", at) - at - offer.size());
  inputs.machine.disk_capacity = {parse_bytes(size, "scratch_dir").value * 101 / 100};  // it is rounded
  EXPECT_NO_THROW(plan_step(inputs, "auto")) << sentence;
}

// What a run has on disk is what the least budget of the host asks for, found by looking at every level.
TEST(DoesNotFit, NoMoreGoesToDiskThanMust) {
  for (const std::int64_t layers : {2, 3, 5, 8}) {
    PlanningInputs inputs = small_inputs(layers, kBatch);
    inputs.machine.disk_capacity = {std::int64_t{1} << 30};
    inputs.machine.disk_read = inputs.machine.disk_write =
        1e-3;  // so slow that more than the least never pays
    inputs.optimizer_overlap = false;
    const auto least_host = [&](std::int64_t level) {
      PlanningInputs there = inputs;
      there.context.homes = groups_on_disk(level, layers);
      Bytes least{INT64_MAX};
      BatchGeometry leanest = kBatch;
      leanest.micro_batch = 1;
      for (const LeanSize& size : leanest_sizes(there, leanest, "keep-all"))
        least = std::min(least, size.host);
      return least;
    };
    for (std::int64_t level = 0; level <= most_disk_level(layers); ++level) {
      inputs.machine.host_capacity = least_host(level);
      std::int64_t first = 0;
      while (least_host(first) > inputs.machine.host_capacity) ++first;
      inputs.batch.micro_batch = 1;
      EXPECT_EQ(plan_step(inputs, "keep-all").plan.groups, groups_on_disk(first, layers))
          << layers << " layers, level " << level << ", first " << first;
    }
  }
}

TEST(DoesNotFit, BothBudgets) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.host_capacity = inputs.machine.device_capacity = {10'000};
  const std::string sentence = refusal(inputs, "auto");
  EXPECT_EQ(sentence.rfind("the budgets of 10.0 kB on the device and 10.0 kB on the host are too small", 0),
            0u)
      << sentence;
  PlanningInputs more = inputs;
  more.machine.device_capacity = parse_bytes(offered(sentence, "device_memory"), "device_memory");
  more.machine.host_capacity = parse_bytes(offered(sentence, "host_memory"), "host_memory");
  EXPECT_NO_THROW(plan_step(more, "auto")) << sentence;
}

TEST(DoesNotFit, AnotherPolicyFits) {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.device_capacity = leanest_sizes(inputs, kBatch, "offload-all").front().device;
  const std::string sentence = refusal(inputs, "keep-all");
  EXPECT_NE(sentence.find("the leanest plan of policy keep-all needs"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("policy: auto"), std::string::npos) << sentence;
}

// Limits of run.yaml that are each fine: together no 64-bit size holds them.
TEST(DoesNotFit, AStepWhoseBytesCannotBeCounted) {
  const BatchGeometry batch{.slots = std::int64_t{1} << 30, .slot_tokens = 1 << 24, .micro_batch = 0};
  const PlanningInputs inputs = small_inputs(4, batch);
  EXPECT_NE(refusal(inputs, "auto").find("lower cutoff_len or per_device_train_batch_size"),
            std::string::npos);
}

TEST(DoesNotFit, UnifiedMachine) {
  PlanningInputs inputs = small_inputs(4, kBatch, TierModel::unified);
  inputs.device_key = "host_memory";
  inputs.machine.device_capacity = {1'000'000};
  const std::string sentence = refusal(inputs, "auto");
  EXPECT_EQ(sentence.rfind("the memory budget of 1.0 MB is too small", 0), 0u) << sentence;
  EXPECT_NE(offered(sentence, "host_memory"), "") << sentence;
  EXPECT_EQ(offered(sentence, "device_memory"), "") << sentence;
}

}  // namespace
}  // namespace lazytrain
