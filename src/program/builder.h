// ProgramBuilder: what every lowering shares. Compute ops are appended in order; other ops are placed before
// or after a compute op. finish() flattens the list, gives every buffer its interval and offset (layout) and
// every op the events it must wait for (dependencies).
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/lowering.h"
#include "program/program.h"

namespace lazytrain {

class ProgramBuilder {
 public:
  ProgramBuilder(ProgramKind kind, const LoweringContext& context, const BatchGeometry& batch);

  [[nodiscard]] bool unified() const { return program_.tiers == TierModel::unified; }
  // Where "host" objects live: on unified machines everything is in one tier, called device.
  [[nodiscard]] Tier host_tier() const { return unified() ? Tier::device : Tier::host; }

  BufferId persistent(const std::string& name, Tier tier, Bytes size, bool initialised,
                      std::int64_t alignment = kBufferAlignment);
  BufferId transient(const std::string& name, Tier tier, Bytes size,
                     std::int64_t alignment = kBufferAlignment);
  // The buffer's bytes stay reserved until the compute op `compute` (at least) has been issued.
  void hold_until(BufferId buffer, int compute);
  // The same, until the first op that touches `other`.
  void hold_until_use_of(BufferId buffer, BufferId other) { successors_.emplace_back(buffer, other); }

  // Appends a compute op; returns its number among compute ops.
  int compute(Op op);
  // Places a non-compute op so that it is issued right before / right after compute op `compute`; -1 / 0 = at
  // the very beginning. Numbers past the last compute op mean the end. The op may not start before the
  // compute op in front of it has ended if `gated`.
  void before(int compute, Op op, bool gated = false);
  void after(int compute, Op op);
  // The slices in which the head is computed.
  void head_slices(std::int64_t slices) { program_.head_slices = slices; }
  [[nodiscard]] int next_compute() const { return static_cast<int>(compute_.size()); }

  Program finish(LoweringDepth depth = LoweringDepth::complete);

 private:
  struct Placed {
    Op op;
    bool gated;
  };
  Program program_;
  std::vector<Op> compute_;
  std::map<int, std::vector<Placed>> before_, after_;
  std::vector<std::pair<BufferId, int>> holds_;
  std::vector<std::pair<BufferId, BufferId>> successors_;
};

// Gives every transient buffer an offset: two buffers whose intervals [first, last] meet never share a byte.
// Persistent buffers come first, in order of declaration. Sets device_bytes and host_bytes.
void lay_out(Program& program);

// Sets device_bytes and host_bytes to what lay_out() needs at the least, without giving offsets.
void estimate_bytes(Program& program);

// Fills op.after with the ops of other streams that must have ended before: every earlier conflicting access
// to a common byte, transitively reduced. Keeps what op.after holds already.
void add_dependencies(Program& program);

}  // namespace lazytrain
