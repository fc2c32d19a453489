#include "program/verifier.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <queue>
#include <stdexcept>

#include "core/error.h"
#include "program/lowering.h"

namespace lazytrain {
namespace {

constexpr std::array kTiers{Tier::device, Tier::host, Tier::disk};

// position[s] = how many ops of stream s are known to have ended before this op starts.
using Clock = std::array<std::int32_t, kStreamCount>;

struct Order {
  std::vector<OpIndex> topological;
  std::vector<std::int32_t> position;  // of an op in its stream, 1-based
  std::vector<Clock> before;           // known ended when the op starts
};

class Verifier {
 public:
  Verifier(const Program& program, const Machine& machine, std::size_t most)
      : program_(program), machine_(machine), most_(most) {}

  std::vector<Violation> run() {
    if (!well_formed()) return found_;
    capacities();
    for (const Tier tier : kTiers) persistent_bytes(tier);
    for (OpIndex i = 0; i < static_cast<OpIndex>(program_.ops.size()); ++i) operands_of(i);
    Order order;
    if (!happens_before(order)) return found_;
    for (const Tier tier : kTiers) accesses(order, tier);
    pieces(order);
    slices(order);
    return found_;
  }

 private:
  void report(Violation::Kind kind, std::string what) {
    if (found_.size() < most_) found_.push_back({kind, std::move(what)});
  }
  [[nodiscard]] const Op& op(OpIndex i) const { return program_.ops[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::string name(OpIndex i) const { return fmt::format("op {} {}", i, describe(op(i))); }

  bool well_formed() {
    const auto ops = static_cast<OpIndex>(program_.ops.size());
    for (OpIndex i = 0; i < ops; ++i) {
      if (static_cast<std::size_t>(op(i).stream) >= kStreamCount)
        report(Violation::Kind::malformed, name(i) + " is on no stream");
      for (const OpIndex other : op(i).after)
        if (other < 0 || other >= ops || other == i)
          report(Violation::Kind::malformed, fmt::format("{} waits for op {}", name(i), other));
      for (const Operand& operand : op(i).operands)
        if (operand.buffer < 0 || static_cast<std::size_t>(operand.buffer) >= program_.buffers.size())
          report(Violation::Kind::malformed, fmt::format("{} names buffer {}", name(i), operand.buffer));
    }
    return found_.empty();
  }

  void capacities() {
    for (const Buffer& buffer : program_.buffers) {
      const Bytes arena = program_.bytes_of(buffer.tier);
      if (buffer.size.value == 0) continue;
      if (buffer.offset.value < 0 || buffer.offset + buffer.size > arena)
        report(Violation::Kind::out_of_arena,
               fmt::format("{} ends at {} of an arena of {} bytes", buffer.name,
                           buffer.offset.value + buffer.size.value, arena.value));
    }
    if (program_.device_bytes > machine_.device_capacity)
      report(Violation::Kind::overflow,
             fmt::format("the device needs {} and has {}", format_bytes(program_.device_bytes),
                         format_bytes(machine_.device_capacity)));
    if (program_.tiers == TierModel::tiered && program_.host_bytes > machine_.host_capacity)
      report(Violation::Kind::overflow,
             fmt::format("the host needs {} and has {}", format_bytes(program_.host_bytes),
                         format_bytes(machine_.host_capacity)));
    if (program_.tiers == TierModel::tiered && machine_.pinned_capacity &&
        pinned_bytes(program_) > *machine_.pinned_capacity)
      report(Violation::Kind::overflow,
             fmt::format("the host has to pin {} and may pin {}", format_bytes(pinned_bytes(program_)),
                         format_bytes(*machine_.pinned_capacity)));
    if (program_.disk_bytes > machine_.disk_capacity)
      report(Violation::Kind::overflow,
             fmt::format("the disk needs {} and has {}", format_bytes(program_.disk_bytes),
                         format_bytes(machine_.disk_capacity)));
  }

  // What lives outside the step has its bytes for itself.
  void persistent_bytes(Tier tier) {
    std::vector<BufferId> by_offset;
    for (BufferId id = 0; id < static_cast<BufferId>(program_.buffers.size()); ++id)
      if (program_.at(id).tier == tier && program_.at(id).size.value > 0) by_offset.push_back(id);
    std::sort(by_offset.begin(), by_offset.end(),
              [&](BufferId a, BufferId b) { return program_.at(a).offset < program_.at(b).offset; });
    BufferId furthest = -1, furthest_persistent = -1;  // that reach highest so far
    const auto end = [&](BufferId id) {
      return id < 0 ? Bytes{0} : program_.at(id).offset + program_.at(id).size;
    };
    for (const BufferId id : by_offset) {
      const Buffer& buffer = program_.at(id);
      const BufferId other = buffer.persistent ? furthest : furthest_persistent;
      if (other >= 0 && buffer.offset < end(other))
        report(Violation::Kind::shared,
               fmt::format("{} and {} share bytes", buffer.name, program_.at(other).name));
      if (end(id) > end(furthest)) furthest = id;
      if (buffer.persistent && end(id) > end(furthest_persistent)) furthest_persistent = id;
    }
  }

  // The operands of one op: none on another that it writes, none smaller than what it moves, none where it
  // does not reach.
  void operands_of(OpIndex i) {
    const Op& it = op(i);
    for (const Operand& operand : it.operands)
      if (const Buffer& buffer = program_.at(operand.buffer);
          it.stream == StreamId::compute && buffer.tier != Tier::device && buffer.size.value > 0)
        report(Violation::Kind::out_of_reach,
               fmt::format("{} computes with {}, which is not on the device", name(i), buffer.name));
    for (std::size_t a = 0; a < it.operands.size(); ++a) {
      for (std::size_t b = a + 1; b < it.operands.size(); ++b) {
        const Operand &x = it.operands[a], &y = it.operands[b];
        if (x.buffer == y.buffer || (x.access == Access::read && y.access == Access::read)) continue;
        const Buffer &p = program_.at(x.buffer), &q = program_.at(y.buffer);
        if (p.tier == q.tier && p.offset < q.offset + q.size && q.offset < p.offset + p.size)
          report(Violation::Kind::shared, fmt::format("{}: {} and {} share bytes", name(i), p.name, q.name));
      }
    }
    const auto needs = [&](OperandRole role, Bytes bytes) {
      const BufferId id = it.buffer(role);
      if (id >= 0 && program_.at(id).size < bytes)
        report(Violation::Kind::overrun,
               fmt::format("{} needs {} bytes in {}, which has {}", name(i), bytes.value,
                           program_.at(id).name, program_.at(id).size.value));
    };
    const auto size = [&](OperandRole role) {
      const BufferId id = it.buffer(role);
      return id < 0 ? Bytes{0} : program_.at(id).size;
    };
    switch (it.kind) {
      case OpKind::load_head:
        needs(OperandRole::input, it.from + it.bytes);
        needs(OperandRole::output, it.bytes);
        break;
      case OpKind::load_batch:
      case OpKind::load_weights:
      case OpKind::load_clip:
      case OpKind::offload_norm:
      case OpKind::offload_boundary:
      case OpKind::fetch_boundary:
      case OpKind::offload_boundary_gradient:
      case OpKind::fetch_boundary_gradient:
      case OpKind::offload_stash:
      case OpKind::fetch_stash:
      case OpKind::offload_loss:
        needs(OperandRole::input, it.bytes);
        needs(OperandRole::output, it.bytes);
        break;
      case OpKind::read_states:
      case OpKind::write_states:
      case OpKind::read_weights:
      case OpKind::write_weights:
      case OpKind::write_gradient:
      case OpKind::read_gradient:
      case OpKind::write_boundary:
      case OpKind::read_boundary:
      case OpKind::write_stash:
      case OpKind::read_stash:
        needs(OperandRole::input, it.from + it.bytes);
        needs(OperandRole::output, it.bytes);
        disk_alignment(i);
        break;
      case OpKind::head_forward:
      case OpKind::head_backward:
        if (it.slice >= 0)
          needs(OperandRole::scores, Bytes{program_.batch.rows_of(it.micro_batch) * kScoreBytes});
        break;
      case OpKind::sum_head_gradient:
        needs(OperandRole::group_gradient, Bytes{it.elements * program_.type_bytes});
        break;
      case OpKind::collect:
        needs(OperandRole::input, it.bytes);
        break;
      case OpKind::offload_gradient:
      case OpKind::offload_head_gradient: {
        // A tied head's elements are in two buffers on both sides.
        const Bytes fp32{it.elements * 4}, rounded{it.elements * program_.type_bytes};
        needs(OperandRole::accumulator, fp32 - size(OperandRole::projection_accumulator));
        needs(OperandRole::projection_accumulator, fp32 - size(OperandRole::accumulator));
        needs(OperandRole::group_gradient, rounded - size(OperandRole::output));
        needs(OperandRole::output, rounded - size(OperandRole::group_gradient));
        needs(OperandRole::gradient_rows, it.slice < 0 ? it.bytes - rounded : it.reach);
        break;
      }
      case OpKind::zero_embedding_gradient:
      case OpKind::finish_embedding_gradient:
        needs(OperandRole::group_gradient, Bytes{it.elements * program_.type_bytes});
        break;
      case OpKind::update_group:
        needs(OperandRole::weights, Bytes{it.elements * program_.type_bytes});
        needs(OperandRole::group_gradient, Bytes{it.elements * program_.type_bytes});
        break;
      default:
        break;
    }
  }

  // What moves past the page cache begins and ends on the disk's blocks, in memory too.
  void disk_alignment(OpIndex i) {
    const Op& it = op(i);
    const auto aligned = [](Bytes bytes) { return bytes.value % kDiskAlignment == 0; };
    bool whole = aligned(it.bytes) && aligned(it.from);
    for (const Operand& operand : it.operands) whole = whole && aligned(program_.at(operand.buffer).offset);
    if (!whole) report(Violation::Kind::overrun, name(i) + " does not move whole blocks of the disk");
  }

  // Kahn's algorithm over stream order and `after`; vector clocks along the way.
  bool happens_before(Order& order) {
    const std::size_t ops = program_.ops.size();
    std::vector<std::vector<OpIndex>> successors(ops);
    std::vector<std::int32_t> waiting(ops, 0);
    std::array<OpIndex, kStreamCount> last;
    last.fill(-1);
    order.position.assign(ops, 0);
    std::vector<OpIndex> previous(ops, -1);
    std::array<std::int32_t, kStreamCount> count{};
    for (OpIndex i = 0; i < static_cast<OpIndex>(ops); ++i) {
      const auto stream = static_cast<std::size_t>(op(i).stream);
      order.position[static_cast<std::size_t>(i)] = ++count[stream];
      previous[static_cast<std::size_t>(i)] = last[stream];
      const auto edge = [&](OpIndex from) {
        successors[static_cast<std::size_t>(from)].push_back(i);
        ++waiting[static_cast<std::size_t>(i)];
      };
      if (last[stream] >= 0) edge(last[stream]);
      for (const OpIndex other : op(i).after) edge(other);
      last[stream] = i;
    }
    std::priority_queue<OpIndex, std::vector<OpIndex>, std::greater<>> ready;
    for (OpIndex i = 0; i < static_cast<OpIndex>(ops); ++i)
      if (waiting[static_cast<std::size_t>(i)] == 0) ready.push(i);
    order.before.assign(ops, Clock{});
    while (!ready.empty()) {
      const OpIndex i = ready.top();
      ready.pop();
      order.topological.push_back(i);
      Clock& clock = order.before[static_cast<std::size_t>(i)];
      const auto join = [&](OpIndex from) {
        const Clock& theirs = order.before[static_cast<std::size_t>(from)];
        for (std::size_t s = 0; s < kStreamCount; ++s) clock[s] = std::max(clock[s], theirs[s]);
        const auto stream = static_cast<std::size_t>(op(from).stream);
        clock[stream] = std::max(clock[stream], order.position[static_cast<std::size_t>(from)]);
      };
      if (previous[static_cast<std::size_t>(i)] >= 0) join(previous[static_cast<std::size_t>(i)]);
      for (const OpIndex other : op(i).after) join(other);
      for (const OpIndex next : successors[static_cast<std::size_t>(i)])
        if (--waiting[static_cast<std::size_t>(next)] == 0) ready.push(next);
    }
    if (order.topological.size() == ops) return true;
    for (OpIndex i = 0; i < static_cast<OpIndex>(ops); ++i)
      if (waiting[static_cast<std::size_t>(i)] > 0) {
        report(Violation::Kind::deadlock, name(i) + " waits for an op that waits for it");
        break;
      }
    return false;
  }

  [[nodiscard]] bool ends_before(const Order& order, OpIndex first, OpIndex second) const {
    const auto stream = static_cast<std::size_t>(op(first).stream);
    return order.before[static_cast<std::size_t>(second)][stream] >=
           order.position[static_cast<std::size_t>(first)];
  }

  // Elementary byte ranges between all buffer ends of the tier; per range, the accesses in topological order.
  // Neighbours in that order that conflict must be ordered: with writes as barriers this covers all pairs.
  void accesses(const Order& order, Tier tier) {
    std::vector<std::int64_t> cuts;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.tier != tier || buffer.size.value == 0) continue;
      cuts.push_back(buffer.offset.value);
      cuts.push_back(buffer.offset.value + buffer.size.value);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    if (cuts.size() < 2) return;
    struct State {
      OpIndex writer = -1;
      BufferId owner = -1;
      std::vector<OpIndex> readers;  // since the write, the latest of each stream
    };
    std::vector<State> state(cuts.size() - 1);
    const auto range = [&](const Buffer& buffer) {
      const auto begin = std::lower_bound(cuts.begin(), cuts.end(), buffer.offset.value) - cuts.begin();
      const auto end =
          std::lower_bound(cuts.begin(), cuts.end(), buffer.offset.value + buffer.size.value) - cuts.begin();
      return std::pair{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
    };
    for (BufferId id = 0; id < static_cast<BufferId>(program_.buffers.size()); ++id) {
      const Buffer& buffer = program_.at(id);
      if (buffer.tier != tier || buffer.size.value == 0 || !buffer.initialised) continue;
      const auto [begin, end] = range(buffer);
      for (std::size_t r = begin; r < end; ++r) state[r].owner = id;
    }
    for (const OpIndex i : order.topological) {
      // Reads see what was there before the op's own writes.
      for (const bool writes : {false, true}) {
        for (const Operand& operand : op(i).operands) {
          const Buffer& buffer = program_.at(operand.buffer);
          if (buffer.tier != tier || buffer.size.value == 0) continue;
          const bool reads_it = operand.access != Access::write, writes_it = operand.access != Access::read;
          if (writes ? !writes_it : !reads_it) continue;
          const bool scratch = operand.role == OperandRole::workspace;
          const auto [begin, end] = range(buffer);
          for (std::size_t r = begin; r < end; ++r) {
            State& here = state[r];
            if (here.writer >= 0 && here.writer != i && !ends_before(order, here.writer, i)) {
              report(Violation::Kind::race, fmt::format("{} and {} both touch {} and one writes it",
                                                        name(here.writer), name(i), buffer.name));
              break;
            }
            if (!writes) {
              if (here.owner != operand.buffer && !scratch) {
                report(
                    Violation::Kind::stale_read,
                    fmt::format("{} reads {}, whose bytes hold {}", name(i), buffer.name,
                                here.owner < 0 ? std::string("nothing yet") : program_.at(here.owner).name));
                break;
              }
              bool replaced = false;
              for (OpIndex& reader : here.readers)
                if (op(reader).stream == op(i).stream) reader = i, replaced = true;
              if (!replaced) here.readers.push_back(i);
            } else {
              bool raced = false;
              for (const OpIndex reader : here.readers)
                if (reader != i && !ends_before(order, reader, i)) {
                  report(Violation::Kind::race, fmt::format("{} writes {} while {} may read it", name(i),
                                                            buffer.name, name(reader)));
                  raced = true;
                  break;
                }
              here.writer = i;
              here.owner = operand.buffer;
              here.readers.clear();
              if (raced) break;
            }
          }
          if (found_.size() >= most_) return;
        }
      }
    }
  }

  // What passes through a host buffer on its way from or to the disk is what the op that uses it is about:
  // the buffer may hold another piece, of which the byte ranges above know nothing.
  void pieces(const Order& order) {
    struct Content {
      std::int32_t layer = -1, piece = -1;
      BufferId from = -1;
    };
    std::map<BufferId, Content> held;
    for (const OpIndex i : order.topological) {
      const Op& it = op(i);
      const auto expect = [&](OperandRole role, std::int32_t piece) {
        const BufferId id = it.buffer(role);
        const auto found = held.find(id);
        if (found == held.end() || found->second.layer != it.layer || found->second.piece != piece)
          report(Violation::Kind::stale_read,
                 fmt::format("{} finds another piece in {}", name(i), id < 0 ? "?" : program_.at(id).name));
      };
      // Layer l's weights are those of group l + 1.
      const auto expect_layer = [&](OperandRole role) {
        const BufferId id = it.buffer(role);
        const auto found = held.find(id);
        if (found == held.end() || found->second.layer != it.layer + 1 || found->second.piece != -1)
          report(Violation::Kind::stale_read,
                 fmt::format("{} finds another layer in {}", name(i), program_.at(id).name));
      };
      const auto passes =
          [&](OperandRole role) {  // through a buffer that holds something else at other times
            const BufferId id = it.buffer(role);
            return id >= 0 && !program_.at(id).initialised;
          };
      // Whatever else writes there ends what was known of it; an update changes the values of the same piece.
      if (it.kind != OpKind::update_group)
        for (const Operand& operand : it.operands)
          if (operand.access != Access::read) held.erase(operand.buffer);
      switch (it.kind) {
        case OpKind::read_weights:
        case OpKind::read_states:
        case OpKind::read_gradient:
          held[it.buffer(OperandRole::output)] = {it.layer, it.piece, it.buffer(OperandRole::input)};
          break;
        case OpKind::offload_gradient:
          held[it.buffer(OperandRole::group_gradient)] = {it.layer, -1, -1};
          break;
        case OpKind::update_group:
          if (it.piece < 0) break;
          expect(OperandRole::states, it.piece);
          if (passes(OperandRole::weights)) expect(OperandRole::weights, -1);
          if (passes(OperandRole::group_gradient)) expect(OperandRole::group_gradient, it.piece);
          break;
        case OpKind::write_weights:
        case OpKind::write_states:
          expect(OperandRole::input, it.piece);
          if (held[it.buffer(OperandRole::input)].from != it.buffer(OperandRole::output))
            report(Violation::Kind::stale_read, name(i) + " does not go back to where it came from");
          break;
        case OpKind::write_gradient:
          expect(OperandRole::input, -1);
          break;
        case OpKind::load_weights:
          if (passes(OperandRole::input)) expect_layer(OperandRole::input);
          held[it.buffer(OperandRole::output)] = {it.layer + 1, -1, -1};
          break;
        case OpKind::forward:
        case OpKind::recompute:
        case OpKind::backward:
        case OpKind::decode_layer:
          if (passes(OperandRole::weights)) expect_layer(OperandRole::weights);
          break;
        default:
          break;
      }
    }
  }

  // A slice of the head is computed with its own part of the projection, into its own accumulator, and every
  // slice's gradient leaves once.
  void slices(const Order& order) {
    std::map<BufferId, std::int32_t> projection, accumulator;
    std::map<std::int32_t, int> left;
    bool trains = false;
    for (const OpIndex i : order.topological) {
      const Op& it = op(i);
      trains = trains || it.kind == OpKind::head_backward;
      if (it.slice < 0) continue;
      if (it.slice >= program_.head_slices)
        report(Violation::Kind::malformed, fmt::format("{} of a head in {}", name(i), program_.head_slices));
      const auto expect = [&](const std::map<BufferId, std::int32_t>& held, OperandRole role) {
        const auto found = held.find(it.buffer(role));
        if (found == held.end() || found->second != it.slice)
          report(Violation::Kind::stale_read,
                 fmt::format("{} finds another slice's {}", name(i), to_string(role)));
      };
      if (it.kind == OpKind::load_head) projection[it.buffer(OperandRole::output)] = it.slice;
      if (it.kind == OpKind::head_forward || it.kind == OpKind::head_backward)
        expect(projection, OperandRole::projection);
      if (it.kind == OpKind::head_backward) {
        if (it.first) accumulator[it.buffer(OperandRole::projection_accumulator)] = it.slice;
        expect(accumulator, OperandRole::projection_accumulator);
      }
      if (it.kind == OpKind::offload_head_gradient) {
        expect(accumulator, OperandRole::projection_accumulator);
        ++left[it.slice];
      }
    }
    for (std::int32_t s = 0; trains && s < program_.head_slices; ++s)
      if (left[s] != 1)
        report(Violation::Kind::malformed,
               fmt::format("the gradient of slice {} of the head leaves {} times", s, left[s]));
  }

  const Program& program_;
  const Machine& machine_;
  std::size_t most_;
  std::vector<Violation> found_;
};

}  // namespace

std::vector<Violation> verify(const Program& program, const Machine& machine, std::size_t most) {
  return Verifier(program, machine, most).run();
}

void verify_or_throw(const Program& program, const Machine& machine) {
  const std::vector<Violation> violations = verify(program, machine);
  if (violations.empty()) return;
  std::string text;
  bool only_capacity = true;
  for (const Violation& violation : violations) {
    only_capacity = only_capacity && violation.kind == Violation::Kind::overflow;
    text += (text.empty() ? "" : "; ") + violation.what;
  }
  if (only_capacity) fail(ExitCode::does_not_fit, "{}", text);
  throw std::logic_error("internal error: the Program is not safe: " + text);
}

}  // namespace lazytrain
