// Which ops must wait for which: walks the list once and keeps, for every byte range of every tier, the last
// op that wrote it and the last op of each stream that read it since. A read waits for the writer, a write
// for the writer and the readers. Reuse of memory by another buffer needs no rule of its own: it is the same
// bytes.

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "core/error.h"
#include "program/builder.h"

namespace lazytrain {
namespace {

constexpr OpIndex kNone = -1;

struct Segment {
  std::int64_t end;
  OpIndex writer = kNone;
  std::array<OpIndex, kStreamCount> readers;
};

class AccessMap {
 public:
  explicit AccessMap(std::int64_t size) : size_(std::max<std::int64_t>(size, 1)) {
    Segment whole{.end = size_, .writer = kNone, .readers = {}};
    whole.readers.fill(kNone);
    segments_[0] = whole;
  }

  template <typename Visit>
  void visit(std::int64_t begin, std::int64_t end, const Visit& visit) {
    check_range(begin, end);
    split(begin);
    split(end);
    for (auto at = segments_.lower_bound(begin); at != segments_.end() && at->first < end; ++at)
      visit(at->second);
  }

  // After a write the whole range has one history: merge it, so that the map stays small.
  void overwrite(std::int64_t begin, std::int64_t end, OpIndex writer) {
    check_range(begin, end);
    split(begin);
    split(end);
    segments_.erase(segments_.lower_bound(begin), segments_.lower_bound(end));
    Segment segment{.end = end, .writer = writer, .readers = {}};
    segment.readers.fill(kNone);
    segments_[begin] = segment;
  }

 private:
  // A reversed range would erase beyond the end of the map.
  void check_range(std::int64_t begin, std::int64_t end) const {
    check(0 <= begin && begin < end && end <= size_, "the bytes of a buffer lie inside its arena");
  }

  void split(std::int64_t at) {
    auto found = segments_.upper_bound(at);
    if (found == segments_.begin()) return;
    --found;
    if (found->first == at || found->second.end <= at) return;
    Segment tail = found->second;
    found->second.end = at;
    segments_[at] = tail;
  }

  std::int64_t size_;
  std::map<std::int64_t, Segment> segments_;
};

using Clock = std::array<OpIndex, kStreamCount>;  // per stream: the last op known to have ended

}  // namespace

void add_dependencies(Program& program) {
  std::array<AccessMap, 3> tiers{AccessMap(program.device_bytes.value), AccessMap(program.host_bytes.value),
                                 AccessMap(program.disk_bytes.value)};
  std::vector<Clock> clocks(program.ops.size());
  Clock none;
  none.fill(kNone);
  std::array<OpIndex, kStreamCount> last_on_stream;
  last_on_stream.fill(kNone);

  for (OpIndex i = 0; i < static_cast<OpIndex>(program.ops.size()); ++i) {
    Op& op = program.ops[static_cast<std::size_t>(i)];
    const auto stream = static_cast<std::size_t>(op.stream);
    Clock needed = none;  // per stream: the latest op this one must wait for
    const auto need = [&](OpIndex other) {
      if (other == kNone) return;
      const auto at = static_cast<std::size_t>(program.ops[static_cast<std::size_t>(other)].stream);
      needed[at] = std::max(needed[at], other);
    };
    for (const OpIndex other : op.after) need(other);
    for (const Operand& operand : op.operands) {
      const Buffer& buffer = program.at(operand.buffer);
      if (buffer.size.value == 0) continue;
      AccessMap& map = tiers[static_cast<std::size_t>(buffer.tier)];
      map.visit(buffer.offset.value, buffer.offset.value + buffer.size.value, [&](Segment& segment) {
        need(segment.writer);
        if (operand.access != Access::read)
          for (const OpIndex reader : segment.readers) need(reader);
      });
    }
    for (const Operand& operand : op.operands) {
      const Buffer& buffer = program.at(operand.buffer);
      if (buffer.size.value == 0) continue;
      AccessMap& map = tiers[static_cast<std::size_t>(buffer.tier)];
      const std::int64_t begin = buffer.offset.value, end = begin + buffer.size.value;
      if (operand.access == Access::read) {
        map.visit(begin, end, [&](Segment& segment) { segment.readers[stream] = i; });
      } else {
        map.overwrite(begin, end, i);
      }
    }

    Clock& clock = clocks[static_cast<std::size_t>(i)];
    clock = last_on_stream[stream] == kNone ? none : clocks[static_cast<std::size_t>(last_on_stream[stream])];
    op.after.clear();
    // Latest first: waiting for it may imply the others.
    std::vector<OpIndex> wanted;
    for (std::size_t s = 0; s < kStreamCount; ++s)
      if (s != stream && needed[s] != kNone) wanted.push_back(needed[s]);
    std::sort(wanted.rbegin(), wanted.rend());
    for (const OpIndex other : wanted) {
      const auto at = static_cast<std::size_t>(program.ops[static_cast<std::size_t>(other)].stream);
      if (clock[at] >= other) continue;
      op.after.push_back(other);
      const Clock& theirs = clocks[static_cast<std::size_t>(other)];
      for (std::size_t s = 0; s < kStreamCount; ++s) clock[s] = std::max(clock[s], theirs[s]);
    }
    std::sort(op.after.begin(), op.after.end());
    clock[stream] = i;
    last_on_stream[stream] = i;
  }
}

}  // namespace lazytrain
