// The memory of a process that trains the real model: what the plan says plus an allowance, and no large
// allocation inside a step.
#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "acceptance/acceptance.h"
#include "runtime/allocation_watch.h"
#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 3, kSlotTokens = 288, kSteps = 4;
constexpr std::size_t kLarge = 64 * 1024;
constexpr double kAllowance = 200;  // MB

// RssAnon + RssShmem of this process, MB.
double resident() {
  std::ifstream status("/proc/self/status");
  double kib = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    double value = 0;
    words >> key >> value;
    if (key == "RssAnon:" || key == "RssShmem:") kib += value;
  }
  return kib * 1024 / 1e6;
}

}  // namespace

bool step_memory(const std::filesystem::path& model) {
  const ModelFolder folder(model);
  const Recording recording = read_recording();
  Bars bars;
  for (const char* policy : {"every-k 4", "offload-all all", "keep-all", "megatrain", "paper"}) {
    for (const MemoryModel memory : {MemoryModel::emulated, MemoryModel::unified}) {
      if (memory == MemoryModel::unified && std::string(policy) != "every-k 4") continue;
      const SessionOptions options{.type = DataType::bf16,
                                   .device = {.memory_model = memory,
                                              .compute_threads = available_cores(),
                                              .host_threads = available_cores(),
                                              .device_capacity = Bytes{1}},
                                   .position_rows = kSlotTokens,
                                   .max_gradient_norm = 1.0};
      const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = 1};
      Plan plan;
      for (const PlanCase& found : policy_cases(planning_inputs(folder.architecture(), options, batch)))
        if (found.name == policy) plan = found.plan;
      plan.optimizer_overlap = true;
      PlanRunner runner(folder.architecture(), options, {plan});
      Session& session = runner.session();
      session.load(folder);
      AllocationCount worst;
      double most = 0;
      for (std::size_t step = 0; step < kSteps; ++step) {
        const Tokens tokens = pack(recording.documents[step], kSlots, kSlotTokens);
        AllocationWatch watch(kLarge);
        session.executor().train(runner.program(0), tokens.view(),
                                 {.lr = 1e-5, .step = static_cast<std::int64_t>(step) + 1});
        const AllocationCount count = watch.stop();
        // The first step warms up: matrix products are compiled at their first use.
        if (step > 0 && count.largest >= worst.largest) worst = count;
        most = std::max(most, resident());
      }
      const double planned =
          static_cast<double>((runner.program(0).device_bytes + runner.program(0).host_bytes).value) / 1e6;
      const std::string name = fmt::format("{}, {}", to_string(memory), policy);
      fmt::print(
          "  {}: planned {:.1f} MB, resident {:.1f} MB; largest allocation in a step {} bytes, {} in "
          "all\n",
          name, planned, most, worst.largest, worst.all);
      bars.at_most(name + ": resident beyond the plan, MB", most - planned, kAllowance);
      bars.holds(fmt::format("{}: no allocation of {} bytes in a step", name, kLarge), worst.large == 0);
      if (worst.large > 0) fmt::print("   {} from{}\n", worst.largest, worst.first_large);
    }
  }
  return bars.all_held();
}

}  // namespace lazytrain::test
