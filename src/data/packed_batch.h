// One optimizer step's tokens, packed: what a Program consumes. Slots of fixed length hold whole documents
// one after the other; attention, positions and targets never cross a document.
#pragma once

#include <cstdint>
#include <vector>

namespace lazytrain {

struct PackedBatch {
  std::int64_t slots = 0;
  std::int64_t slot_tokens = 0;
  // All [slots, slot_tokens]. Padding at the end of a slot: token 0, target -1, position 0, and it forms a
  // document of its own (document_start = first padding index), so that it touches nothing.
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;         // what position t must predict (already shifted), -1 = nothing
  std::vector<std::int32_t> positions;       // restart at 0 in every document
  std::vector<std::int32_t> document_start;  // index in the slot of the first token of t's document
  std::int64_t supervised = 0;               // targets >= 0
  std::int64_t real_tokens = 0;              // tokens that are not padding
  std::int64_t documents = 0;

  // A batch of padding only.
  static PackedBatch empty(std::int64_t slots, std::int64_t slot_tokens);
};

}  // namespace lazytrain
