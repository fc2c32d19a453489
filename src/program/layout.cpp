// Memory layout: interval packing. Each transient buffer is a rectangle, op indices wide and bytes high; the
// rectangles are placed largest first at the lowest free offset (first fit by decreasing size, the usual
// heuristic for offline dynamic storage allocation; optimal is NP-hard).

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

Bytes lay_out_tier(Program& program, Tier tier) {
  Bytes floor;
  std::vector<BufferId> transient;
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    Buffer& buffer = program.buffers[static_cast<std::size_t>(id)];
    if (buffer.tier != tier) continue;
    if (buffer.persistent) {
      buffer.offset = floor;
      floor += align_up(buffer.size, kBufferAlignment);
    } else if (buffer.first >= 0) {
      transient.push_back(id);
    } else {
      buffer.offset = Bytes{0};  // no op touches it
      buffer.size = Bytes{0};
    }
  }
  std::stable_sort(transient.begin(), transient.end(), [&](BufferId a, BufferId b) {
    const Buffer &x = program.at(a), &y = program.at(b);
    if (x.size != y.size) return x.size > y.size;
    return x.first < y.first;
  });

  Bytes top = floor;
  std::vector<Placed> placed;  // by offset
  for (const BufferId id : transient) {
    Buffer& buffer = program.buffers[static_cast<std::size_t>(id)];
    const std::int64_t size = align_up(buffer.size, kBufferAlignment).value;
    std::int64_t offset = floor.value;
    for (const Placed& other : placed) {
      if (other.last < buffer.first || other.first > buffer.last || other.end <= offset) continue;
      if (other.offset >= offset + size) break;
      offset = other.end;
    }
    buffer.offset = Bytes{offset};
    const Placed here{offset, offset + size, buffer.first, buffer.last};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), here,
                                   [](const Placed& a, const Placed& b) { return a.offset < b.offset; }),
                  here);
    top = std::max(top, Bytes{offset} + buffer.size);
  }
  return top;
}

}  // namespace

void lay_out(Program& program) {
  program.device_bytes = lay_out_tier(program, Tier::device);
  program.host_bytes = lay_out_tier(program, Tier::host);
}

void estimate_bytes(Program& program) {
  const auto most_alive = [&](Tier tier) {
    std::vector<std::int64_t> change(program.ops.size() + 1, 0);
    std::int64_t now = 0, most = 0;
    for (const Buffer& buffer : program.buffers) {
      if (buffer.tier != tier) continue;
      const std::int64_t size = align_up(buffer.size, kBufferAlignment).value;
      if (buffer.persistent) {
        now += size;
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
}

}  // namespace lazytrain
