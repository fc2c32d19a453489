// Shared by the benches of whole steps: a model of SmolLM2-135M's sizes with random weights, ready to run a
// planned step, and tables of what its operations took.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "planning/portfolio.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "runtime/workspace.h"

namespace lazytrain::bench {

inline constexpr std::int64_t kSlotTokens = 512;

// SmolLM2-135M's sizes, with another number of layers and tokens where asked for.
inline Architecture llama_135m(std::int64_t layers, std::int64_t vocab) {
  Architecture a;
  a.model_type = "llama";
  a.layers = layers;
  a.hidden = 576;
  a.heads = 9;
  a.kv_heads = 3;
  a.head_dim = 64;
  a.ffn = 1536;
  a.vocab = vocab;
  a.max_position = 8192;
  a.tied_head = true;
  a.rms_epsilon = 1e-5;
  a.rope.theta = 100000;
  return a;
}

struct Tokens {
  Tokens(const BatchGeometry& batch, std::int64_t vocab)
      : slots(batch.slots),
        slot_tokens(batch.slot_tokens),
        start(static_cast<std::size_t>(slots * slot_tokens)) {
    Random random(3);
    for (std::int64_t i = 0; i < slots * slot_tokens; ++i) {
      tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab))));
      targets.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab))));
      positions.push_back(static_cast<std::int32_t>(i % slot_tokens));
    }
  }
  [[nodiscard]] StepTokens view() const {
    return {.slots = slots,
            .slot_tokens = slot_tokens,
            .tokens = tokens,
            .positions = positions,
            .document_start = start,
            .targets = targets};
  }
  std::int64_t slots, slot_tokens;
  std::vector<std::int32_t> tokens, positions, start, targets;
};

inline Seconds median(std::vector<Seconds> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

inline double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

// A model of random weights, ready for one Program.
class Run {
 public:
  Run(const Architecture& architecture, const SessionOptions& options, const Program& program)
      : session_(architecture, options), program_(program), tokens_(program.batch, architecture.vocab) {
    update_only_ = lower_update_only(session_.context());
    const Program* programs[] = {&program_, &update_only_};
    session_.allocate(programs);
    for (std::size_t g = 0; g < session_.context().groups.size(); ++g) {
      const ParameterGroup& group = session_.context().groups[g];
      std::vector<float> values(static_cast<std::size_t>(group.elements), 0.0F);
      Random random(1, g);
      for (const ParameterTensor& tensor : group.tensors)
        for (std::int64_t i = 0; i < tensor.elements; ++i)
          values[static_cast<std::size_t>(tensor.offset + i)] =
              static_cast<float>(tensor.shape.size() == 1 ? 1.0 : 0.05 * (random.uniform() - 0.5));
      session_.set_group(g, values);
    }
  }
  StepOutcome step(bool timings = false) {
    return session_.executor().train(program_, tokens_.view(), {.lr = 1e-5, .step = ++steps_}, timings);
  }

 private:
  Session session_;
  const Program& program_;
  Program update_only_;
  Tokens tokens_;
  std::int64_t steps_ = 0;
};

inline PlanningInputs planning_inputs(const Architecture& architecture, const SessionOptions& options,
                                      const Machine& machine, const CostTable& costs,
                                      const BatchGeometry& batch) {
  return {.context = lowering_context(architecture, options),
          .machine = machine,
          .costs = costs,
          .workspace =
              [architecture, type = options.type](std::int64_t slots, std::int64_t slot_tokens) {
                return workspace_bytes(architecture, type, slots, slot_tokens);
              },
          .batch = batch,
          .supervised_fraction = 1,
          .optimizer_overlap = {}};
}

inline SessionOptions session_options(const CpuDeviceOptions& device, std::int64_t slot_tokens) {
  return {.type = DataType::bf16, .device = device, .training = true, .position_rows = slot_tokens};
}

inline Machine machine_of(const CpuDeviceOptions& device) {
  const bool emulated = device.memory_model == MemoryModel::emulated;
  return {.name = emulated ? "emulated device on this CPU" : "this CPU",
          .tiers = emulated ? TierModel::tiered : TierModel::unified,
          .emulated = emulated,
          .device_capacity = emulated ? device.device_capacity : Bytes{std::int64_t{16} << 30},
          .host_capacity = Bytes{emulated ? std::int64_t{8} << 30 : 0},
          .h2d = device.links.h2d,
          .d2h = device.links.d2h,
          .duplex = device.links.duplex,
          .compute_threads = device.compute_threads,
          .host_threads = device.host_threads,
          .split_cores = device.split_cores};
}

// Seconds of each kind of op in a step, simulated and measured, and what stands between.
inline void print_ops(const PlannedStep& planned, const std::vector<OpTiming>& timings,
                      const SimulationInput& input) {
  struct Line {
    int count = 0;
    Seconds expected = 0, simulated = 0, measured = 0;
  };
  std::map<std::string, Line> lines;
  for (std::size_t i = 0; i < planned.program.ops.size(); ++i) {
    const Op& op = planned.program.ops[i];
    Line& line = lines[std::string(to_string(op.stream)) + " " + to_string(op.kind)];
    ++line.count;
    line.expected += op_seconds(planned.program, op, input);
    line.simulated += planned.simulation.ops[i].end - planned.simulation.ops[i].start;
    line.measured += timings[i].end - timings[i].start;
  }
  fmt::print("  {:<36} {:>5} {:>11} {:>13} {:>12}\n", "stream, op", "count", "undisturbed", "simulated, ms",
             "measured, ms");
  for (const auto& [name, line] : lines)
    fmt::print("  {:<36} {:>5} {:>11.1f} {:>13.1f} {:>12.1f}\n", name, line.count, 1e3 * line.expected,
               1e3 * line.simulated, 1e3 * line.measured);
}

inline Seconds busy(const Program& program, const std::vector<OpTiming>& timings, StreamId stream) {
  Seconds sum = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].stream == stream) sum += timings[i].end - timings[i].start;
  return sum;
}

}  // namespace lazytrain::bench
