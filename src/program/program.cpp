#include "program/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

namespace lazytrain {

const char* to_string(ProgramKind kind) {
  static constexpr std::array kNames{"train step", "update", "evaluate", "prefill", "decode"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* to_string(StreamId stream) {
  static constexpr std::array kNames{"compute", "h2d", "d2h", "host", "disk_read", "disk_write"};
  return kNames[static_cast<std::size_t>(stream)];
}

const char* to_string(OpKind kind) {
  static constexpr std::array kNames{"LoadBatch",
                                     "ZeroEmbeddingGradient",
                                     "GatherEmbedding",
                                     "LoadWeights",
                                     "LoadHead",
                                     "LoadClip",
                                     "Forward",
                                     "Recompute",
                                     "HeadForwardBackward",
                                     "HeadForward",
                                     "HeadBackward",
                                     "HeadArgMax",
                                     "Backward",
                                     "OffloadBoundary",
                                     "FetchBoundary",
                                     "OffloadBoundaryGradient",
                                     "FetchBoundaryGradient",
                                     "OffloadStash",
                                     "FetchStash",
                                     "OffloadGradient",
                                     "OffloadHeadGradient",
                                     "OffloadNorm",
                                     "OffloadLoss",
                                     "Collect",
                                     "ScatterEmbeddingGradient",
                                     "FinishEmbeddingGradient",
                                     "SumHeadGradient",
                                     "ReduceNorm",
                                     "UpdateGroup",
                                     "ReadStates",
                                     "WriteStates",
                                     "ReadWeights",
                                     "WriteWeights",
                                     "ReadGradient",
                                     "WriteGradient",
                                     "WriteBoundary",
                                     "ReadBoundary",
                                     "WriteStash",
                                     "ReadStash",
                                     "DecodeLayer"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* to_string(OperandRole role) {
  static constexpr std::array kNames{"weights",
                                     "embedding",
                                     "projection",
                                     "input",
                                     "output",
                                     "stash",
                                     "recomputed",
                                     "gradient",
                                     "accumulator",
                                     "projection_accumulator",
                                     "scores",
                                     "normed_gradient",
                                     "gradient_rows",
                                     "loss",
                                     "logits",
                                     "batch",
                                     "constants",
                                     "cache",
                                     "workspace",
                                     "states",
                                     "group_gradient",
                                     "norm",
                                     "clip"};
  return kNames[static_cast<std::size_t>(role)];
}

std::string describe(const Op& op) {
  if (op.slice >= 0 && op.micro_batch < 0) return fmt::format("{}(s{})", to_string(op.kind), op.slice);
  if (op.slice >= 0) return fmt::format("{}(s{}, m{})", to_string(op.kind), op.slice, op.micro_batch);
  if (op.piece >= 0) return fmt::format("{}({}, p{})", to_string(op.kind), op.layer, op.piece);
  if (op.layer < 0 && op.micro_batch < 0) return to_string(op.kind);
  if (op.micro_batch < 0) return fmt::format("{}({})", to_string(op.kind), op.layer);
  if (op.layer < 0) return fmt::format("{}(m{})", to_string(op.kind), op.micro_batch);
  return fmt::format("{}({}, m{})", to_string(op.kind), op.layer, op.micro_batch);
}

std::string listing(const Program& program) {
  std::string text = fmt::format("{:>5} {:<10} {:<30} {:<48} {:<48} {}\n", "op", "stream", "what", "reads",
                                 "writes", "after");
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    std::string reads, writes, after;
    for (const Operand& operand : op.operands) {
      if (operand.role == OperandRole::workspace) continue;
      const std::string& name = program.at(operand.buffer).name;
      if (operand.access != Access::write) reads += (reads.empty() ? "" : " ") + name;
      if (operand.access != Access::read) writes += (writes.empty() ? "" : " ") + name;
    }
    for (const OpIndex other : op.after) after += fmt::format("{}{}", after.empty() ? "op " : " ", other);
    text += fmt::format("{:>5} {:<10} {:<30} {:<48} {:<48} {}\n", i, to_string(op.stream), describe(op),
                        reads, writes, after);
  }
  return text;
}

bool begins_with_updates(const Program& program) {
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::update_group) return true;
    if (op.stream == StreamId::compute) return false;
  }
  return false;
}

namespace {

Bytes bytes_of_stream(const Program& program, StreamId stream) {
  Bytes sum;
  for (const Op& op : program.ops)
    if (op.stream == stream) sum += op.bytes;
  return sum;
}

}  // namespace

Bytes disk_reads(const Program& program) {
  return bytes_of_stream(program, StreamId::disk_read);
}

Bytes disk_writes(const Program& program) {
  return bytes_of_stream(program, StreamId::disk_write);
}

Bytes pinned_bytes(const Program& program) {
  std::vector<bool> copied(program.buffers.size(), false);
  for (const Op& op : program.ops) {
    if (op.stream != StreamId::h2d && op.stream != StreamId::d2h) continue;
    for (const Operand& operand : op.operands) copied[static_cast<std::size_t>(operand.buffer)] = true;
  }
  Bytes pinned = program.host_bytes;
  for (std::size_t id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.tier == Tier::host && buffer.persistent && !copied[id])
      pinned = pinned - align_up(buffer.size, kBufferAlignment);
  }
  return std::max(pinned, Bytes{0});
}

bool fits(const Program& program, const Machine& machine) {
  if (program.device_bytes > machine.device_capacity || program.disk_bytes > machine.disk_capacity)
    return false;
  if (program.tiers == TierModel::unified) return true;
  return program.host_bytes <= machine.host_capacity &&
         (!machine.pinned_capacity || pinned_bytes(program) <= *machine.pinned_capacity);
}

std::vector<MemoryItem> memory_items(const Program& program, Tier tier) {
  // The instant (op) at which most bytes of the tier are reserved.
  std::vector<std::int64_t> change(program.ops.size() + 1, 0);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier != tier || buffer.persistent || buffer.first < 0) continue;
    change[static_cast<std::size_t>(buffer.first)] += buffer.size.value;
    change[static_cast<std::size_t>(buffer.last) + 1] -= buffer.size.value;
  }
  std::int64_t now = 0, most = -1;
  OpIndex peak = 0;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    now += change[i];
    if (now > most) most = now, peak = static_cast<OpIndex>(i);
  }
  const auto category = [](const std::string& name) -> std::string {
    static constexpr auto kPrefixes =
        std::to_array<std::pair<const char*, const char*>>({{"dev.batch", "index arrays"},
                                                            {"host.batch", "index arrays"},
                                                            {"dev.rope", "rotary tables"},
                                                            {"dev.workspace", "workspace"},
                                                            {"dev.slot", "weight slots"},
                                                            {"dev.acc_", "head gradient accumulators"},
                                                            {"dev.acc", "layer gradient accumulators"},
                                                            {"dev.head", "head"},
                                                            {"dev.projection", "head"},
                                                            {"dev.normed", "gradient of normed rows"},
                                                            {"dev.scores", "losses and norms"},
                                                            {"dev.stash", "stashes"},
                                                            {"host.stash", "stashes"},
                                                            {"dev.rec", "recomputed stash"},
                                                            {"dev.logits", "logits"},
                                                            {"dev.cache", "key-value cache"},
                                                            {"dev.db", "boundary gradient"},
                                                            {"host.db", "boundary gradient"},
                                                            {"host.states", "optimizer states"},
                                                            {"dev.w[", "resident weights"},
                                                            {"dev.states", "resident optimizer states"},
                                                            {"dev.grad", "resident gradients"},
                                                            {"host.window", "windows on resident layers"},
                                                            {"host.out", "activations to and from disk"},
                                                            {"host.in", "activations to and from disk"},
                                                            {"host.stage_grad", "gradients"},
                                                            {"host.stage", "pieces of optimizer states"},
                                                            {"host.slot", "gradients"},
                                                            {"host.weights", "weights"},
                                                            {"disk.w", "weights"},
                                                            {"disk.states", "optimizer states"},
                                                            {"disk.grad", "gradients"},
                                                            {"disk.stash", "stashes"},
                                                            {"disk.b", "boundaries"},
                                                            {"host.grad", "gradients"},
                                                            {"host.w", "weights"},
                                                            {"dev.b", "boundaries"},
                                                            {"dev.r[", "boundaries"},
                                                            {"dev.rows", "embedding gradient rows"},
                                                            {"host.rows", "embedding gradient rows"},
                                                            {"host.b", "boundaries"},
                                                            {"dev.loss", "losses and norms"},
                                                            {"host.loss", "losses and norms"},
                                                            {"dev.norm", "losses and norms"},
                                                            {"dev.clip", "losses and norms"},
                                                            {"host.norm", "losses and norms"},
                                                            {"host.clip", "losses and norms"}});
    for (const auto& [prefix, label] : kPrefixes)
      if (name.rfind(prefix, 0) == 0) return label;
    return "other";
  };
  std::map<std::string, std::int64_t> sums;
  std::int64_t counted = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier != tier) continue;
    if (!buffer.persistent && (buffer.first > peak || buffer.last < peak)) continue;
    sums[category(buffer.name)] += buffer.size.value;
    counted += buffer.size.value;
  }
  const Bytes total = program.bytes_of(tier);
  if (total.value > counted) sums["alignment and gaps"] += total.value - counted;
  std::vector<MemoryItem> items;
  for (const auto& [what, bytes] : sums) items.push_back({what, {bytes}});
  std::stable_sort(items.begin(), items.end(),
                   [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
  return items;
}

}  // namespace lazytrain
