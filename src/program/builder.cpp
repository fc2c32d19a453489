#include "program/builder.h"

#include <algorithm>

#include "core/error.h"

namespace lazytrain {

ProgramBuilder::ProgramBuilder(ProgramKind kind, const LoweringContext& context, const BatchGeometry& batch) {
  program_.kind = kind;
  program_.tiers = context.tiers;
  program_.batch = batch;
  program_.type_bytes = context.type_bytes;
  program_.layer_kinds = context.architecture.kinds;
}

BufferId ProgramBuilder::persistent(const std::string& name, Tier tier, Bytes size, bool initialised,
                                    std::int64_t alignment) {
  program_.buffers.push_back({.name = name,
                              .tier = tier,
                              .size = size,
                              .persistent = true,
                              .initialised = initialised,
                              .alignment = alignment});
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

BufferId ProgramBuilder::transient(const std::string& name, Tier tier, Bytes size, std::int64_t alignment) {
  program_.buffers.push_back({.name = name, .tier = tier, .size = size, .alignment = alignment});
  return static_cast<BufferId>(program_.buffers.size()) - 1;
}

void ProgramBuilder::hold_until(BufferId buffer, int compute) {
  holds_.emplace_back(buffer, compute);
}

int ProgramBuilder::compute(Op op) {
  op.stream = StreamId::compute;
  compute_.push_back(std::move(op));
  return next_compute() - 1;
}

void ProgramBuilder::before(int compute, Op op, bool gated) {
  before_[std::max(compute, 0)].push_back({std::move(op), gated});
}

void ProgramBuilder::after(int compute, Op op) {
  after_[compute].push_back({std::move(op), false});
}

Program ProgramBuilder::finish(LoweringDepth depth) {
  std::vector<Op>& ops = program_.ops;
  std::vector<OpIndex> index_of_compute;
  const auto place = [&](std::map<int, std::vector<Placed>>& where, int compute) {
    const auto found = where.find(compute);
    if (found == where.end()) return;
    for (Placed& placed : found->second) {
      if (placed.gated && !index_of_compute.empty()) placed.op.after.push_back(index_of_compute.back());
      ops.push_back(std::move(placed.op));
    }
    where.erase(found);
  };
  place(after_, -1);
  for (int c = 0; c < next_compute(); ++c) {
    place(before_, c);
    index_of_compute.push_back(static_cast<OpIndex>(ops.size()));
    ops.push_back(std::move(compute_[static_cast<std::size_t>(c)]));
    place(after_, c);
  }
  while (!before_.empty()) place(before_, before_.begin()->first);
  while (!after_.empty()) place(after_, after_.begin()->first);

  for (OpIndex i = 0; i < static_cast<OpIndex>(ops.size()); ++i) {
    for (const Operand& operand : ops[static_cast<std::size_t>(i)].operands) {
      Buffer& buffer = program_.buffers[static_cast<std::size_t>(operand.buffer)];
      if (buffer.first < 0) buffer.first = i;
      buffer.last = std::max(buffer.last, i);
    }
  }
  for (const auto& [id, compute] : holds_) {
    Buffer& buffer = program_.buffers[static_cast<std::size_t>(id)];
    const auto bounded =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(compute, 0)), index_of_compute.size() - 1);
    buffer.last = std::max(buffer.last, index_of_compute[bounded]);
  }
  for (const auto& [id, other] : successors_) {
    Buffer& buffer = program_.buffers[static_cast<std::size_t>(id)];
    buffer.last = std::max(buffer.last, program_.at(other).first - 1);
  }
  if (depth == LoweringDepth::estimate)
    estimate_bytes(program_);
  else
    lay_out(program_);
  if (depth == LoweringDepth::complete) add_dependencies(program_);
  return std::move(program_);
}

}  // namespace lazytrain
