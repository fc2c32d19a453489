// The index arrays of a step, as ops read them from the batch buffer: positions, document starts, which rows
// the head computes and their targets, which tokens occur. Order and sizes: program/lowering.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "program/lowering.h"
#include "runtime/step.h"

namespace lazytrain {

enum class BatchArray : std::int64_t {
  positions,
  document_start,
  head_rows,
  head_targets,
  extra,
  tokens,
  token_rows  // training: of every token, its index among the distinct ones; -1 = the padding token
};
inline constexpr BatchArray kDistinctTokens = BatchArray::extra;  // training
// In prefill and decode two arrays hold something else.
inline constexpr BatchArray kCacheSequence = BatchArray::head_targets;
inline constexpr BatchArray kCacheEntry = BatchArray::extra;
inline constexpr BatchArray kActive = BatchArray::head_targets;  // bytes

// Array `array` of a batch buffer of `batch_rows` rows.
inline std::int32_t* batch_array(std::byte* buffer, BatchArray array, std::int64_t batch_rows) {
  return reinterpret_cast<std::int32_t*>(buffer) + static_cast<std::int64_t>(array) * batch_rows;
}

// The distinct values of `tokens` but `padding` (Architecture::padding_token), in ascending order:
// distinct[0 .. returned), -1 behind; rows[i] = index of tokens[i] among them, -1 for `padding`. Both as long
// as `tokens`; allocates nothing.
std::int64_t find_distinct(std::span<const std::int32_t> tokens, std::optional<std::int32_t> padding,
                           std::int32_t* distinct, std::int32_t* rows);

// Fills the host's copy; returns the number of supervised rows of each slot.
std::vector<std::int32_t> fill_batch(std::byte* buffer, const StepTokens& tokens);
// What a training step needs besides; returns the number of distinct tokens.
std::int64_t fill_token_rows(std::byte* buffer, const StepTokens& tokens,
                             std::optional<std::int32_t> padding);
void fill_batch(std::byte* buffer, std::int64_t batch_rows, const PrefillTokens& tokens);
void fill_batch(std::byte* buffer, std::int64_t batch_rows, const DecodeTokens& tokens);

}  // namespace lazytrain
