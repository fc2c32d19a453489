// Random plans on random small models and machines: each lowers, is safe by two independent checks, and runs
// in the simulator to its end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "program/exhaustive_check.h"
#include "program/program_support.h"
#include "program/simulator.h"

namespace lazytrain {
namespace {

TEST(RandomPlans, AreSafeAndEnd) {
  const CostTable costs = modelled_costs(small_architecture(2, true), 8, 1, 1);
  const std::uint64_t programs = cases("LAZYTRAIN_RANDOM_PROGRAMS", 3000);
  for (std::uint64_t n = 0; n < programs; ++n) {
    const RandomCase test = random_case(n);
    const Program program = lower_train_step(test.context, test.plan, small_workspace());
    Machine machine = roomy_machine(test.context.tiers);
    Random random(13, n);
    machine.h2d = random.uniform() * 0.1;
    machine.d2h = random.below(4) == 0 ? 0 : random.uniform() * 0.1;
    machine.duplex = random.below(2) == 0 ? 0 : random.uniform() * 0.2;
    machine.emulated = random.below(2) == 0;
    machine.split_cores = random.below(2) == 0;
    const std::vector<Violation> violations = verify(program, machine);
    ASSERT_TRUE(violations.empty()) << "case " << n << "\n" << text_of(violations) << listing(program);
    const Simulation simulation =
        simulate(program, {.costs = costs, .machine = machine, .supervised_fraction = 1});
    ASSERT_GE(simulation.step, simulation.compute - 1e-9) << "case " << n;
    ASSERT_TRUE(std::all_of(simulation.ops.begin(), simulation.ops.end(),
                            [](const SimulatedOp& op) { return op.end >= op.start; }));
    // No stream starts an op before the one in front of it ended, no op before those it waits for.
    for (std::size_t i = 0; i < program.ops.size(); ++i)
      for (const OpIndex other : program.ops[i].after)
        ASSERT_LE(simulation.ops[static_cast<std::size_t>(other)].end, simulation.ops[i].start + 1e-9);
  }
  std::printf("  %llu Programs lowered, verified and simulated to their end\n",
              static_cast<unsigned long long>(programs));
}

// Activations on disk pass through as many stages on the host as the plan says, each way.
TEST(RandomPlans, StagesAreNoMoreThanThePlanSays) {
  std::int64_t most = 0;
  for (std::uint64_t n = 0; n < 500; ++n) {
    const RandomCase test = random_case(n);
    const Program program =
        lower_train_step(test.context, test.plan, small_workspace(), LoweringDepth::memory);
    for (const char* way : {"host.out.", "host.in."}) {
      std::vector<std::int64_t> change(program.ops.size() + 1, 0);
      for (const Buffer& buffer : program.buffers) {
        if (!buffer.name.starts_with(way)) continue;
        ++change[static_cast<std::size_t>(buffer.first)];
        --change[static_cast<std::size_t>(buffer.last) + 1];
      }
      std::int64_t alive = 0;
      for (const std::int64_t step : change) {
        alive += step;
        most = std::max(most, alive);
        ASSERT_LE(alive, test.plan.activation_stage_slots) << "case " << n << "\n" << listing(program);
      }
    }
  }
  EXPECT_EQ(most, 3);
}

TEST(RandomPlans, AreSafeByTheExhaustiveCheck) {
  for (std::uint64_t n = 0; n < 800; ++n) {
    const RandomCase test = random_case(n);
    const Program program = lower_train_step(test.context, test.plan, small_workspace());
    const std::vector<std::string> wrong = exhaustive_check(program);
    ASSERT_TRUE(wrong.empty()) << "case " << n << ": " << wrong.front() << "\n" << listing(program);
  }
}

}  // namespace
}  // namespace lazytrain
