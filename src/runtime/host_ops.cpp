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
constexpr std::size_t kLanes = 8;

template <typename T>
void scatter_columns(std::int64_t width, std::int64_t begin, std::int64_t end, const T* gradient,
                     std::span<const std::int32_t> tokens, std::int32_t padding, float* accumulator) {
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (tokens[row] == padding) continue;
    const T* from = gradient + static_cast<std::int64_t>(row) * width;
    float* to = accumulator + static_cast<std::int64_t>(tokens[row]) * width;
    for (std::int64_t c = begin; c < end; ++c) to[c] += to_float(from[c]);
  }
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
                                std::span<const std::int32_t> tokens, std::optional<std::int32_t> padding,
                                float* accumulator) {
  const std::int32_t left_out = padding.value_or(-1);
  pool.parallel_for((width + kColumnsPerTask - 1) / kColumnsPerTask, [&](std::int64_t task) {
    const std::int64_t begin = task * kColumnsPerTask, end = std::min(width, begin + kColumnsPerTask);
    if (type == DataType::bf16)
      scatter_columns(width, begin, end, static_cast<const bfloat16*>(gradient), tokens, left_out,
                      accumulator);
    else
      scatter_columns(width, begin, end, static_cast<const float*>(gradient), tokens, left_out, accumulator);
  });
}

void finish_embedding_gradient(ThreadPool& pool, DataType type, std::int64_t elements, float* accumulator,
                               double* partial) {
  pool.parallel_for(norm_chunks(elements), [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * kNormChunk, end = std::min(elements, begin + kNormChunk);
    std::array<double, kLanes> sums{};
    for (std::int64_t i = begin; i < end; ++i) {
      if (type == DataType::bf16) accumulator[i] = to_float(to_bfloat16(accumulator[i]));
      const double value = accumulator[i];
      sums[static_cast<std::size_t>(i - begin) % kLanes] += value * value;
    }
    double sum = 0;
    for (const double lane : sums) sum += lane;
    partial[chunk] = sum;
  });
}

}  // namespace lazytrain
