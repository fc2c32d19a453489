// The work of the host stream on plain memory: embedding rows in and out, rounding and norm of the
// embedding's gradient. Sums run in token order whatever the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "core/threads.h"
#include "device/operations.h"

namespace lazytrain {

// out[i] = embedding[tokens[i]]; rows of `width` elements of `type`.
void gather_embedding(ThreadPool& pool, DataType type, std::int64_t width, const void* embedding,
                      std::span<const std::int32_t> tokens, void* out);

// sums[rows[i]] += gradient[i], i = 0, 1, ... in this order for every element; nothing where rows[i] < 0.
void scatter_embedding_gradient(ThreadPool& pool, DataType type, std::int64_t width, const void* gradient,
                                std::span<const std::int32_t> rows, float* sums);

// The embedding's gradient, [elements / width, width] of `type`: gradient[tokens[i]] = round(sums[i]), other
// rows stay; then partial[k] = sum of squares of the k-th kNormChunk elements. `tokens` are distinct.
struct EmbeddingGradient {
  DataType type;
  std::int64_t width, elements;
  std::span<const std::int32_t> tokens;
  const float* sums;
  void* gradient;
  double* partial;
};
void finish_embedding_gradient(ThreadPool& pool, const EmbeddingGradient& op);

// partial[k] = sum of squares of the k-th kNormChunk of `elements` elements, as OffloadGradient sums them.
void sum_squares(ThreadPool& pool, DataType type, std::int64_t elements, const void* gradient,
                 double* partial);

}  // namespace lazytrain
