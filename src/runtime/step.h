// What goes into one run of a Program and what comes out of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"
#include "optim/adamw.h"

namespace lazytrain {

// The tokens of a step. All spans are [slots, slot_tokens]; see data/packed_batch.h for their meaning.
struct StepTokens {
  std::int64_t slots = 0;
  std::int64_t slot_tokens = 0;
  std::span<const std::int32_t> tokens, positions, document_start, targets;
};

// Prompts packed into slots, for a prefill: token i of the slots belongs to entry cache_entry[i] of sequence
// cache_sequence[i] (-1: padding). last_row[s] = row of sequence s's last prompt token, -1 = not in this
// call.
struct PrefillTokens {
  std::span<const std::int32_t> tokens, positions, document_start, cache_sequence, cache_entry;
  std::span<const std::int32_t> last_row;  // [sequences]
};

// One token per sequence; length[s] = tokens already in the cache (= the token's position).
struct DecodeTokens {
  std::span<const std::int32_t> tokens, length;  // [sequences]
  std::span<const std::uint8_t> active;
};

struct OpTiming {
  Seconds start = 0, end = 0;  // since the step began
};

struct StepOutcome {
  double loss_sum = 0;                    // over supervised tokens
  std::int64_t supervised = 0;            // their number
  double gradient_norm = 0;               // before clipping; training only
  bool finite = true;                     // false: the update of this step is left out
  Seconds seconds = 0;                    // wall time
  std::vector<OpTiming> timings;          // by op, only where asked for
  std::vector<float> token_losses;        // only where asked for: of the supervised tokens, in slot order
  std::vector<std::int32_t> next_tokens;  // generation: [sequences]
};

}  // namespace lazytrain
