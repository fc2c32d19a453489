#include "report/step_figures.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"

namespace lazytrain {
namespace {

// Gaps below this part of the step are rounding of the times.
constexpr double kNoGap = 1e-9;

}  // namespace

std::vector<OpTime> op_times(const Simulation& simulation) {
  std::vector<OpTime> times;
  times.reserve(simulation.ops.size());
  for (const SimulatedOp& op : simulation.ops) times.push_back({.start = op.start, .end = op.end});
  return times;
}

Seconds last_end(std::span<const OpTime> times) {
  Seconds last = 0;
  for (const OpTime& time : times) last = std::max(last, time.end);
  return last;
}

std::vector<StreamUse> stream_uses(const Program& program, std::span<const OpTime> times) {
  check(times.size() == program.ops.size(), "every op has a time");
  std::array<StreamUse, kStreamCount> uses;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = program.ops[i];
    StreamUse& use = uses[static_cast<std::size_t>(op.stream)];
    use.stream = op.stream;
    ++use.ops;
    use.busy += times[i].end - times[i].start;
    use.bytes += op.bytes;
  }
  std::vector<StreamUse> found;
  for (const StreamUse& use : uses)
    if (use.ops > 0) found.push_back(use);
  return found;
}

const char* to_string(ComputePart part) {
  static constexpr std::array kNames{"forward", "recompute", "head", "backward", "other"};
  return kNames[static_cast<std::size_t>(part)];
}

std::vector<ComputePart> compute_parts(const Program& program) {
  std::vector<ComputePart> parts;
  parts.reserve(program.ops.size());
  bool head_seen = false;
  for (const Op& op : program.ops) {
    ComputePart part = ComputePart::other;
    head_seen = head_seen || is_head(op.kind);
    switch (op.kind) {
      case OpKind::forward:
        part = head_seen ? ComputePart::recompute : ComputePart::forward;
        break;
      case OpKind::decode_layer:
        part = ComputePart::forward;
        break;
      case OpKind::recompute:
        part = ComputePart::recompute;
        break;
      case OpKind::head_forward_backward:
        part = ComputePart::head;
        break;
      case OpKind::head_forward:
      case OpKind::head_backward:
      case OpKind::head_argmax:
        part = ComputePart::head;
        break;
      case OpKind::backward:
        part = ComputePart::backward;
        break;
      default:
        break;
    }
    parts.push_back(op.stream == StreamId::compute ? part : ComputePart::other);
  }
  return parts;
}

Seconds ComputeTimes::sum() const {
  Seconds sum = 0;
  for (const Seconds seconds : part) sum += seconds;
  return sum;
}

ComputeTimes compute_times(const Program& program, std::span<const OpTime> times) {
  check(times.size() == program.ops.size(), "every op has a time");
  const std::vector<ComputePart> parts = compute_parts(program);
  ComputeTimes sums;
  for (std::size_t i = 0; i < times.size(); ++i)
    if (program.ops[i].stream == StreamId::compute)
      sums.part[static_cast<std::size_t>(parts[i])] += times[i].end - times[i].start;
  return sums;
}

std::vector<ComputeTimes> layer_times(const Program& program, std::span<const OpTime> times,
                                      std::size_t layers) {
  check(times.size() == program.ops.size(), "every op has a time");
  const std::vector<ComputePart> parts = compute_parts(program);
  std::vector<ComputeTimes> sums(layers);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.stream != StreamId::compute || op.layer < 0 || static_cast<std::size_t>(op.layer) >= layers)
      continue;
    sums[static_cast<std::size_t>(op.layer)].part[static_cast<std::size_t>(parts[i])] +=
        times[i].end - times[i].start;
  }
  return sums;
}

std::vector<Standstill> standstills(const Program& program, std::span<const OpTime> times) {
  check(times.size() == program.ops.size(), "every op has a time");
  const Seconds step = last_end(times);
  const Seconds least = step * kNoGap;
  std::map<std::optional<OpKind>, Standstill> found;
  const auto add = [&](std::optional<OpKind> kind, Seconds seconds) {
    if (seconds <= least) return;
    Standstill& entry = found[kind];
    entry.kind = kind;
    entry.seconds += seconds;
    ++entry.times;
  };
  Seconds free = 0;  // end of the compute op before
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.stream != StreamId::compute) continue;
    std::optional<OpKind> latest;
    Seconds end = free + least;
    for (const OpIndex other : op.after)
      if (times[static_cast<std::size_t>(other)].end > end) {
        end = times[static_cast<std::size_t>(other)].end;
        latest = program.ops[static_cast<std::size_t>(other)].kind;
      }
    add(latest, times[i].start - free);
    free = std::max(free, times[i].end);
  }
  const auto last = std::max_element(times.begin(), times.end(),
                                     [](const OpTime& a, const OpTime& b) { return a.end < b.end; });
  if (last != times.end()) add(program.ops[static_cast<std::size_t>(last - times.begin())].kind, step - free);
  std::vector<Standstill> sorted;
  sorted.reserve(found.size());
  for (const auto& [kind, entry] : found) sorted.push_back(entry);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Standstill& a, const Standstill& b) { return a.seconds > b.seconds; });
  return sorted;
}

std::vector<MemoryPoint> memory_curve(const Program& program, Tier tier) {
  std::vector<Bytes> change(program.ops.size() + 1);
  Bytes now;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier != tier) continue;
    if (buffer.persistent) {
      now += buffer.size;
    } else if (buffer.first >= 0) {
      change[static_cast<std::size_t>(buffer.first)] += buffer.size;
      change[static_cast<std::size_t>(buffer.last) + 1] -= buffer.size;
    }
  }
  std::vector<MemoryPoint> curve;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    now += change[i];
    if (i == 0 || change[i].value != 0) curve.push_back({.op = static_cast<OpIndex>(i), .bytes = now});
  }
  return curve;
}

std::vector<Tier> used_tiers(const Program& program) {
  std::vector<Tier> tiers{Tier::device};
  if (program.tiers == TierModel::tiered) tiers.push_back(Tier::host);
  if (program.disk_bytes.value > 0) tiers.push_back(Tier::disk);
  return tiers;
}

}  // namespace lazytrain
