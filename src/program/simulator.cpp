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

// GB/s of a direction when it is alone.
double link_rate(StreamId stream, const SimulationInput& input) {
  if (is_disk(stream)) {
    const double disk = stream == StreamId::disk_read ? input.machine.disk_read : input.machine.disk_write;
    return disk > 0 ? disk : 1e3;
  }
  const double link = stream == StreamId::h2d ? input.machine.h2d : input.machine.d2h;
  const double memory = stream == StreamId::h2d ? input.costs.copy_h2d : input.costs.copy_d2h;
  if (link <= 0) return memory > 0 ? memory : 1e3;
  return memory > 0 ? std::min(link, memory) : link;
}

// Bytes per second at which a gradient is converted and summed; 0 = not a gradient, or not known.
double conversion_rate(const Op& op, const SimulationInput& input) {
  const bool gradient = op.kind == OpKind::offload_gradient || op.kind == OpKind::offload_head_gradient;
  const double seconds = input.costs.offload_gradient_per_element * static_cast<double>(op.elements);
  return gradient && seconds > 0 ? static_cast<double>(op.bytes.value) / seconds : 0;
}

// A gradient leaves no faster than it is converted.
double op_rate(const Op& op, const SimulationInput& input) {
  const double rate = link_rate(op.stream, input) * kGiga, conversion = conversion_rate(op, input);
  return conversion > 0 ? std::min(rate, conversion) : rate;
}

// Bytes per second of a transfer's own processor work, where cores copy (0: an engine does).
double copying_rate(const Op& op, const SimulationInput& input) {
  if (!input.machine.emulated || is_disk(op.stream)) return 0;
  const double copy = (op.stream == StreamId::h2d ? input.costs.copy_h2d : input.costs.copy_d2h) * kGiga;
  const double conversion = conversion_rate(op, input);
  return conversion > 0 && (copy <= 0 || conversion < copy) ? conversion : copy;
}

// What a stream wants of a set of cores: threads, each for this part of the time.
struct Demand {
  double threads = 0, part = 0;
};

// Shares `cores` as a fair scheduler does: no thread gets more than it wants, and what some leave is divided
// among the others. Returns the part of the time that a thread of each stream gets.
std::array<double, kStreamCount> fair_parts(const std::array<Demand, kStreamCount>& demands, double cores) {
  std::array<double, kStreamCount> parts{};
  std::array<bool, kStreamCount> settled{};
  for (std::size_t round = 0; round < kStreamCount; ++round) {
    double threads = 0;
    for (std::size_t s = 0; s < kStreamCount; ++s)
      if (!settled[s]) threads += demands[s].threads;
    if (threads <= 0) break;
    const double fair = std::max(0.0, cores) / threads;
    bool changed = false;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (settled[s] || demands[s].part > fair) continue;
      parts[s] = demands[s].part;
      cores -= demands[s].threads * demands[s].part;
      settled[s] = changed = true;
    }
    if (changed) continue;
    for (std::size_t s = 0; s < kStreamCount; ++s)
      if (!settled[s]) parts[s] = fair;
    break;
  }
  return parts;
}

// As fast as it goes.
Seconds update_seconds(const Op& op, const CostTable& costs) {
  const bool on_device = op.stream == StreamId::compute;
  const Seconds fp32 = on_device ? costs.update_on_device_per_parameter : costs.update_per_parameter;
  const Seconds eight_bit =
      on_device ? costs.update_on_device_eight_bit_per_parameter : costs.update_eight_bit_per_parameter;
  return static_cast<double>(op.elements - op.eight_bit_elements) * fp32 +
         static_cast<double>(op.eight_bit_elements) * eight_bit;
}

// What the optimizer rate of the machine's host makes it last at least; 0 where it is not paced.
Seconds paced_seconds(const Op& op, const SimulationInput& input) {
  if (input.machine.optimizer_rate <= 0 || op.stream != StreamId::host) return 0;
  return static_cast<double>(op.elements) / input.machine.optimizer_rate;
}

// A paced update sleeps for a part of its time.
double busy_part(const Op& op, const SimulationInput& input) {
  if (op.kind != OpKind::update_group) return 1;
  const Seconds paced = paced_seconds(op, input), busy = update_seconds(op, input.costs);
  return paced > busy ? busy / paced : 1;
}

std::int64_t slots_of(const Program& program, const Op& op) {
  return op.micro_batch < 0 ? program.batch.slots : program.batch.slots_of(op.micro_batch);
}

double part_of_head(const Program& program, const Op& op) {
  return op.slice < 0 ? 1 : 1 / static_cast<double>(program.head_slices);
}

}  // namespace

Seconds op_seconds(const Program& program, const Op& op, const SimulationInput& input) {
  const CostTable& costs = input.costs;
  const auto slots = static_cast<double>(slots_of(program, op));
  const auto elements = static_cast<double>(op.elements);
  const Seconds overhead = costs.op_overhead;
  switch (op.kind) {
    case OpKind::forward:
      return overhead + slots * costs.of(program.kind_of(op)).forward;
    case OpKind::recompute: {
      const LayerCosts& layer = costs.of(program.kind_of(op));
      return overhead + slots * (layer.recompute[static_cast<std::size_t>(op.stash)] +
                                 (op.full ? layer.down_projection : 0));
    }
    case OpKind::backward: {
      const LayerCosts& layer = costs.of(program.kind_of(op));
      constexpr auto all = static_cast<std::size_t>(StashLevel::all);
      return overhead + slots * (layer.backward + (op.stash == StashLevel::all ? layer.recompute[all] : 0));
    }
    case OpKind::head_forward_backward:
      return overhead + slots * costs.head * input.supervised_fraction;
    case OpKind::head_forward:
      return overhead + part_of_head(program, op) * slots * costs.head_forward * input.supervised_fraction;
    case OpKind::head_backward:  // its logits are computed again
      return overhead + part_of_head(program, op) * slots * costs.head * input.supervised_fraction;
    case OpKind::sum_head_gradient:
      return overhead + costs.finish_embedding;
    case OpKind::gather_embedding:
      return overhead + slots * costs.gather_embedding;
    case OpKind::scatter_embedding_gradient:
      return overhead + slots * costs.scatter_embedding;
    case OpKind::finish_embedding_gradient:
      return overhead + costs.finish_embedding;
    case OpKind::zero_embedding_gradient:
      return overhead + costs.zero_embedding;
    case OpKind::update_group:
      return overhead + std::max(update_seconds(op, costs), paced_seconds(op, input));
    case OpKind::reduce_norm:
    case OpKind::collect:
      return overhead;
    case OpKind::offload_gradient:
    case OpKind::offload_head_gradient: {
      // Rows that a tied head's gradient leaves in fp32: to copy an element takes about as long as to round
      // it.
      const double rows = static_cast<double>(op.bytes.value - op.elements * program.type_bytes) / 4;
      if (!is_link(op.stream)) return overhead + (elements + rows) * costs.offload_gradient_per_element;
      break;
    }
    case OpKind::head_argmax:
      return overhead +
             costs.of(program.layer_kinds.empty() ? LayerKind::attention : program.layer_kinds.front())
                 .forward;
    case OpKind::decode_layer:
      return overhead + costs.of(program.kind_of(op)).forward;
    default:
      break;
  }
  return overhead + static_cast<double>(op.bytes.value) / op_rate(op, input);
}

namespace {

// Two directions under a joint cap: fair shares; one that asks for less than half leaves the rest to the
// other.
void share(double& up, double& down, double cap) {
  if (cap <= 0 || up + down <= cap) return;
  const double smaller = std::min({up, down, cap / 2});
  if (up <= down)
    up = smaller, down = std::min(down, cap - up);
  else
    down = smaller, up = std::min(up, cap - down);
}

// Bytes of host memory that an update reads and writes: gradient, weight, residual of bf16 weights, two
// moments.
double update_traffic(const Program& program, const Op& op) {
  if (op.kind != OpKind::update_group) return 0;
  const double type = static_cast<double>(program.type_bytes), residual = program.type_bytes == 2 ? 4 : 0;
  const auto eight_bit = static_cast<double>(op.eight_bit_elements);
  const double others = static_cast<double>(op.elements) - eight_bit;
  return static_cast<double>(op.elements) * (3 * type + residual) + 4.06 * eight_bit + 16 * others;
}

struct Running {
  OpIndex op = -1;
  Seconds start = 0;  // earlier, its stream is still waking up
  double bytes = 0;   // of a transfer, still to move
  Seconds work = 0;   // of a compute or host op, still to do
  Seconds until = 0;  // earliest end (overhead of a transfer)
};

// Progress per second of what runs now.
struct Rates {
  std::array<double, kStreamCount> bytes{}, work{};
};

Rates rates_of(const Program& program, const SimulationInput& input,
               const std::array<Running, kStreamCount>& running, Seconds now) {
  const Machine& machine = input.machine;
  const auto op_of = [&](std::size_t s) -> const Op& {
    return program.ops[static_cast<std::size_t>(running[s].op)];
  };
  const auto active = [&](std::size_t s) { return running[s].op >= 0 && running[s].start <= now + kSoon; };
  Rates rates;
  rates.work.fill(1);
  // Transfers: each its own rate, less where two directions pass their joint cap.
  for (std::size_t s = 0; s < kStreamCount; ++s) {
    if (!active(s) || running[s].bytes <= 0) continue;
    rates.bytes[s] = op_rate(op_of(s), input);
  }
  const auto rate = [&](StreamId stream) -> double& { return rates.bytes[static_cast<std::size_t>(stream)]; };
  share(rate(StreamId::h2d), rate(StreamId::d2h), machine.duplex * kGiga);
  share(rate(StreamId::disk_read), rate(StreamId::disk_write), machine.disk_duplex * kGiga);
  // Host memory: every link and disk passes through it once, updates bring their own traffic.
  if (machine.host_memory > 0 && machine.tiers == TierModel::tiered) {
    double traffic =
        rate(StreamId::h2d) + rate(StreamId::d2h) + rate(StreamId::disk_read) + rate(StreamId::disk_write);
    if (active(kHost) && running[kHost].work > 0) {
      const Op& op = op_of(kHost);
      const Seconds alone = op_seconds(program, op, input);
      if (alone > 0) traffic += update_traffic(program, op) / alone;
    }
    const double slower = machine.host_memory * kGiga / traffic;
    if (traffic > 0 && slower < 1) {
      for (double& bytes : rates.bytes) bytes *= slower;
      if (active(kHost) && op_of(kHost).kind == OpKind::update_group) rates.work[kHost] *= slower;
    }
  }
  // Cores that several streams share: all of them, or those that compute leaves to the others.
  if (machine.tiers != TierModel::unified && !machine.emulated) return rates;
  std::array<Demand, kStreamCount> demands{};
  for (std::size_t s = 0; s < kStreamCount; ++s) {
    if (!active(s)) continue;
    if (running[s].bytes > 0) {
      const double copying = copying_rate(op_of(s), input);
      if (copying > 0) demands[s] = {1, std::min(1.0, rates.bytes[s] / copying)};
    } else if (running[s].work > 0) {
      if (s == kCompute && !machine.split_cores)
        demands[s] = {static_cast<double>(machine.compute_threads), 1};
      if (s == kHost) demands[s] = {static_cast<double>(machine.host_threads), busy_part(op_of(s), input)};
    }
  }
  const int cores =
      machine.split_cores ? machine.host_threads : std::max(machine.compute_threads, machine.host_threads);
  const std::array<double, kStreamCount> parts = fair_parts(demands, cores);
  for (std::size_t s = 0; s < kStreamCount; ++s) {
    if (demands[s].threads <= 0) continue;
    const double speed = parts[s] / demands[s].part;
    rates.bytes[s] *= speed;
    rates.work[s] *= speed;
  }
  return rates;
}

}  // namespace

Simulation simulate(const Program& program, const SimulationInput& input) {
  const auto count = static_cast<OpIndex>(program.ops.size());
  Simulation result;
  result.ops.assign(program.ops.size(), {});
  std::array<std::vector<OpIndex>, kStreamCount> queue;
  for (OpIndex i = 0; i < count; ++i)
    queue[static_cast<std::size_t>(program.ops[static_cast<std::size_t>(i)].stream)].push_back(i);

  std::array<Running, kStreamCount> running;
  std::array<std::size_t, kStreamCount> next{};
  std::array<Seconds, kStreamCount> idle_since{};
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
        Running& slot = running[s];
        slot.op = i;
        slot.start = now;
        // A thread that slept until its op could start has to wake up. A paced link makes up for it.
        const bool paced = is_link(op.stream) && !is_disk(op.stream) &&
                           (op.stream == StreamId::h2d ? input.machine.h2d : input.machine.d2h) > 0;
        if (idle_since[s] < now && !paced) slot.start += input.costs.handover;
        slot.bytes = is_link(op.stream) ? static_cast<double>(op.bytes.value) : 0;
        slot.work = is_link(op.stream) ? 0 : op_seconds(program, op, input);
        slot.until = is_link(op.stream) ? slot.start + input.costs.op_overhead : slot.start;
        result.ops[static_cast<std::size_t>(i)].start = slot.start;
        started = true;
      }
    }
    const Rates rates = rates_of(program, input, running, now);
    Seconds step = kNever;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (running[s].op < 0) continue;
      Seconds left = running[s].until - now;
      if (running[s].start > now + kSoon)
        left = running[s].start - now;
      else if (running[s].bytes > 0)
        left = std::max(left, running[s].bytes / rates.bytes[s]);
      else
        left = std::max(left, running[s].work / rates.work[s]);
      step = std::min(step, left);
    }
    check(step < kNever, "the simulated Program cannot deadlock");
    step = std::max(step, 0.0);
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      if (running[s].op < 0 || running[s].start > now + kSoon) continue;
      running[s].bytes -= rates.bytes[s] * step;
      if (running[s].bytes < 0.5) running[s].bytes = 0;
      running[s].work -= rates.work[s] * step;
      if (running[s].work < kSoon) running[s].work = 0;
    }
    now += step;
    for (std::size_t s = 0; s < kStreamCount; ++s) {
      const Running& slot = running[s];
      if (slot.op < 0 || slot.bytes > 0 || slot.work > 0 || std::max(slot.until, slot.start) > now + kSoon)
        continue;
      const auto i = static_cast<std::size_t>(slot.op);
      result.ops[i].end = now;
      done[i] = true;
      idle_since[s] = now;
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
    head_seen = head_seen || is_head(op.kind);
    if (op.kind == OpKind::recompute || (head_seen && op.kind == OpKind::forward)) result.recompute += took;
  }
  result.exposed = std::max(0.0, result.step - result.compute);
  return result;
}

}  // namespace lazytrain
