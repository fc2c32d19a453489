#include "runtime/batch_arrays.h"

#include <algorithm>
#include <numeric>

namespace lazytrain {
namespace {

void put(std::byte* buffer, BatchArray array, std::int64_t batch_rows, std::span<const std::int32_t> values) {
  std::copy(values.begin(), values.end(), batch_array(buffer, array, batch_rows));
}

}  // namespace

std::int64_t find_distinct(std::span<const std::int32_t> tokens, std::optional<std::int32_t> padding,
                           std::int32_t* distinct, std::int32_t* rows) {
  const std::int32_t left_out = padding.value_or(-1);
  std::int32_t* end = std::remove_copy(tokens.begin(), tokens.end(), distinct, left_out);
  std::sort(distinct, end);
  end = std::unique(distinct, end);
  std::fill(end, distinct + tokens.size(), -1);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    rows[i] = tokens[i] == left_out
                  ? -1
                  : static_cast<std::int32_t>(std::lower_bound(distinct, end, tokens[i]) - distinct);
  return end - distinct;
}

std::vector<std::int32_t> fill_batch(std::byte* buffer, const StepTokens& step) {
  const std::int64_t rows = step.slots * step.slot_tokens;
  put(buffer, BatchArray::tokens, rows, step.tokens);
  put(buffer, BatchArray::positions, rows, step.positions);
  put(buffer, BatchArray::document_start, rows, step.document_start);
  std::int32_t* head_rows = batch_array(buffer, BatchArray::head_rows, rows);
  std::int32_t* head_targets = batch_array(buffer, BatchArray::head_targets, rows);
  std::fill_n(head_rows, rows, -1);
  std::fill_n(head_targets, rows, -1);
  std::vector<std::int32_t> counts;
  for (std::int64_t slot = 0; slot < step.slots; ++slot) {
    const std::int64_t first = slot * step.slot_tokens;
    std::int32_t count = 0;
    for (std::int64_t row = 0; row < step.slot_tokens; ++row) {
      const std::int32_t target = step.targets[static_cast<std::size_t>(first + row)];
      if (target < 0) continue;
      head_rows[first + count] = static_cast<std::int32_t>(row);
      head_targets[first + count] = target;
      ++count;
    }
    counts.push_back(count);
  }
  return counts;
}

std::int64_t fill_token_rows(std::byte* buffer, const StepTokens& step, std::optional<std::int32_t> padding) {
  const std::int64_t rows = step.slots * step.slot_tokens;
  return find_distinct(step.tokens, padding, batch_array(buffer, kDistinctTokens, rows),
                       batch_array(buffer, BatchArray::token_rows, rows));
}

void fill_batch(std::byte* buffer, std::int64_t batch_rows, const PrefillTokens& step) {
  put(buffer, BatchArray::tokens, batch_rows, step.tokens);
  put(buffer, BatchArray::positions, batch_rows, step.positions);
  put(buffer, BatchArray::document_start, batch_rows, step.document_start);
  put(buffer, kCacheSequence, batch_rows, step.cache_sequence);
  put(buffer, kCacheEntry, batch_rows, step.cache_entry);
  put(buffer, BatchArray::head_rows, batch_rows, step.last_row);
}

void fill_batch(std::byte* buffer, std::int64_t batch_rows, const DecodeTokens& step) {
  put(buffer, BatchArray::tokens, batch_rows, step.tokens);
  put(buffer, BatchArray::positions, batch_rows, step.length);
  std::copy(step.active.begin(), step.active.end(),
            reinterpret_cast<std::uint8_t*>(batch_array(buffer, kActive, batch_rows)));
  std::int32_t* head_rows = batch_array(buffer, BatchArray::head_rows, batch_rows);
  std::iota(head_rows, head_rows + step.tokens.size(), 0);
}

}  // namespace lazytrain
