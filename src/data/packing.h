// From samples to steps: which samples an epoch visits in which order, which slot each lies in, and the
// arrays that one optimizer step consumes. Everything is a pure function of (lengths, options, epoch), so a
// run that resumes needs two numbers, the BatchCursor, and continues at the same sample with the same slots.
//
// An epoch's order is a Fisher-Yates shuffle by Random(seed, epoch). With packing, samples are taken in that
// order into a window of 64 slots' worth of tokens. Inside the window a slot takes the longest that fits
// while two more would fit behind it, then the pair that leaves the least: 98 % full with word problems at
// 512 tokens, where plain first-fit decreasing gets 94.5 %. The slots of a window are shuffled again, so that
// no step sees long samples only. Without packing a slot holds one sample. Either way each sample is used
// exactly once an epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "data/packed_batch.h"
#include "data/tokenized_samples.h"

namespace lazytrain {

// The longest slot, and the most tokens of one step.
inline constexpr std::int64_t kMaxSlotTokens = kMaxSampleTokens;
inline constexpr std::int64_t kMaxStepTokens = std::int64_t{1} << 31;

struct PackingOptions {
  std::int64_t slot_tokens = 2048;  // cutoff_len; no sample may be longer
  std::int64_t slots_per_step = 1;  // per_device_train_batch_size x gradient_accumulation_steps
  bool packing = true;              // whole documents share slots; false: one sample a slot
  bool shuffle = true;              // false (evaluation): samples in the order given, in every epoch
  std::uint64_t seed = 42;
};

// The slots of one epoch: slot s holds samples order[begin[s]] .. order[begin[s + 1] - 1], whole, one after
// the other.
struct EpochSlots {
  std::vector<std::int64_t> order;
  std::vector<std::int64_t> begin;
  [[nodiscard]] std::int64_t slots() const { return static_cast<std::int64_t>(begin.size()) - 1; }
};

// `used` are the samples to visit (a side of the split). 400,000 samples
// take a fraction of a second.
[[nodiscard]] EpochSlots pack_epoch(const TokenizedSamples& samples, const std::vector<std::int64_t>& used,
                                    const PackingOptions& options, std::int64_t epoch);

// The arrays for slots [first, first + count) of the epoch; slots behind its end are padding.
[[nodiscard]] PackedBatch make_batch(const TokenizedSamples& samples, const EpochSlots& epoch,
                                     std::int64_t first, std::int64_t count, std::int64_t slot_tokens);

// Where training stands in the data: the next slot to be consumed.
struct BatchCursor {
  std::int64_t epoch = 0;
  std::int64_t slot = 0;
  bool operator==(const BatchCursor&) const = default;
};

// Serves one step after the other, epoch after epoch without end. The last step of an epoch is filled up with
// padding: nothing is dropped and no step mixes two epochs. `samples` must outlive it.
class BatchStream {
 public:
  // Error(data) where there are no samples or one is longer than a slot; Error(usage) for sizes that make no
  // sense.
  BatchStream(const TokenizedSamples& samples, std::vector<std::int64_t> used, const PackingOptions& options);

  // The batch of slots_per_step slots at the cursor; the cursor moves behind it.
  PackedBatch next();
  [[nodiscard]] BatchCursor cursor() const { return cursor_; }
  // Error(model_file) where the cursor lies outside its epoch: a checkpoint of other data.
  void seek(BatchCursor cursor);

  [[nodiscard]] std::int64_t slots(std::int64_t epoch) const;
  [[nodiscard]] std::int64_t steps(std::int64_t epoch) const;
  // Optimizer steps of `epochs` epochs (a fraction of the last one rounds up); packs each epoch once.
  [[nodiscard]] std::int64_t total_steps(double epochs) const;
  [[nodiscard]] std::int64_t samples_per_epoch() const { return static_cast<std::int64_t>(used_.size()); }
  // Tokens of an epoch / tokens its slots hold.
  [[nodiscard]] double fill(std::int64_t epoch) const;

 private:
  const EpochSlots& packed(std::int64_t epoch) const;

  const TokenizedSamples* samples_;
  std::vector<std::int64_t> used_;
  PackingOptions options_;
  BatchCursor cursor_;
  mutable EpochSlots cached_;  // of epoch cached_epoch_
  mutable std::int64_t cached_epoch_ = -1;
};

}  // namespace lazytrain
