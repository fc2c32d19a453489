#include "data/packing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kWindowSlots = 64;

// Fisher-Yates: each order is equally likely as far as the generator goes.
template <typename T>
void shuffle(std::vector<T>& items, Random& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random.below(i)]);
}

// The samples of a window by length. Lengths are few: their sum is bounded by the window.
class Shelf {
 public:
  Shelf(const TokenizedSamples& samples, const std::vector<std::int64_t>& order, std::int64_t begin,
        std::int64_t end) {
    std::map<std::int64_t, std::vector<std::int64_t>> by_length;
    for (std::int64_t i = end; i-- > begin;)
      by_length[samples.length(order[i])].push_back(i);  // earliest on top
    for (auto& [length, members] : by_length) stacks_.push_back({length, std::move(members)});
  }
  [[nodiscard]] bool empty() const { return stacks_.empty(); }
  [[nodiscard]] std::int64_t shortest() const { return stacks_.front().length; }

  // The stack of the longest length that fits; its number, or -1.
  [[nodiscard]] std::int64_t longest(std::int64_t room) const {
    const auto above = std::upper_bound(stacks_.begin(), stacks_.end(), room,
                                        [](std::int64_t r, const Stack& stack) { return r < stack.length; });
    return above - stacks_.begin() - 1;
  }
  [[nodiscard]] std::int64_t length(std::int64_t stack) const { return stacks_[stack].length; }

  // The one or two samples that together leave the least of `room`, of which at least one fits.
  [[nodiscard]] std::vector<std::int64_t> best_pair(std::int64_t room) const {
    std::int64_t high = longest(room);
    std::vector<std::int64_t> best{high};
    std::int64_t most = length(high);
    for (std::int64_t low = 0; low <= high;) {
      const std::int64_t sum = length(low) + length(high);
      const bool exists = low < high || stacks_[low].members.size() > 1;
      if (sum <= room && exists && sum > most) {
        best = {high, low};
        most = sum;
      }
      sum <= room ? ++low : --high;
    }
    return best;
  }

  std::int64_t take(std::int64_t stack) {
    auto& members = stacks_[stack].members;
    const std::int64_t i = members.back();
    members.pop_back();
    if (members.empty()) stacks_.erase(stacks_.begin() + stack);
    return i;
  }

 private:
  struct Stack {
    std::int64_t length = 0;
    std::vector<std::int64_t> members;
  };
  std::vector<Stack> stacks_;  // by ascending length
};

// Packs order[begin, end); returns the members of each slot as indices into `order`, ascending.
std::vector<std::vector<std::int64_t>> fill_window(const TokenizedSamples& samples,
                                                   const std::vector<std::int64_t>& order, std::int64_t begin,
                                                   std::int64_t end, std::int64_t slot_tokens) {
  Shelf shelf(samples, order, begin, end);
  std::vector<std::vector<std::int64_t>> slots;
  while (!shelf.empty()) {
    auto& slot = slots.emplace_back();
    std::int64_t room = slot_tokens;
    while (!shelf.empty() && shelf.shortest() <= room) {
      const std::int64_t stack = shelf.longest(room);
      if (room - shelf.length(stack) >= 2 * shelf.shortest()) {
        room -= shelf.length(stack);
        slot.push_back(shelf.take(stack));
        continue;
      }
      for (const std::int64_t last : shelf.best_pair(room))
        slot.push_back(shelf.take(last));  // the higher stack first
      break;
    }
    std::sort(slot.begin(), slot.end());
  }
  return slots;
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
  TokenizedSample sample;
  for (std::int64_t s = 0; s < std::min(count, epoch.slots() - first); ++s) {
    const std::int64_t base = s * slot_tokens;
    std::int64_t at = 0;  // in the slot
    for (std::int64_t i = epoch.begin[first + s]; i < epoch.begin[first + s + 1]; ++i) {
      samples.read(epoch.order[i], sample);
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
  samples.release();
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
