#include "data/packing.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kWindowSlots = 64;
constexpr std::int64_t kMaxSlotTokens = std::int64_t{1} << 24;
constexpr std::int64_t kMaxStepTokens = std::int64_t{1} << 31;

// Fisher-Yates: each order is equally likely as far as the generator goes.
template <typename T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

// First-fit decreasing over order[begin, end); returns the members of each slot as indices into `order`, in
// order.
std::vector<std::vector<std::int64_t>> fill_window(const TokenizedSamples& samples,
                                                   const std::vector<std::int64_t>& order, std::int64_t begin,
                                                   std::int64_t end, std::int64_t slot_tokens) {
  std::vector<std::int64_t> by_length(static_cast<std::size_t>(end - begin));
  std::iota(by_length.begin(), by_length.end(), begin);
  std::stable_sort(by_length.begin(), by_length.end(), [&](std::int64_t a, std::int64_t b) {
    return samples.length(order[a]) > samples.length(order[b]);
  });
  std::vector<std::vector<std::int64_t>> members;
  std::vector<std::int64_t> room;
  std::size_t first_open = 0;
  for (const std::int64_t i : by_length) {
    const std::int64_t length = samples.length(order[i]);
    while (first_open < room.size() && room[first_open] == 0) ++first_open;
    std::size_t slot = first_open;
    while (slot < room.size() && room[slot] < length) ++slot;
    if (slot == room.size()) {
      members.emplace_back();
      room.push_back(slot_tokens);
    }
    members[slot].push_back(i);
    room[slot] -= length;
  }
  for (auto& slot : members) std::sort(slot.begin(), slot.end());
  return members;
}

}  // namespace

EpochSlots pack_epoch(const TokenizedSamples& samples, const std::vector<std::int64_t>& used,
                      const PackingOptions& options, std::int64_t epoch) {
  Random random(options.seed, static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order = used;
  if (options.shuffle) shuffle(order, random);
  const auto count = static_cast<std::int64_t>(order.size());
  EpochSlots result;
  result.begin.push_back(0);
  if (!options.packing) {
    for (std::int64_t i = 1; i <= count; ++i) result.begin.push_back(i);
    result.order = std::move(order);
    return result;
  }
  result.order.reserve(order.size());
  for (std::int64_t begin = 0, end = 0; begin < count; begin = end) {
    for (std::int64_t tokens = 0; end < count && tokens < kWindowSlots * options.slot_tokens; ++end) {
      tokens += samples.length(order[end]);
    }
    auto slots = fill_window(samples, order, begin, end, options.slot_tokens);
    if (options.shuffle) shuffle(slots, random);
    for (const auto& slot : slots) {
      for (const std::int64_t i : slot) result.order.push_back(order[i]);
      result.begin.push_back(static_cast<std::int64_t>(result.order.size()));
    }
  }
  return result;
}

PackedBatch make_batch(const TokenizedSamples& samples, const EpochSlots& epoch, std::int64_t first,
                       std::int64_t count, std::int64_t slot_tokens) {
  PackedBatch batch = PackedBatch::empty(count, slot_tokens);
  for (std::int64_t s = 0; s < std::min(count, epoch.slots() - first); ++s) {
    const std::int64_t base = s * slot_tokens;
    std::int64_t at = 0;  // in the slot
    for (std::int64_t i = epoch.begin[first + s]; i < epoch.begin[first + s + 1]; ++i) {
      const TokenizedSample sample = samples[epoch.order[i]];
      const auto length = static_cast<std::int64_t>(sample.ids.size());
      check(at + length <= slot_tokens, "a sample fits its slot");
      const std::int64_t start = at;
      for (std::int64_t t = 0; t < length; ++t, ++at) {
        batch.tokens[base + at] = sample.ids[t];
        batch.positions[base + at] = static_cast<std::int32_t>(t);
        batch.document_start[base + at] = static_cast<std::int32_t>(start);
        // Position t predicts token t + 1 of its own document, so the last one predicts nothing.
        if (t + 1 < length && sample.supervised[t + 1] != 0) {
          batch.targets[base + at] = sample.ids[t + 1];
          ++batch.supervised;
        }
      }
      ++batch.documents;
    }
    batch.real_tokens += at;
    for (std::int64_t pad = at; pad < slot_tokens; ++pad) {
      batch.document_start[base + pad] = static_cast<std::int32_t>(at);
    }
  }
  return batch;
}

BatchStream::BatchStream(const TokenizedSamples& samples, std::vector<std::int64_t> used,
                         const PackingOptions& options)
    : samples_(&samples), used_(std::move(used)), options_(options) {
  if (options_.slot_tokens < 1 || options_.slot_tokens > kMaxSlotTokens) {
    fail(ExitCode::usage, "cutoff_len is {}: give 1 to {}", options_.slot_tokens, kMaxSlotTokens);
  }
  if (options_.slots_per_step < 1 || options_.slots_per_step > kMaxStepTokens / options_.slot_tokens) {
    fail(ExitCode::usage,
         "per_device_train_batch_size x gradient_accumulation_steps is {} slots of {} tokens: give at least "
         "one slot "
         "and at most {} tokens a step",
         options_.slots_per_step, options_.slot_tokens, kMaxStepTokens);
  }
  if (used_.empty()) fail(ExitCode::data, "there are no samples to make batches of: the dataset is empty");
  for (const std::int64_t i : used_) {
    check(i >= 0 && i < samples.size(), "sample numbers lie in the dataset");
    if (samples.length(i) > options_.slot_tokens) {
      fail(ExitCode::data, "the sample of line {} has {} tokens, a slot only {}: raise cutoff_len",
           samples.line(i), samples.length(i), options_.slot_tokens);
    }
  }
}

const EpochSlots& BatchStream::packed(std::int64_t epoch) const {
  if (cached_epoch_ != epoch) {
    cached_ = pack_epoch(*samples_, used_, options_, options_.shuffle ? epoch : 0);
    cached_epoch_ = epoch;
  }
  return cached_;
}

PackedBatch BatchStream::next() {
  const EpochSlots& epoch = packed(cursor_.epoch);
  PackedBatch batch =
      make_batch(*samples_, epoch, cursor_.slot, options_.slots_per_step, options_.slot_tokens);
  cursor_.slot += options_.slots_per_step;
  if (cursor_.slot >= epoch.slots()) cursor_ = {.epoch = cursor_.epoch + 1, .slot = 0};
  return batch;
}

void BatchStream::seek(BatchCursor cursor) {
  if (cursor.epoch < 0 || cursor.slot < 0 || cursor.slot >= slots(cursor.epoch)) {
    fail(ExitCode::model_file,
         "the checkpoint stands at epoch {}, slot {}, which this dataset does not have: resume with the "
         "dataset and "
         "the data settings it was saved with",
         cursor.epoch, cursor.slot);
  }
  cursor_ = cursor;
}

std::int64_t BatchStream::slots(std::int64_t epoch) const {
  return packed(epoch).slots();
}

std::int64_t BatchStream::steps(std::int64_t epoch) const {
  return (slots(epoch) + options_.slots_per_step - 1) / options_.slots_per_step;
}

std::int64_t BatchStream::total_steps(double epochs) const {
  if (!std::isfinite(epochs) || epochs <= 0 || epochs > 1e4) {
    fail(ExitCode::usage, "num_train_epochs is {}: give a number above 0 and at most 10000", epochs);
  }
  // Without shuffling, and with one sample a slot, all epochs have the same number of steps.
  const auto whole = static_cast<std::int64_t>(std::floor(epochs));
  const bool same = !options_.shuffle || !options_.packing;
  std::int64_t total = same ? whole * steps(0) : 0;
  for (std::int64_t epoch = 0; !same && epoch < whole; ++epoch) total += steps(epoch);
  const double part = epochs - static_cast<double>(whole);
  if (part > 0)
    total += static_cast<std::int64_t>(std::ceil(part * static_cast<double>(steps(same ? 0 : whole)) - 1e-9));
  return total;
}

double BatchStream::fill(std::int64_t epoch) const {
  std::int64_t tokens = 0;
  for (const std::int64_t i : used_) tokens += samples_->length(i);
  return static_cast<double>(tokens) / static_cast<double>(slots(epoch) * options_.slot_tokens);
}

}  // namespace lazytrain
