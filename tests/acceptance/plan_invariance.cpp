// The real model in bf16 under many plans: the same bits from each.
#include <fmt/format.h>

#include <chrono>

#include "acceptance/acceptance.h"
#include "runtime/plan_cases.h"
#include "runtime/plan_runner.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 4, kSlotTokens = 128;

struct Combination {
  MemoryModel model;
  int threads;
  std::int64_t micro_batch;
  bool overlap;
  const char* policy;    // of policy_cases()
  bool on_host = false;  // boundaries, stashes and the boundary gradient
};

constexpr Combination kCombinations[] = {
    {MemoryModel::unified, 2, 4, false, "keep-all"},
    {MemoryModel::unified, 1, 1, true, "every-k 4"},
    {MemoryModel::unified, 2, 2, true, "megatrain"},
    {MemoryModel::emulated, 2, 1, false, "megatrain"},
    {MemoryModel::emulated, 2, 4, true, "every-k 2"},
    {MemoryModel::emulated, 1, 2, false, "every-k 3"},
    {MemoryModel::emulated, 2, 2, true, "keep-all"},
    {MemoryModel::emulated, 2, 1, true, "keep-all", true},
    {MemoryModel::emulated, 1, 4, false, "offload-all none"},
    {MemoryModel::emulated, 2, 2, false, "offload-all attention"},
    {MemoryModel::emulated, 2, 1, true, "offload-all mlp", true},
    {MemoryModel::emulated, 2, 4, true, "offload-all all"},
    {MemoryModel::emulated, 2, 1, true, "paper"},
    {MemoryModel::emulated, 2, 2, false, "paper"},
};

Plan plan_of(const Combination& combination, const Architecture& architecture,
             const SessionOptions& options) {
  const BatchGeometry batch{
      .slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = combination.micro_batch};
  for (PlanCase& found : policy_cases(planning_inputs(architecture, options, batch))) {
    if (found.name != combination.policy) continue;
    found.plan.optimizer_overlap = combination.overlap;
    if (combination.on_host) {
      for (BoundaryPlan& boundary : found.plan.boundaries) boundary.device_micro_batches = 0;
      for (LayerPlan& layer : found.plan.layers) layer.stash_device_micro_batches = 0;
      found.plan.boundary_gradient_on_host = true;
    }
    return found.plan;
  }
  throw std::runtime_error(fmt::format("no plan of policy {}", combination.policy));
}

}  // namespace

bool plan_invariance(const std::filesystem::path& model, std::int64_t steps) {
  const ModelFolder folder(model);
  const Architecture& architecture = folder.architecture();
  std::vector<Tokens> batches;
  const Recording recording = read_recording();
  for (std::int64_t step = 0; step < steps; ++step) {
    // Two recorded documents and a shorter one, with padding behind them.
    const std::vector<Document>& given = recording.documents[static_cast<std::size_t>(step)];
    std::vector<Document> documents;
    for (const Document& document : given)
      if (std::ssize(document.ids) <= kSlotTokens && std::ssize(documents) < kSlots)
        documents.push_back(document);
    batches.push_back(pack(documents, kSlots, kSlotTokens));
  }
  Bars bars;
  std::optional<RunResult> expected;
  for (const Combination& combination : kCombinations) {
    const auto begin = std::chrono::steady_clock::now();
    const SessionOptions options{.type = DataType::bf16,
                                 .device = {.memory_model = combination.model,
                                            .compute_threads = combination.threads,
                                            .host_threads = combination.threads,
                                            .device_capacity = Bytes{1}},
                                 .position_rows = kSlotTokens,
                                 .max_gradient_norm = 1.0};
    PlanRunner runner(architecture, options, {plan_of(combination, architecture, options)});
    const RunResult result = runner.run(0, batches, [&](Session& session) { session.load(folder); });
    if (!expected) {
      expected = result;
      fmt::print("  {} steps of {} slots of {} tokens; {}\n", steps, kSlots, kSlotTokens, to_string(result));
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    bars.holds(
        fmt::format("{}, {} thread{}, {}{}, micro-batch {}, overlap {}; {:.0f} MB, {:.1f} s",
                    to_string(combination.model), combination.threads, combination.threads == 1 ? "" : "s",
                    combination.policy, combination.on_host ? " all on the host" : "",
                    combination.micro_batch, combination.overlap ? "on" : "off",
                    static_cast<double>(runner.program(0).device_bytes.value) / 1e6, seconds.count()),
        result == *expected);
    if (!(result == *expected)) fmt::print("    {}\n", to_string(result));
  }
  return bars.all_held();
}

}  // namespace lazytrain::test
