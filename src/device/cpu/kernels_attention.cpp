// Attention on the CPU, cut into tasks.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels_dispatch.h"
#include "device/cpu/kernels_scratch.h"
#include "device/kernels/attention_backward.h"
#include "device/kernels/attention_decode.h"
#include "device/kernels/attention_forward.h"

namespace lazytrain::cpu {
namespace {

template <typename Op>
kernels::AttentionShape checked_shape(const Op& op) {
  check(op.kv_heads > 0 && op.heads % op.kv_heads == 0,
        "every key-value head serves the same number of heads");
  check(op.slot_rows > 0 && op.rows % op.slot_rows == 0, "rows are whole slots");
  check(op.window >= 0, "a window of attention is not negative");
  return {op.slot_rows, op.heads, op.kv_heads, op.head_dim, op.window};
}

}  // namespace

void run(ThreadPool& pool, const AttentionForward& op) {
  const kernels::AttentionShape shape = checked_shape(op);
  const KernelTable& table = active_kernels();
  const std::int64_t floats = kernels::attention_forward_scratch(shape);
  reserve_scratch(pool.size(), floats);
  pool.parallel_for(kernels::attention_forward_tasks(shape, op.rows / op.slot_rows), [&](std::int64_t task) {
    const Scratch scratch(floats);
    table.attention_forward(op, task, scratch.data());
  });
}

void run(ThreadPool& pool, const AttentionBackward& op) {
  const kernels::AttentionShape shape = checked_shape(op);
  const KernelTable& table = active_kernels();
  constexpr std::int64_t kDeltaRows = 64;
  pool.parallel_for((op.rows + kDeltaRows - 1) / kDeltaRows, [&](std::int64_t tile) {
    table.attention_delta(op, tile * kDeltaRows, std::min(op.rows, (tile + 1) * kDeltaRows));
  });

  // Pairs (slot, key-value head) go to threads whole as long as every thread has one; the last, incomplete
  // round is split where that ends sooner (7 products instead of 5, but shared by all). Both give the same
  // bits.
  const std::int64_t threads = pool.size();
  const std::int64_t pairs = op.rows / op.slot_rows * op.kv_heads;
  const std::int64_t rest = pairs % threads;
  // Scratch is no buffer of the plan: long slots, whose whole pairs would need much of it, are always split.
  constexpr std::int64_t kMostScratch = std::int64_t{16} << 20;  // floats of all threads: 64 MiB
  const bool small = threads * kernels::attention_backward_whole_scratch(shape) <= kMostScratch;
  const std::int64_t whole = !small ? 0 : 7 * rest < 5 * threads ? pairs - rest : pairs;
  const std::int64_t blocks = shape.blocks();
  const std::int64_t key_tasks = (pairs - whole) * blocks;
  const std::int64_t query_tasks = key_tasks * shape.group();
  const std::int64_t floats = std::max(whole > 0 ? kernels::attention_backward_whole_scratch(shape) : 0,
                                       kernels::attention_backward_split_scratch(shape));
  reserve_scratch(pool.size(), floats);
  pool.parallel_for(whole + key_tasks + query_tasks, [&](std::int64_t task) {
    const Scratch scratch(floats);
    if (task < whole) {
      table.attention_backward_whole(op, task / op.kv_heads, task % op.kv_heads, scratch.data());
      return;
    }
    task -= whole;
    const std::int64_t split = pairs - whole;
    if (task < key_tasks) {  // early blocks of keys have the most queries
      const std::int64_t pair = whole + task % split;
      table.attention_backward_keys(op, pair / op.kv_heads, pair % op.kv_heads, task / split, scratch.data());
      return;
    }
    task -= key_tasks;
    const std::int64_t pair = whole + task % split;
    const std::int64_t head = pair % op.kv_heads * shape.group() + task / split % shape.group();
    const std::int64_t block = blocks - 1 - task / split / shape.group();
    table.attention_backward_queries(op, pair / op.kv_heads, head, block, scratch.data());
  });
}

void run(ThreadPool& pool, const AttentionDecode& op) {
  check(op.kv_heads > 0 && op.heads % op.kv_heads == 0,
        "every key-value head serves the same number of heads");
  const kernels::AttentionShape shape{0, op.heads, op.kv_heads, op.head_dim, op.window};
  const KernelTable& table = active_kernels();
  const std::int64_t floats = kernels::attention_decode_scratch(shape);
  reserve_scratch(pool.size(), floats);
  const auto element = static_cast<std::size_t>(size_of(op.type));
  const auto head_bytes = static_cast<std::size_t>(op.head_dim) * element;
  pool.parallel_for(op.sequences * op.kv_heads, [&](std::int64_t task) {
    const std::int64_t sequence = task / op.kv_heads, kv_head = task % op.kv_heads;
    const std::int64_t group = shape.group();
    if (op.active[sequence] == 0) {
      auto* core = static_cast<std::byte*>(op.core);
      std::memset(core + static_cast<std::size_t>(sequence * op.heads + kv_head * group) * head_bytes, 0,
                  static_cast<std::size_t>(group) * head_bytes);
      return;
    }
    const std::int64_t length = op.length[sequence];
    check(length >= 0 && length < op.capacity, "the cache has room for the token");
    const auto* token =
        static_cast<const std::byte*>(op.qkv) + static_cast<std::size_t>(sequence * shape.row()) * element;
    auto* entry = static_cast<std::byte*>(op.cache) +
                  static_cast<std::size_t>((sequence * op.capacity + length) * 2 * op.kv_heads) * head_bytes;
    const auto at = static_cast<std::size_t>(kv_head) * head_bytes;
    const auto value = static_cast<std::size_t>(op.kv_heads) * head_bytes;
    std::memcpy(entry + at, token + static_cast<std::size_t>(shape.key(kv_head)) * element, head_bytes);
    std::memcpy(entry + value + at, token + static_cast<std::size_t>(shape.value(kv_head)) * element,
                head_bytes);
    const Scratch scratch(floats);
    table.attention_decode(op, sequence, kv_head, scratch.data());
  });
}

void run(ThreadPool& pool, const CacheFill& op) {
  const std::int64_t pair = 2 * op.kv_heads * op.head_dim;  // a row's keys and values are neighbours
  const std::int64_t row = (op.heads + 2 * op.kv_heads) * op.head_dim;
  const auto element = static_cast<std::size_t>(size_of(op.type));
  const auto* from = static_cast<const std::byte*>(op.qkv);
  auto* to = static_cast<std::byte*>(op.cache);
  constexpr std::int64_t kRows = 64;
  pool.parallel_for((op.rows + kRows - 1) / kRows, [&](std::int64_t tile) {
    for (std::int64_t i = tile * kRows; i < std::min(op.rows, (tile + 1) * kRows); ++i) {
      if (op.cache_sequence[i] < 0) continue;
      check(op.cache_entry[i] >= 0 && op.cache_entry[i] < op.capacity, "cache entries lie in the cache");
      const std::int64_t entry = op.cache_sequence[i] * op.capacity + op.cache_entry[i];
      std::memcpy(to + static_cast<std::size_t>(entry * pair) * element,
                  from + static_cast<std::size_t>(i * row + op.heads * op.head_dim) * element,
                  static_cast<std::size_t>(pair) * element);
    }
  });
}

}  // namespace lazytrain::cpu
