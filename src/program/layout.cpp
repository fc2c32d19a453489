// Memory layout: interval packing. Each transient buffer is a rectangle, op indices wide and bytes high; the
// rectangles are placed largest first at the lowest free offset (first fit by decreasing size, the usual
// heuristic for offline dynamic storage allocation; optimal is NP-hard).
//
// A search from the floor up would meet every buffer placed before it. So it starts where the bytes below are
// known to be taken: for every op, the height up to which they are without a gap.

#include <algorithm>
#include <numeric>
#include <vector>

#include "program/builder.h"

namespace lazytrain {
namespace {

struct Placed {
  std::int64_t offset, end;
  OpIndex first, last;
};

// For every op, a height below which all bytes are taken at that op. A segment tree: ranges of ops with the
// lowest and the highest of their heights.
class SolidHeights {
 public:
  SolidHeights(std::size_t ops, std::int64_t floor) {
    while (leaves_ < ops) leaves_ *= 2;
    nodes_.assign(2 * leaves_, {floor, floor, floor});
  }

  // The highest at one of the ops [first, last].
  [[nodiscard]] std::int64_t highest(OpIndex first, OpIndex last) {
    return highest({1, 0, leaves_}, static_cast<std::size_t>(first), static_cast<std::size_t>(last) + 1);
  }

  // The bytes [offset, end) are taken at the ops [first, last].
  void take(OpIndex first, OpIndex last, std::int64_t offset, std::int64_t end) {
    take({1, 0, leaves_}, static_cast<std::size_t>(first), static_cast<std::size_t>(last) + 1, offset, end);
  }

 private:
  struct Node {
    std::int64_t low, high;
    std::int64_t raise;  // what the children are at least, not handed down yet
  };
  struct Range {
    std::size_t node, begin, end;
    [[nodiscard]] Range left() const { return {2 * node, begin, begin + (end - begin) / 2}; }
    [[nodiscard]] Range right() const { return {2 * node + 1, begin + (end - begin) / 2, end}; }
  };

  void raise(std::size_t node, std::int64_t height) {
    Node& it = nodes_[node];
    it.low = std::max(it.low, height);
    it.high = std::max(it.high, height);
    it.raise = std::max(it.raise, height);
  }
  void hand_down(const Range& range) {
    raise(range.left().node, nodes_[range.node].raise);
    raise(range.right().node, nodes_[range.node].raise);
  }

  std::int64_t highest(const Range& range, std::size_t begin, std::size_t end) {
    if (begin <= range.begin && range.end <= end) return nodes_[range.node].high;
    hand_down(range);
    const std::size_t middle = range.right().begin;
    if (end <= middle) return highest(range.left(), begin, end);
    if (begin >= middle) return highest(range.right(), begin, end);
    return std::max(highest(range.left(), begin, end), highest(range.right(), begin, end));
  }

  void take(const Range& range, std::size_t begin, std::size_t end, std::int64_t offset, std::int64_t top) {
    const Node& node = nodes_[range.node];
    if (range.end <= begin || end <= range.begin || node.high < offset || node.low >= top) return;
    if (begin <= range.begin && range.end <= end && node.low >= offset) return raise(range.node, top);
    hand_down(range);
    take(range.left(), begin, end, offset, top);
    take(range.right(), begin, end, offset, top);
    const Node &left = nodes_[range.left().node], &right = nodes_[range.right().node];
    nodes_[range.node].low = std::min(left.low, right.low);
    nodes_[range.node].high = std::max(left.high, right.high);
  }

  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

// What is placed already, by offset; `reach` is the highest end so far in that order.
class PlacedBuffers {
 public:
  // The lowest aligned offset from `offset` on where `size` bytes are free at the ops [first, last].
  [[nodiscard]] std::int64_t lowest_free(std::int64_t offset, std::int64_t size, std::int64_t alignment,
                                         OpIndex first, OpIndex last) const {
    // Those before end below it.
    const auto start = std::upper_bound(reach_.begin(), reach_.end(), offset) - reach_.begin();
    offset = align_up(Bytes{offset}, alignment).value;
    for (auto other = placed_.begin() + start; other != placed_.end(); ++other) {
      if (other->last < first || other->first > last || other->end <= offset) continue;
      if (other->offset >= offset + size) break;
      offset = align_up(Bytes{other->end}, alignment).value;
    }
    return offset;
  }

  void add(const Placed& here) {
    const auto at = std::upper_bound(placed_.begin(), placed_.end(), here,
                                     [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    auto reach = reach_.begin() + (at - placed_.begin());
    placed_.insert(at, here);
    const std::int64_t before = reach == reach_.begin() ? here.end : *(reach - 1);
    reach = reach_.insert(reach, std::max(before, here.end)) + 1;
    for (; reach != reach_.end() && *reach < here.end; ++reach) *reach = here.end;
  }

 private:
  std::vector<Placed> placed_;
  std::vector<std::int64_t> reach_;
};

Bytes lay_out_tier(Program& program, Tier tier) {
  Bytes floor;
  std::vector<BufferId> transient;
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    Buffer& buffer = program.buffers[static_cast<std::size_t>(id)];
    if (buffer.tier != tier) continue;
    if (buffer.persistent) {
      buffer.offset = align_up(floor, buffer.alignment);
      floor = buffer.offset + align_up(buffer.size, kBufferAlignment);
    } else if (buffer.first >= 0) {
      transient.push_back(id);
    } else {
      buffer.offset = Bytes{0};  // no op touches it
      buffer.size = Bytes{0};
    }
  }
  const Bytes end_of_persistent = floor;
  // One start for all of them: gaps below would make every search begin there.
  for (const BufferId id : transient) floor = align_up(floor, program.at(id).alignment);
  std::stable_sort(transient.begin(), transient.end(), [&](BufferId a, BufferId b) {
    const Buffer &x = program.at(a), &y = program.at(b);
    if (x.size != y.size) return x.size > y.size;
    return x.first < y.first;
  });

  Bytes top = end_of_persistent;
  PlacedBuffers placed;
  SolidHeights solid(program.ops.size(), floor.value);
  for (const BufferId id : transient) {
    Buffer& buffer = program.buffers[static_cast<std::size_t>(id)];
    const std::int64_t size = align_up(buffer.size, kBufferAlignment).value;
    const std::int64_t start = size > 0 ? solid.highest(buffer.first, buffer.last) : floor.value;
    const std::int64_t offset = placed.lowest_free(start, size, buffer.alignment, buffer.first, buffer.last);
    buffer.offset = Bytes{offset};
    placed.add({offset, offset + size, buffer.first, buffer.last});
    solid.take(buffer.first, buffer.last, offset, offset + size);
    top = std::max(top, Bytes{offset} + buffer.size);
  }
  return top;
}

}  // namespace

void lay_out(Program& program) {
  program.device_bytes = lay_out_tier(program, Tier::device);
  program.host_bytes = lay_out_tier(program, Tier::host);
  program.disk_bytes = lay_out_tier(program, Tier::disk);
}

void estimate_bytes(Program& program) {
  const auto most_alive = [&](Tier tier) {
    std::vector<std::int64_t> change(program.ops.size() + 1, 0);
    std::int64_t now = 0, most = 0;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.tier != tier) continue;
      const std::int64_t size = align_up(buffer.size, kBufferAlignment).value;
      if (buffer.persistent) {
        now = align_up(Bytes{now}, buffer.alignment).value + size;
      } else if (buffer.first >= 0) {
        change[static_cast<std::size_t>(buffer.first)] += size;
        change[static_cast<std::size_t>(buffer.last) + 1] -= size;
      }
    }
    for (const std::int64_t step : change) most = std::max(most, now += step);
    // The highest buffer ends where its bytes end, not on the alignment.
    return Bytes{std::max<std::int64_t>(0, most - (kBufferAlignment - 1))};
  };
  program.device_bytes = most_alive(Tier::device);
  program.host_bytes = most_alive(Tier::host);
  program.disk_bytes = most_alive(Tier::disk);
}

}  // namespace lazytrain
