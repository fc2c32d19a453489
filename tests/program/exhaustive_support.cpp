#include <fmt/core.h>

#include <algorithm>

#include "program/exhaustive_check.h"

namespace lazytrain {
namespace {

using Matrix = std::vector<std::vector<char>>;

// closure[a][b] = a must have ended before b starts.
Matrix happens_before(const Program& program) {
  const std::size_t n = program.ops.size();
  std::vector<std::vector<std::size_t>> next(n);
  for (std::size_t b = 0; b < n; ++b) {
    for (std::size_t a = 0; a < b; ++a)
      if (program.ops[a].stream == program.ops[b].stream) next[a].push_back(b);
    for (const OpIndex a : program.ops[b].after) next[static_cast<std::size_t>(a)].push_back(b);
  }
  Matrix closure(n, std::vector<char>(n, 0));
  for (std::size_t a = 0; a < n; ++a) {
    std::vector<std::size_t> open{a};
    while (!open.empty()) {
      const std::size_t at = open.back();
      open.pop_back();
      for (const std::size_t b : next[at])
        if (!closure[a][b]) closure[a][b] = 1, open.push_back(b);
    }
  }
  return closure;
}

struct Range {
  Tier tier;
  std::int64_t begin, end;
};

Range range_of(const Buffer& buffer) {
  return {buffer.tier, buffer.offset.value, buffer.offset.value + buffer.size.value};
}

bool overlap(const Range& a, const Range& b) {
  return a.tier == b.tier && a.begin < b.end && b.begin < a.end;
}

}  // namespace

std::vector<std::string> exhaustive_check(const Program& program) {
  std::vector<std::string> wrong;
  const std::size_t n = program.ops.size();
  for (const Op& op : program.ops)
    for (const OpIndex other : op.after)
      if (other < 0 || static_cast<std::size_t>(other) >= n) return {"waits for an op that does not exist"};
  const Matrix before = happens_before(program);
  for (std::size_t i = 0; i < n; ++i)
    if (before[i][i]) return {fmt::format("op {} waits for itself", i)};

  for (const Buffer& buffer : program.buffers) {
    if (buffer.size.value == 0) continue;
    const Range range = range_of(buffer);
    const Bytes arena = program.bytes_of(buffer.tier);
    if (range.begin < 0 || range.end > arena.value) wrong.push_back(buffer.name + " leaves its arena");
    for (const Buffer& other : program.buffers)
      if (&other != &buffer && buffer.persistent && other.size.value > 0 && overlap(range, range_of(other)))
        wrong.push_back(buffer.name + " and " + other.name + " share bytes");
  }

  const auto on_disk = [](const Op& op) {
    return op.kind >= OpKind::read_states && op.kind <= OpKind::read_stash;
  };
  for (const Op& op : program.ops)
    for (const Operand& operand : op.operands)
      if (on_disk(op) && program.at(operand.buffer).offset.value % kDiskAlignment != 0)
        wrong.push_back(program.at(operand.buffer).name + " does not begin on a block of the disk");

  for (const Op& op : program.ops)
    for (const Operand& operand : op.operands)
      if (op.stream == StreamId::compute && program.at(operand.buffer).tier != Tier::device &&
          program.at(operand.buffer).size.value > 0)
        wrong.push_back(program.at(operand.buffer).name + " is not on the device");

  struct Access_ {
    std::size_t op;
    BufferId buffer;
    Range range;
    bool reads, writes, scratch;
  };
  std::vector<Access_> accesses;
  for (std::size_t i = 0; i < n; ++i)
    for (const Operand& operand : program.ops[i].operands) {
      const Buffer& buffer = program.at(operand.buffer);
      if (buffer.size.value == 0) continue;
      accesses.push_back({i, operand.buffer, range_of(buffer), operand.access != Access::write,
                          operand.access != Access::read, operand.role == OperandRole::workspace});
    }
  for (const Access_& a : accesses)
    for (const Access_& b : accesses) {
      if (&a == &b || !(a.writes || b.writes) || !overlap(a.range, b.range)) continue;
      if (a.op == b.op ? a.buffer != b.buffer : !before[a.op][b.op] && !before[b.op][a.op])
        wrong.push_back(fmt::format("ops {} and {} race on {} and {}", a.op, b.op, program.at(a.buffer).name,
                                    program.at(b.buffer).name));
    }
  if (!wrong.empty()) return wrong;  // from here on all conflicting accesses have an order

  for (const Access_& read : accesses) {
    if (!read.reads || read.scratch) continue;
    // Elementary pieces of what is read: between all ends of what is written over it before.
    std::vector<std::int64_t> cuts{read.range.begin, read.range.end};
    for (const Access_& write : accesses)
      if (write.writes && overlap(write.range, read.range)) {
        cuts.push_back(std::clamp(write.range.begin, read.range.begin, read.range.end));
        cuts.push_back(std::clamp(write.range.end, read.range.begin, read.range.end));
      }
    std::sort(cuts.begin(), cuts.end());
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      if (cuts[c] == cuts[c + 1]) continue;
      const Range piece{read.range.tier, cuts[c], cuts[c + 1]};
      const Access_* last = nullptr;
      for (const Access_& write : accesses)
        if (write.writes && overlap(write.range, piece) && before[write.op][read.op] &&
            (last == nullptr || before[last->op][write.op]))
          last = &write;
      const bool good = last != nullptr ? last->buffer == read.buffer : program.at(read.buffer).initialised;
      if (!good) {
        wrong.push_back(
            fmt::format("op {} reads {} after another wrote there", read.op, program.at(read.buffer).name));
        break;
      }
    }
  }
  if (!wrong.empty()) return wrong;

  // The last op that filled an operand says what it holds: a piece of a group, or the weights of one.
  const auto label = [](const Op& op) -> std::pair<int, int> {
    switch (op.kind) {
      case OpKind::load_weights:
      case OpKind::forward:
      case OpKind::recompute:
      case OpKind::backward:
      case OpKind::decode_layer:
        return {op.layer + 1, -1};  // of the group
      default:
        return {op.layer, op.piece};
    }
  };
  for (std::size_t i = 0; i < n; ++i) {
    const Op& op = program.ops[i];
    for (const Operand& operand : op.operands) {
      const OperandRole role = operand.role;
      bool checked = false, of_piece = false, always = false;
      switch (op.kind) {
        case OpKind::write_states:
        case OpKind::write_weights:
        case OpKind::write_gradient:
          checked = of_piece = always = role == OperandRole::input;
          break;
        case OpKind::update_group:
          of_piece = role == OperandRole::states || role == OperandRole::group_gradient;
          checked = op.piece >= 0 && (of_piece || role == OperandRole::weights);
          always = role == OperandRole::states;
          break;
        case OpKind::load_weights:
          checked = role == OperandRole::input;
          break;
        case OpKind::forward:
        case OpKind::recompute:
        case OpKind::backward:
          checked = role == OperandRole::weights;
          break;
        default:
          break;
      }
      // What is never anything else needs no reader's care.
      if (!checked || (!always && program.at(operand.buffer).initialised)) continue;
      const Op* source = nullptr;
      std::size_t at = 0;
      for (const Access_& write : accesses) {
        const Op& writer = program.ops[write.op];
        if (!write.writes || write.buffer != operand.buffer || !before[write.op][i]) continue;
        if (writer.kind != OpKind::update_group && (source == nullptr || before[at][write.op]))
          source = &writer, at = write.op;
      }
      const bool back = op.kind == OpKind::write_states || op.kind == OpKind::write_weights;
      const bool fills = source != nullptr && (on_disk(*source) || source->kind == OpKind::load_weights ||
                                               source->kind == OpKind::offload_gradient);
      if (!fills || label(*source).first != label(op).first ||
          label(*source).second != (of_piece ? label(op).second : -1) ||
          (back && source->buffer(OperandRole::input) != op.buffer(OperandRole::output)))
        wrong.push_back(fmt::format("op {} finds something else in {}", i, program.at(operand.buffer).name));
    }
  }
  return wrong;
}

}  // namespace lazytrain
