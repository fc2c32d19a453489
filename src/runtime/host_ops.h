// The work of the host stream on plain memory: embedding rows in and out, rounding and norm of the
// embedding's gradient. Sums run in token order whatever the number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/threads.h"
#include "device/operations.h"

namespace lazytrain {

// out[i] = embedding[tokens[i]]; rows of `width` elements of `type`.
void gather_embedding(ThreadPool& pool, DataType type, std::int64_t width, const void* embedding,
                      std::span<const std::int32_t> tokens, void* out);

// accumulator[tokens[i]] += gradient[i], i = 0, 1, ... in this order for every element; rows of the token
// `padding` are left out (Architecture::padding_token).
void scatter_embedding_gradient(ThreadPool& pool, DataType type, std::int64_t width, const void* gradient,
                                std::span<const std::int32_t> tokens, std::optional<std::int32_t> padding,
                                float* accumulator);

// accumulator = round(accumulator) to `type`, kept as fp32; partial[k] = sum of squares of the k-th
// kNormChunk elements.
void finish_embedding_gradient(ThreadPool& pool, DataType type, std::int64_t elements, float* accumulator,
                               double* partial);

}  // namespace lazytrain
