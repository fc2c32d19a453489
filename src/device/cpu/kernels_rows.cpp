// The row operations on the CPU, cut into tasks. Cuts depend on the operation alone; every row's (or
// column's) result is independent of them.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/error.h"
#include "device/cpu/kernels.h"
#include "device/cpu/kernels_dispatch.h"
#include "device/cpu/kernels_scratch.h"

namespace lazytrain::cpu {
namespace {

constexpr std::int64_t kTaskElements = 32768;  // enough work to pay for handing out a task
constexpr std::int64_t kTaskColumns = 64;      // whole cache lines of a row
constexpr std::int64_t kHeadNormRows = 64;     // whose sums for the norms' weights are made together

// piece(begin, end) over 0..count in pieces of `step`.
template <typename Piece>
void in_pieces(ThreadPool& pool, std::int64_t count, std::int64_t step, Piece piece) {
  pool.parallel_for((count + step - 1) / step, [&](std::int64_t index) {
    const std::int64_t begin = index * step;
    piece(begin, std::min(count, begin + step));
  });
}

std::int64_t rows_per_task(std::int64_t width) {
  return std::max<std::int64_t>(1, kTaskElements / width);
}

void check_slots(std::int64_t rows, std::int64_t slot_rows) {
  check(slot_rows > 0 && rows % slot_rows == 0, "rows are whole slots");
}

}  // namespace

void run(ThreadPool& pool, const BiasGradient& op) {
  check_slots(op.rows, op.slot_rows);
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.out, kTaskColumns, [&](auto begin, auto end) { kernels.bias_gradient(op, begin, end); });
}

void run(ThreadPool& pool, const RmsNormForward& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.rms_norm_forward(op, begin, end); });
}

void run(ThreadPool& pool, const RmsNormBackward& op) {
  check_slots(op.rows, op.slot_rows);
  const KernelTable& kernels = active_kernels();
  const Scratch inverse(op.rows);
  // The weight first: dx may take the place of dy or x.
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.rms_norm_inverse(op, inverse.data(), begin, end); });
  in_pieces(pool, op.width, kTaskColumns,
            [&](auto begin, auto end) { kernels.rms_norm_weight_gradient(op, inverse.data(), begin, end); });
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.rms_norm_backward(op, inverse.data(), begin, end); });
}

void run(ThreadPool& pool, const HeadNormForward& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task((op.heads + 2 * op.kv_heads) * op.head_dim),
            [&](auto begin, auto end) { kernels.head_norm_forward(op, begin, end); });
}

void run(ThreadPool& pool, const HeadNormBackward& op) {
  check_slots(op.rows, op.slot_rows);
  const KernelTable& kernels = active_kernels();
  // A slot's rows come in pieces whose sums are added in order: pieces depend on the slot alone.
  const std::int64_t pieces = (op.slot_rows + kHeadNormRows - 1) / kHeadNormRows;
  const std::int64_t slots = op.rows / op.slot_rows;
  const Scratch sums(slots * pieces * 2 * op.head_dim);
  pool.parallel_for(slots * pieces, [&](std::int64_t task) {
    const std::int64_t begin = task / pieces * op.slot_rows + task % pieces * kHeadNormRows;
    const std::int64_t end = std::min(begin + kHeadNormRows, (task / pieces + 1) * op.slot_rows);
    kernels.head_norm_backward(op, begin, end, sums.data() + task * 2 * op.head_dim);
  });
  kernels.head_norm_weight_gradient(op, pieces, sums.data());
}

void run(ThreadPool& pool, const Rope& op) {
  check(op.head_dim % 2 == 0, "head_dim is even");
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task((op.heads + op.kv_heads) * op.head_dim),
            [&](auto begin, auto end) { kernels.rope(op, begin, end); });
}

void run(ThreadPool& pool, const SwigluForward& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.swiglu_forward(op, begin, end); });
}

void run(ThreadPool& pool, const SwigluBackward& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.swiglu_backward(op, begin, end); });
}

void run(ThreadPool& pool, const SoftmaxScores& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.softmax_scores(op, begin, end); });
}

void run(ThreadPool& pool, const CrossEntropyLoss& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, kTaskElements / kSoftmaxScores,
            [&](auto begin, auto end) { kernels.cross_entropy_loss(op, begin, end); });
}

void run(ThreadPool& pool, const CrossEntropyGradient& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.cross_entropy_gradient(op, begin, end); });
}

void run(ThreadPool& pool, const ArgMax& op) {
  check(op.width > 0, "rows have elements");
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.rows, rows_per_task(op.width),
            [&](auto begin, auto end) { kernels.arg_max(op, begin, end); });
}

void run(ThreadPool& pool, const Round& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.elements, kTaskElements, [&](auto begin, auto end) { kernels.round(op, begin, end); });
}

void run(ThreadPool& pool, const Add& op) {
  const KernelTable& kernels = active_kernels();
  in_pieces(pool, op.elements, kTaskElements, [&](auto begin, auto end) { kernels.add(op, begin, end); });
}

void run(ThreadPool& pool, const OffloadGradient& op) {
  const KernelTable& kernels = active_kernels();
  pool.parallel_for(norm_chunks(op.elements),
                    [&](std::int64_t chunk) { kernels.offload_gradient(op, chunk); });
}

// Moving rows is the same on every instruction set.

void run(ThreadPool& pool, const GatherRows& op) {
  const auto bytes = static_cast<std::size_t>(op.width * size_of(op.type));
  const auto* from = static_cast<const std::byte*>(op.x);
  auto* to = static_cast<std::byte*>(op.out);
  in_pieces(pool, op.count, rows_per_task(op.width), [&](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) {
      std::byte* row = to + static_cast<std::size_t>(i) * bytes;
      if (op.index[i] < 0) {
        std::memset(row, 0, bytes);
      } else {
        std::memcpy(row, from + static_cast<std::size_t>(op.index[i] - op.first) * bytes, bytes);
      }
    }
  });
}

void run(ThreadPool& pool, const ScatterRows& op) {
  const auto bytes = static_cast<std::size_t>(op.width * size_of(op.type));
  const auto* from = static_cast<const std::byte*>(op.x);
  auto* to = static_cast<std::byte*>(op.out);
  for (std::int64_t i = 0; i < op.count; ++i)
    check(op.index[i] < op.rows, "scattered rows lie in the output");
  in_pieces(pool, op.rows, rows_per_task(op.width), [&](auto begin, auto end) {
    std::memset(to + static_cast<std::size_t>(begin) * bytes, 0,
                static_cast<std::size_t>(end - begin) * bytes);
  });
  in_pieces(pool, op.count, rows_per_task(op.width), [&](auto begin, auto end) {
    for (auto i = begin; i < end; ++i) {
      if (op.index[i] < 0) continue;
      std::memcpy(to + static_cast<std::size_t>(op.index[i]) * bytes,
                  from + static_cast<std::size_t>(i) * bytes, bytes);
    }
  });
}

}  // namespace lazytrain::cpu
