// Whole training steps against the times that were simulated for them, and against the processor's own
// matrix products.
//
//   step_bench calibrate FILE            costs of the small model on the split machine, measured on their own
//   step_bench simulator-error FILE      simulated and measured steps over policies, link rates and batches
//   step_bench cpu-speed                 a step of a 135M-parameter model against the GEMM rate
//
// Wall-clock figures: they mean something on a quiet machine only, so the load is printed with them.
#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "core/threads.h"
#include "onednn_product.h"
#include "planning/portfolio.h"
#include "runtime/profiler.h"
#include "runtime/session.h"
#include "runtime/workspace.h"

namespace lazytrain {
namespace {

// SmolLM2-135M's sizes, with another number of layers and tokens where asked for.
Architecture llama_135m(std::int64_t layers, std::int64_t vocab) {
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

Seconds median(std::vector<Seconds> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double load_average() {
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

PlanningInputs planning_inputs(const Architecture& architecture, const SessionOptions& options,
                               const Machine& machine, const CostTable& costs, const BatchGeometry& batch) {
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

SessionOptions session_options(const CpuDeviceOptions& device, std::int64_t slot_tokens) {
  return {.type = DataType::bf16, .device = device, .training = true, .position_rows = slot_tokens};
}

Machine machine_of(const CpuDeviceOptions& device) {
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
void print_ops(const PlannedStep& planned, const std::vector<OpTiming>& timings,
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

Seconds busy(const Program& program, const std::vector<OpTiming>& timings, StreamId stream) {
  Seconds sum = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].stream == stream) sum += timings[i].end - timings[i].start;
  return sum;
}

// ---- The emulated machine with split cores ----

constexpr std::int64_t kSmallLayers = 6, kSmallVocab = 8192, kSlotTokens = 512;

CpuDeviceOptions split_device(const LinkRates& links, Bytes capacity) {
  return {.memory_model = MemoryModel::emulated,
          .compute_threads = 1,
          .host_threads = 1,
          .split_cores = true,
          .device_capacity = capacity,
          .links = links};
}

int calibrate(const std::string& file, bool quick) {
  const Architecture architecture = llama_135m(kSmallLayers, kSmallVocab);
  const CostTable costs = measure_costs(
      architecture,
      {.device = split_device({}, {1}), .slot_tokens = kSlotTokens, .micro_batch = 1, .quick = quick});
  write_cost_table(file, costs);
  fmt::print("{}", costs_table(costs, architecture));
  fmt::print("load average {:.1f}; written to {}\n", load_average(), file);
  return 0;
}

struct Point {
  const char* policy;
  LinkRates links;
  std::int64_t slots, micro_batch;
  std::int64_t capacity_mb;
};

int simulator_error(const std::string& file, int repeats, bool verbose) {
  const CostTable costs = read_cost_table(file);
  const Architecture architecture = llama_135m(kSmallLayers, kSmallVocab);
  const std::vector<Point> points{
      {"keep-all", {.h2d = 4, .d2h = 4}, 4, 2, 400},
      {"keep-all", {.h2d = 0.4, .d2h = 0.4}, 4, 1, 400},
      {"keep-all", {.h2d = 0.12, .d2h = 0.12}, 2, 1, 400},
      {"every-k", {.h2d = 2, .d2h = 2}, 4, 2, 400},
      {"every-k", {.h2d = 0.2, .d2h = 0.2}, 2, 1, 400},
      {"offload-all", {.h2d = 2, .d2h = 2}, 4, 1, 400},
      {"offload-all", {.h2d = 0.5, .d2h = 0.5, .duplex = 0.6}, 4, 1, 400},
      {"offload-all", {.h2d = 0.25, .d2h = 0.25}, 2, 1, 400},
      {"megatrain", {.h2d = 1, .d2h = 1}, 4, 2, 400},
      {"megatrain", {.h2d = 0.15, .d2h = 0.15}, 2, 1, 400},
      {"paper", {.h2d = 1, .d2h = 1}, 4, 1, 400},
      {"paper", {.h2d = 0.3, .d2h = 0.2}, 2, 1, 400},
      {"auto", {.h2d = 2, .d2h = 2}, 4, 0, 130},
      {"auto", {.h2d = 0.3, .d2h = 0.3, .duplex = 0.4}, 4, 0, 130},
  };
  fmt::print("costs: {}, {}\n", costs.source, costs.machine);
  fmt::print(
      "model: {} layers of SmolLM2-135M's sizes, {} tokens, bf16; emulated device, one core computes, one "
      "does the rest\n",
      kSmallLayers, kSmallVocab);
  fmt::print("{:<12} {:>14} {:>5} {:>3} {:>3} | {:>10} {:>8} | {:>10} {:>15} {:>8} | {:>6}\n", "policy",
             "GB/s up/down/cap", "slots", "mb", "ovl", "simulated", "exposed", "measured", "(range)",
             "exposed", "error");
  std::vector<double> errors;
  int exposed = 0;
  for (const Point& point : points) {
    const CpuDeviceOptions device = split_device(point.links, {point.capacity_mb * 1'000'000});
    const SessionOptions options = session_options(device, kSlotTokens);
    const BatchGeometry batch{
        .slots = point.slots, .slot_tokens = kSlotTokens, .micro_batch = point.micro_batch};
    const Machine machine = machine_of(device);
    const PlannedStep planned =
        plan_step(planning_inputs(architecture, options, machine, costs, batch), point.policy);
    Run run(architecture, options, planned.program);
    run.step();
    if (planned.plan.optimizer_overlap) run.step();  // the first one has no updates to hide
    std::vector<Seconds> seconds;
    std::vector<double> exposed_parts;
    std::vector<OpTiming> timings;
    for (int r = 0; r < repeats; ++r) {
      StepOutcome outcome = run.step(true);
      seconds.push_back(outcome.seconds);
      exposed_parts.push_back(1 -
                              busy(planned.program, outcome.timings, StreamId::compute) / outcome.seconds);
      timings = std::move(outcome.timings);
    }
    const Seconds measured = median(seconds), simulated = planned.simulation.step;
    const double error = (simulated - measured) / measured;
    const double simulated_exposed = planned.simulation.exposed / simulated;
    errors.push_back(std::abs(error));
    exposed += simulated_exposed >= 0.15 && median(exposed_parts) >= 0.15 ? 1 : 0;
    fmt::print(
        "{:<12} {:>5g}/{:<4g}/{:<4g} {:>6} {:>3} {:>3} | {:>8.3f} s {:>7.0f}% | {:>8.3f} s ({:.3f} - {:.3f}) "
        "{:>7.0f}% | {:>+5.1f}%\n",
        point.policy, point.links.h2d, point.links.d2h, point.links.duplex, point.slots,
        planned.plan.batch.micro_batch, planned.plan.optimizer_overlap ? "on" : "off", simulated,
        100 * simulated_exposed, measured, *std::min_element(seconds.begin(), seconds.end()),
        *std::max_element(seconds.begin(), seconds.end()), 100 * median(exposed_parts), 100 * error);
    std::fflush(stdout);
    if (verbose) print_ops(planned, timings, {.costs = costs, .machine = machine});
  }
  const double middle = median(errors);
  fmt::print(
      "load average {:.1f}; {} points, {} with 15 % or more of the step exposed; largest error {:.1f} %\n",
      load_average(), errors.size(), exposed, 100 * *std::max_element(errors.begin(), errors.end()));
  const bool holds = middle <= 0.08 && exposed >= 4 && errors.size() >= 12;
  fmt::print("{}: median error of the simulated step {:.1f} % (bar: at most 8 %)\n",
             holds ? "holds" : "does NOT hold", 100 * middle);
  return holds ? 0 : 1;
}

// ---- Real training on the CPU ----

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The matrix products of one step at their shapes, each as one call of oneDNN.
class StepProducts {
 public:
  StepProducts(const Architecture& a, const BatchGeometry& batch, int threads) {
    const std::int64_t rows = batch.micro_batch * batch.slot_tokens;
    const std::int64_t head_rows = std::min<std::int64_t>(batch.slot_tokens, 256);
    const auto add = [&](std::int64_t product_rows, std::int64_t in, std::int64_t out, double calls) {
      for (const bench::Product product :
           {bench::Product::forward, bench::Product::input_gradient, bench::Product::weight_gradient}) {
        const bench::ProductShape shape{product, DataType::bf16, product_rows, in, out};
        const auto bytes = [](std::int64_t elements, std::int64_t size) {
          return std::vector<std::byte>(static_cast<std::size_t>(elements * size));
        };
        auto buffers =
            std::make_unique<Buffers>(Buffers{bytes(product_rows * in, 2), bytes(product_rows * out, 2),
                                              bytes(in * out, 2), bytes(in * out, 4)});
        auto call = std::make_unique<bench::OneDnnProduct>(shape, threads, buffers->x.data(),
                                                           buffers->y.data(), buffers->weight.data(),
                                                           reinterpret_cast<float*>(buffers->dweight.data()));
        products_.push_back({shape, calls, std::move(buffers), std::move(call)});
      }
    };
    const double layer_calls = static_cast<double>(a.layers) *
                               static_cast<double>(batch.slots * batch.slot_tokens) /
                               static_cast<double>(rows);
    add(rows, a.hidden, a.qkv_width(), layer_calls);
    add(rows, a.query_width(), a.hidden, layer_calls);
    add(rows, a.hidden, 2 * a.ffn, layer_calls);
    add(rows, a.ffn, a.hidden, layer_calls);
    add(head_rows, a.hidden, a.vocab,
        static_cast<double>(batch.slots * batch.slot_tokens) / static_cast<double>(head_rows));
  }

  // GFLOP/s of all of them together, each at its best of some calls.
  double rate() {
    double flops = 0, seconds = 0;
    for (Entry& entry : products_) {
      double best = 1e30;
      for (int i = 0; i < 5; ++i) {
        const double begin = wall_seconds();
        entry.call->run();
        best = std::min(best, wall_seconds() - begin);
      }
      flops += entry.calls * entry.shape.flops();
      seconds += entry.calls * best;
    }
    return flops / seconds / 1e9;
  }

 private:
  struct Buffers {
    std::vector<std::byte> x, y, weight, dweight;
  };
  struct Entry {
    bench::ProductShape shape;
    double calls;
    std::unique_ptr<Buffers> buffers;
    std::unique_ptr<bench::OneDnnProduct> call;
  };
  std::vector<Entry> products_;
};

int cpu_speed(int repeats, std::int64_t layers, std::int64_t slots) {
  const Architecture architecture = llama_135m(layers, 49152);
  const int threads = available_cores();
  const CpuDeviceOptions device{.compute_threads = threads, .host_threads = threads};
  const SessionOptions options = session_options(device, kSlotTokens);
  const CostTable costs =
      measure_costs(architecture, {.device = device, .slot_tokens = kSlotTokens, .quick = true});
  const Machine machine = machine_of(device);
  const BatchGeometry batch{.slots = slots, .slot_tokens = kSlotTokens, .micro_batch = 0};
  const PlannedStep planned =
      plan_step(planning_inputs(architecture, options, machine, costs, batch), "auto");
  const auto parameters = static_cast<double>(parameter_count(architecture));
  const auto tokens = static_cast<double>(slots * kSlotTokens);
  fmt::print(
      "{}; {:.1f} M parameters, bf16, {} slots of {} tokens, all supervised; plan {}, micro-batch {}\n",
      costs.machine, parameters / 1e6, slots, kSlotTokens, planned.plan.policy,
      planned.plan.batch.micro_batch);
  StepProducts products(architecture, planned.plan.batch, threads);
  Run run(architecture, options, planned.program);
  for (int i = 0; i < 2; ++i) run.step();
  products.rate();
  fmt::print("{:>10} {:>8} {:>16} {:>16} {:>8} {:>12}\n", "step", "tok/s", "6 N, GFLOP/s", "GEMM, GFLOP/s",
             "part", "cores busy");
  std::vector<double> parts;
  std::vector<OpTiming> timings;
  for (int r = 0; r < repeats; ++r) {
    const double before = products.rate();
    const double processor = processor_seconds();
    StepOutcome outcome = run.step(true);
    const double cores = (processor_seconds() - processor) / outcome.seconds;
    const double rate = 0.5 * (before + products.rate());
    const double achieved = 6 * parameters * tokens / outcome.seconds / 1e9;
    parts.push_back(achieved / rate);
    timings = std::move(outcome.timings);
    fmt::print("{:>8.3f} s {:>8.1f} {:>16.1f} {:>16.1f} {:>7.1f}% {:>12.2f}\n", outcome.seconds,
               tokens / outcome.seconds, achieved, rate, 100 * parts.back(), cores);
    std::fflush(stdout);
  }
  print_ops(planned, timings, {.costs = costs, .machine = machine});
  fmt::print("simulated step {:.3f} s; load average {:.1f}\n", planned.simulation.step, load_average());
  const double part = median(parts);
  fmt::print("{}: a whole step runs at {:.1f} % of the GEMM rate (bar: at least 40 %)\n",
             part >= 0.4 ? "holds" : "does NOT hold", 100 * part);
  return part >= 0.4 ? 0 : 1;
}

}  // namespace
}  // namespace lazytrain

int main(int argc, char** argv) {
  using namespace lazytrain;
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  try {
    if (words.size() >= 2 && words[0] == "calibrate") return calibrate(words[1], has("--quick"));
    if (words.size() >= 2 && words[0] == "simulator-error")
      return simulator_error(words[1], has("--quick") ? 1 : 5, has("--ops"));
    if (!words.empty() && words[0] == "cpu-speed")
      return has("--quick") ? cpu_speed(2, 6, 2) : cpu_speed(5, 30, 4);
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return 1;
  }
  return 2;
}
