// The tables a user reads: exact for small hand-made steps.
#include "report/plan_report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lazytrain {
namespace {

Buffer buffer(const char* name, Tier tier, std::int64_t bytes, bool persistent) {
  return {.name = name,
          .tier = tier,
          .size = {bytes},
          .persistent = persistent,
          .first = persistent ? -1 : 0,
          .last = persistent ? -1 : 0,
          .offset = {0}};
}

PlannedStep small_step() {
  PlannedStep step;
  step.program.tiers = TierModel::tiered;
  step.program.ops.resize(1);
  step.program.buffers = {buffer("dev.slot[0]", Tier::device, 3'000'000, true),
                          buffer("dev.slot[1]", Tier::device, 3'000'000, true),
                          buffer("dev.b[1]m0", Tier::device, 2'000'000, false),
                          buffer("dev.r[2]m0", Tier::device, 500'000, false),
                          buffer("host.w[0]", Tier::host, 7'000'000, true),
                          buffer("host.norm[0]", Tier::host, 1000, true)};
  step.program.device_bytes = {8'600'000};
  step.program.host_bytes = {7'001'000};
  step.plan.policy = "every-k";
  step.plan.batch = {.slots = 4, .slot_tokens = 512, .micro_batch = 2};
  step.plan.optimizer_overlap = true;
  step.simulation.step = 2;
  step.simulation.compute = 1.5;
  step.simulation.recompute = 0.25;
  step.simulation.exposed = 0.5;
  step.table = {{.policy = "keep-all",
                 .variant = "",
                 .why_not = "the device needs 20.0 MB and has 10.0 MB",
                 .micro_batch = 2,
                 .device = {20'000'000},
                 .host = {7'000'000}},
                {.policy = "every-k",
                 .variant = "K=2",
                 .fits = true,
                 .why_not = "",
                 .chosen = true,
                 .micro_batch = 2,
                 .device = {8'600'000},
                 .host = {7'001'000},
                 .step = 2,
                 .compute = 1.5,
                 .recompute = 0.25,
                 .exposed = 0.5,
                 .tokens_per_second = 1024}};
  return step;
}

Machine emulated() {
  Machine machine;
  machine.emulated = true;
  machine.device_capacity = {10'000'000};
  machine.host_capacity = {16'000'000};
  machine.h2d = 4;
  machine.d2h = 3;
  return machine;
}

TEST(PlanReport, Tiers) {
  EXPECT_EQ(tiers_table(small_step().program, emulated()),
            "device (emulated)                         8.6 MB of 10.0 MB\n"
            "  weight slots                            6.0 MB\n"
            "  boundaries                              2.5 MB\n"
            "  alignment and gaps                    100.0 kB\n"
            "host                                      7.0 MB of 16.0 MB\n"
            "  weights                                 7.0 MB\n"
            "  losses and norms                        1.0 kB\n");
}

TEST(PlanReport, Policies) {
  EXPECT_EQ(
      policies_table(small_step().table, emulated()),
      "times are simulated, in seconds a step; device and links are emulated\n"
      "  policy        variant                                     mb    device      host     step  recomp.  "
      "exposed     tok/s\n"
      "  keep-all                                                   2   20.0 MB    7.0 MB does not fit\n"
      "* every-k       K=2                                          2    8.6 MB    7.0 MB    2.000    0.250 "
      "   0.500    1024.0\n");
}

TEST(PlanReport, Summary) {
  CostTable costs;
  costs.source = "measured";
  costs.machine = "a test machine";
  EXPECT_EQ(step_summary(small_step(), emulated(), costs),
            "plan: policy every-k, K=2\n"
            "  4 slots of 512 tokens in micro-batches of 2; optimizer hidden before the next forward\n"
            "  simulated step 2.000 s: compute 1.500 s (recompute 0.250 s), exposed 0.500 s; 1024.0 tok/s\n"
            "  from measured costs of a test machine; links 4 GB/s up, 3 GB/s down (emulated)\n");
  PlannedStep resident = small_step();
  resident.plan.layers.resize(3);
  resident.plan.groups.resize(5);
  resident.plan.groups[1].on_device = resident.plan.groups[3].on_device = true;
  EXPECT_NE(step_summary(resident, emulated(), costs)
                .find("\n  resident on the device, and updated there: 2 of 3 layers\n"),
            std::string::npos);
}

TEST(PlanReport, PlannedAndMeasured) {
  const std::string text = planned_and_measured(
      small_step(),
      {.step = 2.1, .compute = 1.5, .exposed = 0.6, .device_peak = {8'600'000}, .host_peak = {7'000'000}},
      emulated());
  EXPECT_EQ(text,
            "                          simulated     measured           \n"
            "step, s                       2.000        2.100     +5.0 %\n"
            "compute, s                    1.500        1.500     +0.0 %\n"
            "exposed, s                    0.500        0.600    +20.0 %\n"
            "                            planned     measured           \n"
            "device (emulated)            8.6 MB       8.6 MB      equal\n"
            "host                         7.0 MB       7.0 MB    -1000 B\n");
}

TEST(PlanReport, UnifiedMachinesHaveOneTier) {
  PlannedStep step = small_step();
  step.program.tiers = TierModel::unified;
  Machine machine = emulated();
  machine.tiers = TierModel::unified;
  machine.emulated = false;
  EXPECT_EQ(tiers_table(step.program, machine).find("host"), std::string::npos);
  EXPECT_EQ(policies_table(step.table, machine).find("emulated"), std::string::npos);
  EXPECT_EQ(policies_table(step.table, machine).find("host"), std::string::npos);
}

TEST(PlanReport, NoLineIsWiderThanATerminal) {
  PlannedStep step = small_step();
  step.table[1].variant = std::string(80, 'v');
  step.table[1].device = {999'990'000'000'000};
  for (const std::string& text :
       {policies_table(step.table, emulated()), tiers_table(step.program, emulated()),
        step_summary(small_step(), emulated(), CostTable{})}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  }
}

}  // namespace
}  // namespace lazytrain
