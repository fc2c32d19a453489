// Figures of one step that page, trace and terminal share: where the time goes, what compute waits for, how
// many bytes a tier holds at each op. Made from a Program and the times of its ops, simulated or measured
// alike: the caller knows which and says so wherever it prints them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/simulator.h"

namespace lazytrain {

// When an op ran, in seconds since the step began.
struct OpTime {
  Seconds start = 0, end = 0;
};
std::vector<OpTime> op_times(const Simulation& simulation);
// The end of the last op.
Seconds last_end(std::span<const OpTime> times);

struct StreamUse {
  StreamId stream = StreamId::compute;
  std::int64_t ops = 0;
  Seconds busy = 0;
  Bytes bytes = {};  // moved, of transfers
};
// One entry for every stream that has ops, in the order of StreamId.
std::vector<StreamUse> stream_uses(const Program& program, std::span<const OpTime> times);

// What a compute op is for. A forward after the loss is known is a recomputation.
enum class ComputePart : std::uint8_t { forward, recompute, head, backward, other };
inline constexpr std::size_t kComputePartCount = 5;
[[nodiscard]] const char* to_string(ComputePart part);
// By op; of ops of other streams `other`.
std::vector<ComputePart> compute_parts(const Program& program);

// Seconds of the compute stream, by ComputePart.
struct ComputeTimes {
  Seconds part[kComputePartCount] = {};
  [[nodiscard]] Seconds of(ComputePart which) const { return part[static_cast<std::size_t>(which)]; }
  [[nodiscard]] Seconds sum() const;
};
ComputeTimes compute_times(const Program& program, std::span<const OpTime> times);
// The same for each of `layers` decoder layers.
std::vector<ComputeTimes> layer_times(const Program& program, std::span<const OpTime> times,
                                      std::size_t layers);

// Time in which compute stood still, by the kind of op whose end it waited for, longest first. No kind: it
// waited for nothing that ended so late (a stream that wakes up, the step's beginning). After the last
// compute op it is the step's last op that is waited for.
struct Standstill {
  std::optional<OpKind> kind;
  Seconds seconds = 0;
  std::int64_t times = 0;
};
std::vector<Standstill> standstills(const Program& program, std::span<const OpTime> times);

// Bytes that a tier holds from op `op` on: persistent buffers, and those whose interval has begun. What
// alignment and the packing of the layout cost is not in it, so its peak may be less than the arena.
struct MemoryPoint {
  OpIndex op = 0;
  Bytes bytes = {};
  bool operator==(const MemoryPoint&) const = default;
};
// The first point is at op 0, the others where the bytes change.
std::vector<MemoryPoint> memory_curve(const Program& program, Tier tier);

// The tiers that the Program has anything on: device, host on tiered machines, disk.
std::vector<Tier> used_tiers(const Program& program);

}  // namespace lazytrain
