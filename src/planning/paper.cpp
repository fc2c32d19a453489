#include "planning/paper.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "planning/policies.h"
#include "program/builder.h"

namespace lazytrain {
namespace {

constexpr double kTieBreak = 1e-4;        // of one layer's forward, per materialised and per host boundary
constexpr std::int64_t kNodeLimit = 200;  // branch-and-bound nodes of one solve
constexpr int kMostSolves = 12;           // with ever fewer boundaries on the device

// Windows: forward of layers 0..L-1, head, backward of layers L-1..0, tail.
struct Windows {
  std::int64_t layers;
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(2 * layers + 2); }
  [[nodiscard]] std::size_t forward(std::int64_t l) const { return static_cast<std::size_t>(l); }
  [[nodiscard]] std::size_t head() const { return static_cast<std::size_t>(layers); }
  [[nodiscard]] std::size_t backward(std::int64_t l) const {
    return static_cast<std::size_t>(2 * layers - l);
  }
  [[nodiscard]] std::size_t tail() const { return static_cast<std::size_t>(2 * layers + 1); }
};

// Bytes that a window takes beside its mandatory traffic.
double free_bytes(double rate, double seconds, double mandatory) {
  return std::max(0.0, rate * seconds - mandatory);
}

}  // namespace

double paper_objective(const PaperInstance& instance, const std::vector<BoundaryHome>& homes) {
  const Windows windows{instance.layers};
  const auto none = std::vector<double>(windows.count(), 0);
  // Down: what is still there after the tail has no window to hide in.
  const auto left_over = [&](double rate, const std::vector<double>& mandatory, auto moves) {
    double backlog = 0;
    for (std::size_t w = 0; w < windows.count(); ++w) {
      // Boundary w was made in window w - 1.
      if (w >= 1 && w + 1 < homes.size() && moves(homes[w])) backlog += instance.boundary_bytes;
      backlog -= std::min(backlog, free_bytes(rate, instance.window[w], mandatory[w]));
    }
    return backlog > 0 ? backlog / rate : 0;
  };
  // Up: the worst deadline; bytes given early serve every later one.
  const auto late = [&](double rate, const std::vector<double>& mandatory, auto moves) {
    double due = 0, hidden = 0, worst = 0;
    for (std::size_t w = windows.head(); w + 1 < windows.count(); ++w) {
      hidden += free_bytes(rate, instance.window[w], mandatory[w]);
      // Before window w + 1, the backward of layer 2 L - w - 1, which reads the boundary of that number.
      const std::int64_t b = 2 * instance.layers - static_cast<std::int64_t>(w) - 1;
      if (b < 1) continue;
      if (moves(homes[static_cast<std::size_t>(b)])) due += instance.boundary_bytes;
      worst = std::max(worst, due - hidden);
    }
    return worst > 0 ? worst / rate : 0;
  };
  const auto away = [](BoundaryHome home) {
    return home == BoundaryHome::host || home == BoundaryHome::disk;
  };
  const auto on_disk = [](BoundaryHome home) { return home == BoundaryHome::disk; };
  double objective = left_over(instance.d2h, instance.gradients, away) +
                     late(instance.h2d, instance.weights, away) +
                     left_over(instance.disk_write, none, on_disk) + late(instance.disk_read, none, on_disk);
  for (const BoundaryHome home : homes)
    objective += home == BoundaryHome::recomputed ? instance.recompute
                                                  : instance.tie_break * (on_disk(home) ? 3
                                                                          : away(home)  ? 2
                                                                                        : 1);
  return objective;
}

PaperPlacement solve_paper_instance(const PaperInstance& instance) {
  const std::int64_t layers = instance.layers;
  const Windows windows{layers};
  MilpProblem problem;
  // Bytes are counted in boundaries and seconds in recomputed layers, so that all coefficients are near 1 and
  // the solver's absolute tolerances mean the same for fast and slow machines.
  const double unit = instance.boundary_bytes;
  const double second = instance.recompute > 0 ? 1 / instance.recompute : 1;
  std::vector<std::vector<std::pair<std::int32_t, double>>> out(static_cast<std::size_t>(layers) + 1),
      in(static_cast<std::size_t>(layers) + 1);
  std::vector<std::pair<std::int32_t, std::pair<std::int64_t, std::int64_t>>> edges;
  for (std::int64_t s = 0; s < layers; ++s) {
    for (std::int64_t e = s + 1; e <= std::min(layers, s + instance.longest_segment); ++e) {
      const auto x =
          problem.add(MilpColumn{.name = fmt::format("x[{},{}]", s, e),
                                 .upper = 1,
                                 .cost = second * instance.recompute * static_cast<double>(e - s - 1),
                                 .integer = true});
      edges.push_back({x, {s, e}});
      out[static_cast<std::size_t>(s)].emplace_back(x, 1.0);
      in[static_cast<std::size_t>(e)].emplace_back(x, 1.0);
    }
  }
  std::vector<std::int32_t> device(static_cast<std::size_t>(layers) + 1, -1), host = device, disk = device;
  const auto rate = [&](double bytes_per_second) { return bytes_per_second / unit; };
  for (std::size_t b = 0; b <= static_cast<std::size_t>(layers); ++b) {
    const bool end = b == 0 || b == static_cast<std::size_t>(layers);
    device[b] = problem.add(MilpColumn{.name = fmt::format("g[{}]", b),
                                       .lower = end ? 1.0 : 0.0,
                                       .upper = 1,
                                       .cost = second * instance.tie_break,
                                       .integer = true});
    host[b] = problem.add(MilpColumn{.name = fmt::format("c[{}]", b),
                                     .upper = end ? 0.0 : 1.0,
                                     .cost = second * 2 * instance.tie_break,
                                     .integer = true});
    if (!end && instance.disk_boundaries > 0)
      disk[b] = problem.add(MilpColumn{.name = fmt::format("n[{}]", b),
                                       .upper = 1,
                                       .cost = second * 3 * instance.tie_break,
                                       .integer = true});
    for (auto* flow : {&out[b], &in[b]}) {
      if (flow->empty()) continue;
      MilpRow row{.name = fmt::format("path[{}]", b), .lower = 0, .upper = 0, .coefficients = *flow};
      row.coefficients.emplace_back(device[b], -1.0);
      row.coefficients.emplace_back(host[b], -1.0);
      if (disk[b] >= 0) row.coefficients.emplace_back(disk[b], -1.0);
      problem.add(std::move(row));
    }
  }
  const auto capacity = [&](const char* name, const std::vector<std::int32_t>& columns, std::int64_t most) {
    MilpRow row{.name = name, .upper = static_cast<double>(most), .coefficients = {}};
    for (const std::int32_t column : columns)
      if (column >= 0) row.coefficients.emplace_back(column, 1.0);
    if (!row.coefficients.empty()) problem.add(std::move(row));
  };
  capacity("device", device, instance.device_boundaries);
  capacity("host", host, instance.host_boundaries);
  capacity("disk", disk, instance.disk_boundaries);

  // Moves one direction's bytes, those of boundaries with a home among `homes`.
  using Homes = std::vector<const std::vector<std::int32_t>*>;
  const auto link = [&](const char* name, double bytes_per_second, const std::vector<double>& mandatory,
                        std::size_t first, bool down, const Homes& homes) {
    const auto subtract = [&](MilpRow& row, std::int64_t b) {
      for (const auto* home : homes)
        if (const std::int32_t column = (*home)[static_cast<std::size_t>(b)]; column >= 0)
          row.coefficients.emplace_back(column, -1.0);
    };
    std::vector<std::pair<std::int32_t, double>> moved;
    for (std::size_t w = first; w < windows.count(); ++w) {
      const double room = free_bytes(bytes_per_second, instance.window[w], mandatory[w]) / unit;
      const auto bytes = problem.add(MilpColumn{.name = fmt::format("{}[{}]", name, w)});
      const auto slack = problem.add(
          MilpColumn{.name = fmt::format("eps_{}[{}]", name, w), .cost = second / rate(bytes_per_second)});
      problem.add(MilpRow{.name = fmt::format("window_{}[{}]", name, w),
                          .upper = room,
                          .coefficients = {{bytes, 1.0}, {slack, -1.0}}});
      moved.emplace_back(bytes, 1.0);
      // Down: no more than was produced. Up: no less than is due before the next window.
      MilpRow row{.name = fmt::format("order_{}[{}]", name, w), .coefficients = moved};
      (down ? row.upper : row.lower) = 0;
      for (std::int64_t b = 1; b < layers; ++b) {
        const bool counts = down ? static_cast<std::size_t>(b) <= w : windows.backward(b) <= w + 1;
        if (counts) subtract(row, b);
      }
      problem.add(std::move(row));
    }
    MilpRow all{.name = fmt::format("all_{}", name), .lower = 0, .upper = 0, .coefficients = moved};
    for (std::int64_t b = 1; b < layers; ++b) subtract(all, b);
    problem.add(std::move(all));
  };
  link("d2h", instance.d2h, instance.gradients, 1, true, {&host, &disk});
  link("h2d", instance.h2d, instance.weights, windows.head(), false, {&host, &disk});
  if (instance.disk_boundaries > 0) {
    const std::vector<double> none(windows.count(), 0);
    link("disk_write", instance.disk_write, none, 1, true, {&disk});
    link("disk_read", instance.disk_read, none, windows.head(), false, {&disk});
  }

  const MilpSolution solution = solve(problem, {.gap = 1e-3, .node_limit = kNodeLimit, .seed = 0});
  PaperPlacement placement;
  placement.status = solution.status;
  if (solution.values.empty()) return placement;
  placement.objective = solution.objective / second;
  placement.bound = solution.bound / second;
  for (std::size_t b = 0; b <= static_cast<std::size_t>(layers); ++b) {
    const auto chosen = [&](const std::vector<std::int32_t>& columns) {
      return columns[b] >= 0 && solution.values[static_cast<std::size_t>(columns[b])] > 0.5;
    };
    placement.homes.push_back(chosen(device) ? BoundaryHome::device
                              : chosen(host) ? BoundaryHome::host
                              : chosen(disk) ? BoundaryHome::disk
                                             : BoundaryHome::recomputed);
  }
  return placement;
}

PaperInstance make_paper_instance(const PlanningInputs& inputs, const BatchGeometry& batch,
                                  std::int64_t device_boundaries, std::int64_t host_boundaries,
                                  std::int64_t disk_boundaries) {
  const LoweringContext& context = inputs.context;
  const std::int64_t layers = context.architecture.layers;
  const Windows windows{layers};
  const auto slots = static_cast<double>(batch.slots);
  const auto bytes_of = [&](std::size_t group) {
    return static_cast<double>(context.groups[group].elements * context.type_bytes);
  };
  const auto rate_of = [](double link, double memory) {
    if (link <= 0) return (memory > 0 ? memory : 1e3) * 1e9;
    return (memory > 0 ? std::min(link, memory) : link) * 1e9;
  };
  PaperInstance instance;
  instance.layers = layers;
  instance.boundary_bytes =
      static_cast<double>(batch.slots * batch.slot_tokens * context.architecture.hidden * context.type_bytes);
  instance.device_boundaries = device_boundaries;
  instance.host_boundaries = host_boundaries;
  instance.disk_boundaries = disk_boundaries;
  instance.disk_read = inputs.machine.disk_read * 1e9;
  instance.disk_write = inputs.machine.disk_write * 1e9;
  // The published program has one forward time for all layers: their mean, where they differ.
  for (const LayerKind kind : kLayerKinds) {
    const double share =
        static_cast<double>(context.architecture.layers_of(kind)) / static_cast<double>(layers);
    instance.recompute += share * (slots * inputs.costs.of(kind).forward);
  }
  instance.tie_break = kTieBreak * instance.recompute;
  instance.d2h = rate_of(inputs.machine.d2h, inputs.costs.copy_d2h);
  instance.h2d = rate_of(inputs.machine.h2d, inputs.costs.copy_h2d);
  instance.window.assign(windows.count(), 0);
  instance.gradients.assign(windows.count(), 0);
  instance.weights.assign(windows.count(), 0);
  const bool tied = context.architecture.tied_head;
  const std::size_t head = context.groups.size() - 1;
  for (std::int64_t l = 0; l < layers; ++l) {
    const std::size_t group = static_cast<std::size_t>(l) + 1;
    const LayerCosts& costs = inputs.costs.of(context.architecture.kind_of(l));
    instance.window[windows.forward(l)] = slots * costs.forward;
    instance.window[windows.backward(l)] =
        slots * (costs.recompute[0] + costs.down_projection + costs.backward);
    // Weights come one window ahead; two slots still hold the last two layers when the backward begins.
    if (l >= 1) instance.weights[windows.forward(l - 1)] += bytes_of(group);
    if (l + 2 < layers) instance.weights[windows.backward(l + 1)] += bytes_of(group);
    instance.gradients[windows.backward(l) + 1] += bytes_of(group);
  }
  instance.window[windows.head()] = slots * inputs.costs.head * inputs.supervised_fraction;
  instance.weights[windows.head() - 1] += bytes_of(head) + (tied ? bytes_of(0) : 0.0);
  instance.gradients[windows.head() + 1] +=
      bytes_of(head) +
      (tied ? bytes_of(0) + static_cast<double>(gradient_rows_bytes(context, batch).value) : 0.0);
  return instance;
}

namespace {

struct Capacity {
  std::int64_t device, host, disk;  // boundaries
};

// How many boundaries fit beside the rest of the step, by lowering a plan whose boundaries are known.
Capacity measure_capacity(const PlanningInputs& inputs, Plan probe, const WorkspaceBytes& workspace,
                          LoweringDepth depth) {
  const std::int64_t layers = inputs.context.architecture.layers;
  const bool unified = inputs.context.tiers == TierModel::unified;
  std::int64_t on_device = 1;  // the last one, beside which nothing of the rest is larger
  for (std::int64_t b = 0; b < layers; ++b) {
    BoundaryPlan& boundary = probe.boundaries[static_cast<std::size_t>(b)];
    boundary.materialised = !unified || b % PaperInstance{}.longest_segment == 0;
    boundary.device_micro_batches = 0;
    if (unified && boundary.materialised) ++on_device;
  }
  const Program program = lower_train_step(inputs.context, probe, workspace, depth);
  const std::int64_t size = probe.batch.slots * probe.batch.slot_tokens * inputs.context.architecture.hidden *
                            inputs.context.type_bytes;
  const auto floor_of = [&](Bytes room) {
    return room.value >= 0 ? room.value / size : -((-room.value + size - 1) / size);
  };
  return {.device = on_device + floor_of(inputs.machine.device_capacity - program.device_bytes),
          .host = unified ? 0 : layers - 1 + floor_of(inputs.machine.host_capacity - program.host_bytes),
          // One less for the blocks that its objects end in.
          .disk = unified || inputs.machine.disk_capacity.value == 0
                      ? 0
                      : std::max<std::int64_t>(
                            0, floor_of(inputs.machine.disk_capacity - program.disk_bytes) - 1)};
}

}  // namespace

std::optional<Plan> solve_paper(const PlanningInputs& inputs, const Plan& plan) {
  const std::int64_t layers = inputs.context.architecture.layers;
  const std::int64_t micro_batches = plan.batch.micro_batches();
  const WorkspaceBytes workspace = inputs.workspace(plan.batch.micro_batch, plan.batch.slot_tokens);
  if (layers > kMostPaperLayers) return std::nullopt;
  int solves = 0;
  std::vector<Plan> ladder = knob_ladder(plan, inputs);
  const auto room = [&](const Plan& rung, LoweringDepth depth) -> std::optional<Capacity> {
    const Capacity capacity = measure_capacity(inputs, rung, workspace, depth);
    if (capacity.device < 2 || capacity.host < 0) return std::nullopt;
    return capacity;
  };
  // An estimate is never too small: where it finds no room at the leanest knobs, no layout will.
  if (!room(ladder.back(), LoweringDepth::estimate)) return std::nullopt;
  for (Plan& candidate : ladder) {
    if (solves >= kMostSolves) break;
    if (!room(candidate, LoweringDepth::estimate)) continue;
    const std::optional<Capacity> found = room(candidate, LoweringDepth::memory);
    if (!found) continue;
    Capacity capacity = *found;
    while (capacity.device >= 2 && capacity.host >= 0 && solves < kMostSolves) {
      ++solves;
      const PaperPlacement placement = solve_paper_instance(
          make_paper_instance(inputs, plan.batch, capacity.device, capacity.host, capacity.disk));
      if (placement.homes.empty()) break;
      for (std::size_t b = 0; b <= static_cast<std::size_t>(layers); ++b)
        candidate.boundaries[b] = {
            .materialised = placement.homes[b] != BoundaryHome::recomputed,
            .device_micro_batches = placement.homes[b] == BoundaryHome::device ? micro_batches : 0,
            .disk_micro_batches = placement.homes[b] == BoundaryHome::disk ? micro_batches : 0};
      candidate.objective = placement.objective;
      candidate.bound = placement.bound;
      // The layout is the slow part: it is left out where not even the bytes alive fit.
      Program program = lower_train_step(inputs.context, candidate, workspace, LoweringDepth::estimate);
      if (fits(program, inputs.machine)) {
        lay_out(program);
        if (fits(program, inputs.machine)) return candidate;
      }
      // The program does not count the boundaries that a recomputed block holds for a while, nor gaps between
      // buffers: leave that much free and solve again.
      if (program.device_bytes > inputs.machine.device_capacity)
        --capacity.device;
      else if (program.disk_bytes > inputs.machine.disk_capacity)
        --capacity.disk;
      else
        --capacity.host;
    }
  }
  return std::nullopt;
}

}  // namespace lazytrain
