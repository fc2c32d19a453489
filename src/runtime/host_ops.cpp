#include "runtime/host_ops.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/bfloat16.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kRowsPerTask = 64;
// Columns per task of the scatter: one cache line of fp32, several times over, so that threads never share a
// line.
constexpr std::int64_t kColumnsPerTask = 64;
constexpr std::size_t kLanes = 16;

template <typename T>
void scatter_columns(std::int64_t width, std::int64_t begin, std::int64_t end, const T* gradient,
                     std::span<const std::int32_t> rows, float* sums) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    const T* from = gradient + static_cast<std::int64_t>(i) * width;
    float* to = sums + static_cast<std::int64_t>(rows[i]) * width;
    for (std::int64_t c = begin; c < end; ++c) to[c] += to_float(from[c]);
  }
}

void store(float value, float& to) {
  to = value;
}
void store(float value, bfloat16& to) {
  to = to_bfloat16(value);
}

// Sixteen lanes, added up in pairs: the order of the device's sums (kernels/array_lanes.h).
template <typename T>
void squares(ThreadPool& pool, std::int64_t elements, const T* gradient, double* partial) {
  pool.parallel_for(norm_chunks(elements), [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * kNormChunk, end = std::min(elements, begin + kNormChunk);
    std::array<double, kLanes> sums{};
    for (std::int64_t i = begin; i < end; ++i) {
      const double value = to_float(gradient[i]);
      sums[static_cast<std::size_t>(i - begin) % kLanes] += value * value;
    }
    for (std::size_t half = kLanes / 2; half > 0; half /= 2)
      for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
    partial[chunk] = sums[0];
  });
}

template <typename T>
void finish(ThreadPool& pool, const EmbeddingGradient& op) {
  auto* gradient = static_cast<T*>(op.gradient);
  const auto count = static_cast<std::int64_t>(op.tokens.size());
  pool.parallel_for((count + kRowsPerTask - 1) / kRowsPerTask, [&](std::int64_t task) {
    for (std::int64_t row = task * kRowsPerTask; row < std::min(count, (task + 1) * kRowsPerTask); ++row) {
      const float* from = op.sums + row * op.width;
      T* to = gradient + op.tokens[static_cast<std::size_t>(row)] * op.width;
      for (std::int64_t c = 0; c < op.width; ++c) store(from[c], to[c]);
    }
  });
  squares(pool, op.elements, gradient, op.partial);
}

}  // namespace

void gather_embedding(ThreadPool& pool, DataType type, std::int64_t width, const void* embedding,
                      std::span<const std::int32_t> tokens, void* out) {
  const std::int64_t row_bytes = width * size_of(type), rows = static_cast<std::int64_t>(tokens.size());
  pool.parallel_for((rows + kRowsPerTask - 1) / kRowsPerTask, [&](std::int64_t task) {
    for (std::int64_t row = task * kRowsPerTask; row < std::min(rows, (task + 1) * kRowsPerTask); ++row)
      std::memcpy(
          static_cast<std::byte*>(out) + row * row_bytes,
          static_cast<const std::byte*>(embedding) + tokens[static_cast<std::size_t>(row)] * row_bytes,
          static_cast<std::size_t>(row_bytes));
  });
}

void scatter_embedding_gradient(ThreadPool& pool, DataType type, std::int64_t width, const void* gradient,
                                std::span<const std::int32_t> rows, float* sums) {
  pool.parallel_for((width + kColumnsPerTask - 1) / kColumnsPerTask, [&](std::int64_t task) {
    const std::int64_t begin = task * kColumnsPerTask, end = std::min(width, begin + kColumnsPerTask);
    if (type == DataType::bf16)
      scatter_columns(width, begin, end, static_cast<const bfloat16*>(gradient), rows, sums);
    else
      scatter_columns(width, begin, end, static_cast<const float*>(gradient), rows, sums);
  });
}

void finish_embedding_gradient(ThreadPool& pool, const EmbeddingGradient& op) {
  op.type == DataType::bf16 ? finish<bfloat16>(pool, op) : finish<float>(pool, op);
}

void sum_squares(ThreadPool& pool, DataType type, std::int64_t elements, const void* gradient,
                 double* partial) {
  if (type == DataType::bf16)
    squares(pool, elements, static_cast<const bfloat16*>(gradient), partial);
  else
    squares(pool, elements, static_cast<const float*>(gradient), partial);
}

}  // namespace lazytrain
