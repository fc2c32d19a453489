// Pinned memory as a budget of its own: what links read and write has to be pinned, optimizer states do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "plan/machine.h"
#include "planning/planning_support.h"
#include "planning/portfolio.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

constexpr BatchGeometry kBatch{.slots = 4, .slot_tokens = 8, .micro_batch = 1};

Bytes states_of(const PlanningInputs& inputs) {
  Bytes sum;
  for (const Bytes bytes : inputs.context.state_bytes) sum += align_up(bytes, kBufferAlignment);
  return sum;
}

// A host that has room for everything, and a device that has not.
PlanningInputs small_device() {
  PlanningInputs inputs = small_inputs(4, kBatch);
  inputs.machine.h2d = inputs.machine.d2h = 3;  // stashes on the host pay
  const Bytes megatrain = plan_step(inputs, "megatrain").program.device_bytes;
  inputs.machine.device_capacity = Bytes{megatrain.value * 13 / 10};
  return inputs;
}

TEST(PinnedMemory, IsTheHostWithoutOptimizerStates) {
  const PlanningInputs inputs = small_device();
  const Program program = plan_step(inputs, "offload-all").program;
  const Bytes not_states = program.host_bytes - states_of(inputs), norms{1024};
  EXPECT_LE(pinned_bytes(program), not_states);
  EXPECT_GT(pinned_bytes(program), not_states - norms);
}

TEST(PinnedMemory, LimitsThePlan) {
  const PlanningInputs free = small_device();
  for (const char* policy : {"auto", "milp"}) {
    const PlannedStep roomy = plan_step(free, policy);
    const Bytes least = pinned_bytes(plan_step(free, "megatrain").program);
    ASSERT_GT(pinned_bytes(roomy.program), least) << policy;
    PlanningInputs tight = free;
    tight.machine.pinned_capacity = least + Bytes{(pinned_bytes(roomy.program) - least).value / 2};
    const PlannedStep step = plan_step(tight, policy);
    EXPECT_LE(pinned_bytes(step.program), *tight.machine.pinned_capacity) << policy;
    EXPECT_GE(step.simulation.step, 0.99 * roomy.simulation.step) << policy;
  }
}

TEST(PinnedMemory, TooLittleIsSaidWithWhatIsNeeded) {
  PlanningInputs inputs = small_device();
  inputs.machine.pinned_capacity = Bytes{1000};
  try {
    static_cast<void>(plan_step(inputs, "auto"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_THAT(error.what(), HasSubstr("of the host may be pinned, too little"));
    EXPECT_THAT(error.what(), HasSubstr("give pinned_memory: "));
  }
}

TEST(PinnedMemory, ComesFromAMachineFileAndGoesBackThere) {
  Machine machine = roomy_machine(TierModel::tiered);
  EXPECT_FALSE(machine_from_json(to_json(machine), "m").pinned_capacity);
  machine.pinned_capacity = Bytes{123'456};
  EXPECT_EQ(machine_from_json(to_json(machine), "m").pinned_capacity, Bytes{123'456});
}

}  // namespace
}  // namespace lazytrain
