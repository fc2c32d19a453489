#include "data/packed_batch.h"

namespace lazytrain {

PackedBatch PackedBatch::empty(std::int64_t slots, std::int64_t slot_tokens) {
  PackedBatch batch;
  batch.slots = slots;
  batch.slot_tokens = slot_tokens;
  const auto size = static_cast<std::size_t>(slots * slot_tokens);
  batch.tokens.assign(size, 0);
  batch.targets.assign(size, -1);
  batch.positions.assign(size, 0);
  batch.document_start.assign(size, 0);
  return batch;
}

}  // namespace lazytrain
