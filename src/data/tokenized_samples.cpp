#include "data/tokenized_samples.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/random.h"

namespace lazytrain {

void TokenizedSamples::add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
                           std::uint64_t group, std::int64_t line) {
  check(ids.size() == supervised.size(), "one flag a token");
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  supervised_.insert(supervised_.end(), supervised.begin(), supervised.end());
  supervised_tokens_ += std::count(supervised.begin(), supervised.end(), std::uint8_t{1});
  begin_.push_back(static_cast<std::int64_t>(ids_.size()));
  group_.push_back(group);
  line_.push_back(line);
}

TokenizedSample TokenizedSamples::operator[](std::int64_t i) const {
  const auto begin = static_cast<std::size_t>(begin_[i]);
  const auto count = static_cast<std::size_t>(length(i));
  return {std::span(ids_).subspan(begin, count), std::span(supervised_).subspan(begin, count)};
}

std::uint64_t TokenizedSamples::fingerprint() const {
  Checksum sum;
  sum.add(std::as_bytes(std::span(begin_)));
  sum.add(std::as_bytes(std::span(ids_)));
  sum.add(std::as_bytes(std::span(supervised_)));
  return sum.value();
}

DataSplit split_by_group(const TokenizedSamples& samples, double validation_size, std::uint64_t seed) {
  if (!std::isfinite(validation_size) || validation_size < 0 ||
      (validation_size > 1 && validation_size != std::floor(validation_size))) {
    fail(ExitCode::usage, "val_size is {}: give a whole number of samples, or a fraction between 0 and 1",
         validation_size);
  }
  const std::int64_t count = samples.size();
  DataSplit split;
  if (validation_size == 0) {
    for (std::int64_t i = 0; i < count; ++i) split.train.push_back(i);
    return split;
  }
  const double fraction_or_count =
      validation_size < 1 ? std::round(validation_size * static_cast<double>(count)) : validation_size;
  if (fraction_or_count >= static_cast<double>(count)) {
    fail(ExitCode::data, "val_size {} leaves nothing of {} samples to train on: use a smaller val_size",
         validation_size, count);
  }
  const auto wanted = static_cast<std::int64_t>(fraction_or_count);

  // Groups in the order of a keyed hash: as good as a shuffle, and independent of the order of the records.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order;  // hash of the group, group; one entry a sample
  order.reserve(static_cast<std::size_t>(count));
  const std::uint64_t key = mix64(mix64(seed) ^ 0x76616C69646174ull);
  for (std::int64_t i = 0; i < count; ++i) {
    order.emplace_back(mix64(samples.group(i) ^ key), samples.group(i));
  }
  std::sort(order.begin(), order.end());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> chosen;
  std::int64_t taken = 0;
  for (std::size_t i = 0, next = 0; i < order.size() && taken < wanted; i = next) {
    while (next < order.size() && order[next] == order[i]) ++next;
    const auto members = static_cast<std::int64_t>(next - i);
    if (taken + members > wanted) continue;
    chosen.push_back(order[i]);
    taken += members;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::pair group{mix64(samples.group(i) ^ key), samples.group(i)};
    const bool validates = std::binary_search(chosen.begin(), chosen.end(), group);
    (validates ? split.validation : split.train).push_back(i);
  }
  if (split.validation.empty()) {
    fail(ExitCode::data,
         "val_size {} of {} samples is too little: the smallest set of samples that share a question is "
         "larger",
         validation_size, count);
  }
  return split;
}

}  // namespace lazytrain
