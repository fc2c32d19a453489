#include "device/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <functional>

#include "core/error.h"

namespace lazytrain::cpu {
namespace {

// An extent cut into tiles of one size, the last one possibly smaller.
struct Cut {
  std::int64_t extent = 0, tile = 1, count = 0;

  Cut() = default;
  // About `parts` tiles, their size a multiple of 16 (a vector register of fp32 sums).
  Cut(std::int64_t extent_, std::int64_t parts) : extent(extent_) {
    tile = ((extent + parts - 1) / parts + 15) / 16 * 16;
    count = (extent + tile - 1) / tile;
  }
  [[nodiscard]] std::int64_t size(std::int64_t index) const { return std::min(tile, extent - index * tile); }
  [[nodiscard]] bool last(std::int64_t index) const { return index == count - 1; }
};

constexpr std::int64_t parts_of_at_most(std::int64_t extent, std::int64_t tile) {
  return (extent + tile - 1) / tile;
}

// At least this many tiles a slot where the sizes allow it: two and four threads are then evenly loaded.
constexpr std::int64_t kTilesPerSlot = 4;

// The tiles of one block of rows (a slot, or what is left after the last whole one). Figures:
// bench/device_bench.cpp.
struct RowBlock {
  Cut rows, columns;

  RowBlock() = default;
  // Rows are cut first, all columns stay together: then neither y nor the weights have gaps, which would be
  // copied. Few rows are cut in columns, as far as four tiles need it.
  static RowBlock forward(std::int64_t row_count, std::int64_t column_count, std::int64_t /*depth*/) {
    RowBlock block;
    block.rows = Cut(row_count, parts_of_at_most(row_count, 128));
    block.columns = Cut(column_count, parts_of_at_most(kTilesPerSlot, block.rows.count));
    return block;
  }
  // Only rows are cut: a tile of the weights' columns would be copied for every tile of rows. Every tile
  // packs all weights, so deep sums (a head's) make do with two.
  static RowBlock input_gradient(std::int64_t row_count, std::int64_t column_count, std::int64_t depth) {
    RowBlock block;
    const std::int64_t wanted = depth >= 8192 ? 2 : kTilesPerSlot;
    block.rows =
        Cut(row_count, parts_of_at_most(row_count, std::clamp<std::int64_t>(row_count / wanted, 64, 128)));
    block.columns = Cut(column_count, 1);
    return block;
  }
  [[nodiscard]] std::int64_t tiles() const { return rows.count * columns.count; }
};

// One product for each of the up to four tile shapes of a block: [last row tile][last column tile].
using TileGemms = std::array<std::array<const Gemm*, 2>, 2>;

template <typename ShapeOfTile>
TileGemms find_gemms(GemmCache& gemms, const Cut& rows, const Cut& columns, ShapeOfTile shape_of_tile) {
  TileGemms found{};
  if (rows.count == 0 || columns.count == 0) return found;
  for (const std::int64_t i : {std::int64_t{0}, rows.count - 1}) {
    for (const std::int64_t j : {std::int64_t{0}, columns.count - 1}) {
      found[rows.last(i)][columns.last(j)] = &gemms.find(shape_of_tile(rows.size(i), columns.size(j)));
    }
  }
  return found;
}

// y[rows, columns] = x[rows, depth] * b[depth, columns] of the forward and of the input gradient.
struct RowProduct {
  DataType type, result;
  std::int64_t rows, slot_rows, columns, depth;
  const void* x;
  const void* b;
  std::int64_t b_row, b_column;
  const void* bias;
  void* y;
  bool accumulate;
  RowBlock (*cut)(std::int64_t rows, std::int64_t columns, std::int64_t depth);
};

// Without a pool: compiles and returns.
void run_rows(ThreadPool* pool, GemmCache& gemms, const RowProduct& op) {
  check(op.rows >= 0 && op.slot_rows > 0 && op.columns > 0 && op.depth > 0,
        "a matrix product has sizes above 0");
  const std::int64_t slots = op.rows / op.slot_rows;
  const std::int64_t rest = op.rows % op.slot_rows;
  struct Block {
    RowBlock block;
    TileGemms gemms;
  };
  const auto make_block = [&](std::int64_t rows) {
    Block made;
    if (rows == 0) return made;
    made.block = op.cut(rows, op.columns, op.depth);
    made.gemms = find_gemms(gemms, made.block.rows, made.block.columns, [&](std::int64_t m, std::int64_t n) {
      return GemmShape{.operand = op.type,
                       .result = op.result,
                       .m = m,
                       .n = n,
                       .k = op.depth,
                       .a_row = op.depth,
                       .a_column = 1,
                       .b_row = op.b_row,
                       .b_column = op.b_column,
                       .c_row = op.columns,
                       .bias = op.bias != nullptr,
                       .accumulate = op.accumulate};
    });
    return made;
  };
  const Block whole = make_block(slots > 0 ? op.slot_rows : 0);
  const Block ragged = make_block(rest);
  if (pool == nullptr) return;
  const std::int64_t whole_tiles = slots * whole.block.tiles();
  const std::int64_t element = size_of(op.type);

  const auto run_tile = [&](std::int64_t index) {
    const bool in_whole = index < whole_tiles;
    const Block& part = in_whole ? whole : ragged;
    if (!in_whole) index -= whole_tiles;
    // Neighbouring tasks share their columns, and so the weights in the cache.
    const std::int64_t row_tiles = part.block.rows.count * (in_whole ? slots : 1);
    const std::int64_t j = index / row_tiles;
    const std::int64_t slot = in_whole ? index % row_tiles / part.block.rows.count : slots;
    const std::int64_t i = index % row_tiles % part.block.rows.count;
    const std::int64_t row = slot * op.slot_rows + i * part.block.rows.tile;
    const std::int64_t column = j * part.block.columns.tile;
    const Gemm* gemm = part.gemms[part.block.rows.last(i)][part.block.columns.last(j)];
    gemm->run(static_cast<const std::byte*>(op.x) + row * op.depth * element,
              static_cast<const std::byte*>(op.b) + column * op.b_column * element,
              op.bias == nullptr ? nullptr : static_cast<const std::byte*>(op.bias) + column * element,
              static_cast<std::byte*>(op.y) + (row * op.columns + column) * size_of(op.result));
  };
  pool->parallel_for(whole_tiles + ragged.block.tiles(), std::ref(run_tile));
}

void multiply(ThreadPool* pool, GemmCache& gemms, const LinearForward& op) {
  run_rows(pool, gemms,
           {.type = op.type,
            .result = op.type,
            .rows = op.rows,
            .slot_rows = op.slot_rows,
            .columns = op.out,
            .depth = op.in,
            .x = op.x,
            .b = op.weight,
            .b_row = 1,
            .b_column = op.in,
            .bias = op.bias,
            .y = op.y,
            .accumulate = op.accumulate,
            .cut = RowBlock::forward});
}

void multiply(ThreadPool* pool, GemmCache& gemms, const LinearInputGradient& op) {
  run_rows(pool, gemms,
           {.type = op.type,
            .result = op.result,
            .rows = op.rows,
            .slot_rows = op.slot_rows,
            .columns = op.in,
            .depth = op.out,
            .x = op.dy,
            .b = op.weight,
            .b_row = op.in,
            .b_column = 1,
            .bias = nullptr,
            .y = op.dx,
            .accumulate = op.accumulate,
            .cut = RowBlock::input_gradient});
}

void multiply(ThreadPool* pool, GemmCache& gemms, const LinearWeightGradient& op) {
  check(op.rows >= 0 && op.slot_rows > 0 && op.in > 0 && op.out > 0, "a weight gradient has sizes above 0");
  const std::int64_t slots = op.rows / op.slot_rows;
  const std::int64_t rest = op.rows % op.slot_rows;
  // Only the rows of dweight are cut: x is then read as it is, and a tile's part of dy is copied once a slot.
  const Cut out(op.out, std::max(kTilesPerSlot, parts_of_at_most(op.out, 256)));
  const Cut in(op.in, 1);
  const auto gemms_of_depth = [&](std::int64_t depth, bool accumulate) {
    return find_gemms(gemms, out, in, [&](std::int64_t m, std::int64_t n) {
      return GemmShape{.operand = op.type,
                       .result = DataType::f32,
                       .m = m,
                       .n = n,
                       .k = depth,
                       .a_row = 1,
                       .a_column = op.out,
                       .b_row = op.in,
                       .b_column = 1,
                       .c_row = op.in,
                       .bias = false,
                       .accumulate = accumulate};
    });
  };
  const bool only_rest = slots == 0;
  const TileGemms first = slots > 0 ? gemms_of_depth(op.slot_rows, op.accumulate) : TileGemms{};
  const TileGemms whole = slots > 1 ? gemms_of_depth(op.slot_rows, true) : TileGemms{};
  const TileGemms ragged = rest > 0 ? gemms_of_depth(rest, op.accumulate || !only_rest) : TileGemms{};
  if (pool == nullptr) return;
  if (op.rows == 0 && !op.accumulate) std::fill_n(op.dweight, op.out * op.in, 0.0F);
  const std::int64_t element = size_of(op.type);

  // A tile adds up its slots in order, each with a product of its own.
  const auto run_tile = [&](std::int64_t index) {
    const std::int64_t i = index / in.count;
    const std::int64_t j = index % in.count;
    auto* dweight = reinterpret_cast<std::byte*>(op.dweight + i * out.tile * op.in + j * in.tile);
    for (std::int64_t row = 0; row < op.rows; row += op.slot_rows) {
      const TileGemms& depth = row + op.slot_rows > op.rows ? ragged : row == 0 ? first : whole;
      depth[out.last(i)][in.last(j)]->run(
          static_cast<const std::byte*>(op.dy) + (row * op.out + i * out.tile) * element,
          static_cast<const std::byte*>(op.x) + (row * op.in + j * in.tile) * element, nullptr, dweight);
    }
  };
  pool->parallel_for(out.count * in.count, std::ref(run_tile));
}

}  // namespace

void run(ThreadPool& pool, GemmCache& gemms, const LinearForward& op) {
  multiply(&pool, gemms, op);
}
void run(ThreadPool& pool, GemmCache& gemms, const LinearInputGradient& op) {
  multiply(&pool, gemms, op);
}
void run(ThreadPool& pool, GemmCache& gemms, const LinearWeightGradient& op) {
  multiply(&pool, gemms, op);
}

void prepare(GemmCache& gemms, const LinearForward& op) {
  multiply(nullptr, gemms, op);
}
void prepare(GemmCache& gemms, const LinearInputGradient& op) {
  multiply(nullptr, gemms, op);
}
void prepare(GemmCache& gemms, const LinearWeightGradient& op) {
  multiply(nullptr, gemms, op);
}

}  // namespace lazytrain::cpu
