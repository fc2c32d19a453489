// Memory layout: buffers that live at the same time never share a byte, and the arenas are hardly larger than
// the most bytes that are ever alive.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/builder.h"
#include "program/program_support.h"

namespace lazytrain {
namespace {

std::int64_t aligned(const Buffer& buffer) {
  return align_up(buffer.size, kBufferAlignment).value;
}

bool alive(const Buffer& buffer, OpIndex at) {
  return !buffer.persistent && buffer.first >= 0 && buffer.first <= at && at <= buffer.last;
}

// Where the persistent buffers end: they lie one after the other.
std::int64_t floor_of(const Program& program, Tier tier) {
  std::int64_t floor = 0;
  for (const Buffer& buffer : program.buffers)
    if (buffer.tier == tier && buffer.persistent)
      floor = align_up(Bytes{floor}, buffer.alignment).value + aligned(buffer);
  return floor;
}

// Most bytes that are reserved at one op: no layout can do with less.
std::int64_t lower_bound(const Program& program, Tier tier) {
  std::int64_t most = 0;
  for (OpIndex i = 0; i < static_cast<OpIndex>(program.ops.size()); ++i) {
    std::int64_t sum = floor_of(program, tier);
    for (const Buffer& buffer : program.buffers)
      if (buffer.tier == tier && alive(buffer, i)) sum += aligned(buffer);
    most = std::max(most, sum);
  }
  return most - (kBufferAlignment - 1);  // the highest buffer ends where its bytes end
}

TEST(Layout, BuffersThatMeetDoNotOverlap) {
  for (std::uint64_t n = 0; n < 400; ++n) {
    const RandomCase test = random_case(n);
    const Program program =
        lower_train_step(test.context, test.plan, small_workspace(), LoweringDepth::memory);
    for (std::size_t a = 0; a < program.buffers.size(); ++a)
      for (std::size_t b = a + 1; b < program.buffers.size(); ++b) {
        const Buffer &x = program.buffers[a], &y = program.buffers[b];
        if (x.tier != y.tier || x.size.value == 0 || y.size.value == 0) continue;
        const bool meet = x.persistent || y.persistent || (x.first <= y.last && y.first <= x.last);
        const bool overlap = x.offset < y.offset + y.size && y.offset < x.offset + x.size;
        ASSERT_FALSE(meet && overlap) << "case " << n << ": " << x.name << " and " << y.name;
        ASSERT_EQ(x.offset.value % x.alignment, 0);
      }
  }
}

// First fit by decreasing size, searched from the floor up: what the faster search must find too.
TEST(Layout, EveryOffsetIsTheLowestThatIsFree) {
  for (std::uint64_t n = 0; n < 200; ++n) {
    const RandomCase test = random_case(n);
    const Program program =
        lower_train_step(test.context, test.plan, small_workspace(), LoweringDepth::memory);
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      std::vector<Buffer> order;
      std::int64_t floor = floor_of(program, tier);
      for (const Buffer& buffer : program.buffers)
        if (buffer.tier == tier && !buffer.persistent && buffer.first >= 0) order.push_back(buffer);
      for (const Buffer& buffer : order) floor = align_up(Bytes{floor}, buffer.alignment).value;
      std::stable_sort(order.begin(), order.end(), [](const Buffer& a, const Buffer& b) {
        return a.size != b.size ? a.size > b.size : a.first < b.first;
      });
      for (std::size_t i = 0; i < order.size(); ++i) {
        std::int64_t offset = floor;
        for (bool moved = true; moved;) {
          moved = false;
          for (std::size_t j = 0; j < i; ++j) {
            const Buffer& other = order[j];
            if (other.first > order[i].last || other.last < order[i].first) continue;
            const std::int64_t begin = other.offset.value, end = begin + aligned(other);
            if (begin >= offset + aligned(order[i]) || end <= offset) continue;
            offset = align_up(Bytes{end}, order[i].alignment).value, moved = true;
          }
        }
        ASSERT_EQ(order[i].offset.value, offset) << "case " << n << ": " << order[i].name;
      }
    }
  }
}

TEST(Layout, IsNearTheLowerBound) {
  double sum = 0, worst = 0;
  int count = 0;
  for (std::uint64_t n = 0; n < 600; ++n) {
    const RandomCase test = random_case(n);
    const Program program =
        lower_train_step(test.context, test.plan, small_workspace(), LoweringDepth::memory);
    const double ratio = static_cast<double>(program.device_bytes.value) /
                         static_cast<double>(lower_bound(program, Tier::device));
    ASSERT_GE(ratio, 1.0 - 1e-12);
    const Program estimate =
        lower_train_step(test.context, test.plan, small_workspace(), LoweringDepth::estimate);
    ASSERT_EQ(estimate.device_bytes.value, lower_bound(program, Tier::device)) << "case " << n;
    ASSERT_EQ(estimate.host_bytes.value, std::max<std::int64_t>(0, lower_bound(program, Tier::host)));
    // Blocks of the disk are as large as many of these small buffers: gaps before them prove nothing.
    if (std::any_of(program.buffers.begin(), program.buffers.end(), [](const Buffer& buffer) {
          return !buffer.persistent && buffer.alignment > kBufferAlignment;
        }))
      continue;
    sum += ratio;
    worst = std::max(worst, ratio);
    ++count;
    if (test.context.tiers == TierModel::tiered) {
      EXPECT_LE(static_cast<double>(program.host_bytes.value),
                1.02 * static_cast<double>(lower_bound(program, Tier::host)))
          << "case " << n;
    }
  }
  EXPECT_LE(sum / count, 1.01);
  EXPECT_LE(worst, 1.08);
  RecordProperty("mean", std::to_string(sum / count));
  RecordProperty("worst", std::to_string(worst));
}

TEST(Layout, PlacesThreeRectanglesByHand) {
  // a |####    | 128 bytes, ops 0..1
  // b |  ##### | 64 bytes, ops 1..2
  // c |    ####| 128 bytes, ops 2..3: fits where a was.
  Program program;
  program.tiers = TierModel::tiered;
  program.ops.resize(4);
  program.buffers = {{.name = "a", .size = {128}, .first = 0, .last = 1},
                     {.name = "b", .size = {64}, .first = 1, .last = 2},
                     {.name = "c", .size = {128}, .first = 2, .last = 3},
                     {.name = "p", .size = {100}, .persistent = true},
                     {.name = "unused", .size = {50}}};
  lay_out(program);
  EXPECT_EQ(program.buffers[3].offset.value, 0);
  EXPECT_EQ(program.buffers[0].offset.value, 128);  // behind p, aligned
  EXPECT_EQ(program.buffers[2].offset.value, 128);
  EXPECT_EQ(program.buffers[1].offset.value, 256);
  EXPECT_EQ(program.buffers[4].size.value, 0);  // no op touches it
  EXPECT_EQ(program.device_bytes.value, 320);
  EXPECT_EQ(program.host_bytes.value, 0);
}

}  // namespace
}  // namespace lazytrain
