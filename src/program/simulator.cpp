#include "program/simulator.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kGiga = 1e9;
constexpr Seconds kSoon = 1e-12;  // times this close are the same
constexpr auto kCompute = static_cast<std::size_t>(StreamId::compute);
constexpr auto kHost = static_cast<std::size_t>(StreamId::host);

bool is_link(StreamId stream) {
  return stream == StreamId::h2d || stream == StreamId::d2h;
}

// GB/s of a direction when it is alone.
double link_rate(StreamId stream, const SimulationInput& input) {
  const double link = stream == StreamId::h2d ? input.machine.h2d : input.machine.d2h;
  const double memory = stream == StreamId::h2d ? input.costs.copy_h2d : input.costs.copy_d2h;
  if (link <= 0) return memory > 0 ? memory : 1e3;
  return memory > 0 ? std::min(link, memory) : link;
}

// A gradient leaves no faster than it is converted and summed.
double op_rate(const Op& op, const SimulationInput& input) {
  double rate = link_rate(op.stream, input) * kGiga;
  const bool gradient = op.kind == OpKind::offload_gradient || op.kind == OpKind::offload_head_gradient;
  if (gradient && op.elements > 0 && input.costs.offload_gradient_per_element > 0) {
    const double conversion = input.costs.offload_gradient_per_element * static_cast<double>(op.elements);
    rate = std::min(rate, static_cast<double>(op.bytes.value) / conversion);
  }
  return rate;
}

// One set of cores does the work of both streams, each at half speed while both are busy.
bool shares_cores(const Machine& machine) {
  return (machine.tiers == TierModel::unified || machine.emulated) && !machine.split_cores;
}

std::int64_t slots_of(const Program& program, const Op& op) {
  return op.micro_batch < 0 ? program.batch.slots : program.batch.slots_of(op.micro_batch);
}

}  // namespace

Seconds op_seconds(const Program& program, const Op& op, const SimulationInput& input) {
  const CostTable& costs = input.costs;
  const auto slots = static_cast<double>(slots_of(program, op));
  const auto elements = static_cast<double>(op.elements);
  const Seconds overhead = costs.op_overhead;
  switch (op.kind) {
    case OpKind::forward:
      return overhead + slots * costs.layer.forward;
    case OpKind::recompute:
      return overhead + slots * (costs.layer.recompute[static_cast<std::size_t>(op.stash)] +
                                 (op.full ? costs.layer.down_projection : 0));
    case OpKind::backward:
      return overhead + slots * costs.layer.backward;
    case OpKind::head_forward_backward:
      return overhead + slots * costs.head * input.supervised_fraction;
    case OpKind::head_forward:
      return overhead + slots * costs.head_forward * input.supervised_fraction;
    case OpKind::gather_embedding:
      return overhead + slots * costs.gather_embedding;
    case OpKind::scatter_embedding_gradient:
      return overhead + slots * costs.scatter_embedding;
    case OpKind::finish_embedding_gradient:
      return overhead + costs.finish_embedding;
    case OpKind::zero_embedding_gradient:
      return overhead + costs.finish_embedding / 2;
    case OpKind::update_group:
      return overhead +
             elements * (input.machine.optimizer_rate > 0
                             ? std::max(1.0 / input.machine.optimizer_rate, costs.update_per_parameter)
                             : costs.update_per_parameter);
    case OpKind::reduce_norm:
    case OpKind::collect:
      return overhead;
    case OpKind::offload_gradient:
    case OpKind::offload_head_gradient:
      if (!is_link(op.stream)) return overhead + elements * costs.offload_gradient_per_element;
      break;
    case OpKind::head_argmax:
    case OpKind::decode_layer:
      return overhead + costs.layer.forward;
    default:
      break;
  }
  return overhead + static_cast<double>(op.bytes.value) / op_rate(op, input);
}

Simulation simulate(const Program& program, const SimulationInput& input) {
  const auto count = static_cast<OpIndex>(program.ops.size());
  Simulation result;
  result.ops.assign(program.ops.size(), {});
  std::array<std::vector<OpIndex>, kStreamCount> queue;
  for (OpIndex i = 0; i < count; ++i)
    queue[static_cast<std::size_t>(program.ops[static_cast<std::size_t>(i)].stream)].push_back(i);

  struct Running {
    OpIndex op = -1;
    double bytes = 0;   // of a transfer, still to move
    Seconds work = 0;   // of a compute or host op, still to do
    Seconds until = 0;  // earliest end (overhead of a transfer)
  };
  std::array<Running, kStreamCount> running;
  std::array<std::size_t, kStreamCount> next{};
  std::vector<bool> done(program.ops.size(), false);
  Seconds now = 0;
  OpIndex finished = 0;
  constexpr Seconds kNever = std::numeric_limits<double>::infinity();

  while (finished < count) {
    bool started = true;
    while (started) {
      started = false;
      for (std::size_t s = 0; s < kStreamCount; ++s) {
        if (running[s].op >= 0 || next[s] == queue[s].size()) continue;
        const OpIndex i = queue[s][next[s]];
        const Op& op = program.ops[static_cast<std::size_t>(i)];
        if (!std::all_of(op.after.begin(), op.after.end(),
                         [&](OpIndex other) { return done[static_cast<std::size_t>(other)]; }))
          continue;
        ++next[s];
        running[s].op = i;
        running[s].bytes = is_link(op.stream) ? static_cast<double>(op.bytes.value) : 0;
        running[s].work = is_link(op.stream) ? 0 : op_seconds(program, op, input);
        running[s].until = is_link(op.stream) ? now + input.costs.op_overhead : now;
        result.ops[static_cast<std::size_t>(i)].start = now;
        started = true;
      }
    }
    // Rates of the transfers under way: each its own, scaled down where both together pass the joint cap.
    std::array<double, kStreamCount> rate{};
    double together = 0;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (running[s].op < 0 || running[s].bytes <= 0) continue;
      rate[s] = op_rate(program.ops[static_cast<std::size_t>(running[s].op)], input);
      together += rate[s];
    }
    const double cap = input.machine.duplex * kGiga;
    if (cap > 0 && together > cap) {
      // Fair shares: a direction that asks for less than half leaves the rest to the other.
      double& up = rate[static_cast<std::size_t>(StreamId::h2d)];
      double& down = rate[static_cast<std::size_t>(StreamId::d2h)];
      const double smaller = std::min({up, down, cap / 2});
      if (up <= down)
        up = smaller, down = std::min(down, cap - up);
      else
        down = smaller, up = std::min(up, cap - down);
    }
    const bool contended = shares_cores(input.machine) && running[kCompute].op >= 0 && running[kHost].op >= 0;
    const double speed = contended ? 0.5 : 1;
    Seconds step = kNever;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (running[s].op < 0) continue;
      Seconds left = std::max(running[s].until - now, running[s].work / speed);
      if (running[s].bytes > 0) left = std::max(left, running[s].bytes / rate[s]);
      step = std::min(step, left);
    }
    check(step < kNever, "the simulated Program cannot deadlock");
    step = std::max(step, 0.0);
    now += step;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (running[s].op < 0) continue;
      if (running[s].bytes > 0) {
        running[s].bytes -= rate[s] * step;
        if (running[s].bytes < 0.5) running[s].bytes = 0;
      }
      if (running[s].work > 0) {
        running[s].work -= speed * step;
        if (running[s].work < kSoon) running[s].work = 0;
      }
      if (running[s].bytes > 0 || running[s].work > 0 || running[s].until > now + kSoon) continue;
      const auto i = static_cast<std::size_t>(running[s].op);
      result.ops[i].end = now;
      done[i] = true;
      running[s].op = -1;
      ++finished;
    }
  }
  result.step = now;
  bool head_seen = false;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.stream != StreamId::compute) continue;
    const Seconds took = op_seconds(program, op, input);
    result.compute += took;
    head_seen = head_seen || op.kind == OpKind::head_forward_backward;
    if (op.kind == OpKind::recompute || (head_seen && op.kind == OpKind::forward)) result.recompute += took;
  }
  result.exposed = std::max(0.0, result.step - result.compute);
  return result;
}

}  // namespace lazytrain
