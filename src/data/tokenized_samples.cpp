#include "data/tokenized_samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/random.h"

namespace lazytrain {

namespace {

// group, line, number of runs, bytes an id
constexpr std::size_t kHead = 8 + 8 + 4 + 1;
// Of a pass over all samples, after so many bytes the pages behind it are given back.
constexpr std::uint64_t kReleaseEvery = std::uint64_t{16} << 20;

template <typename T>
std::byte* put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
  return to + sizeof(value);
}

template <typename T>
T get(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Calls visit(sample) for all of them in order.
void for_each(const TokenizedSamples& samples, const std::function<void(const TokenizedSample&)>& visit) {
  TokenizedSample sample;
  std::uint64_t passed = 0;
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    samples.read(i, sample);
    visit(sample);
    passed += 2 * sample.ids.size();
    if (passed < kReleaseEvery) continue;
    samples.release();
    passed = 0;
  }
  samples.release();
}

}  // namespace

EncodedSample encode_sample(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
                            std::uint64_t group, std::int64_t line) {
  check(ids.size() == supervised.size(), "one flag a token");
  check(static_cast<std::int64_t>(ids.size()) <= kMaxSampleTokens,
        "a sample is no longer than a slot may be");
  EncodedSample sample;
  sample.tokens = static_cast<std::int64_t>(ids.size());
  std::vector<std::uint32_t> runs;
  std::uint8_t flag = 0;
  for (std::size_t begin = 0; begin < supervised.size(); flag ^= 1) {
    std::size_t end = begin;
    while (end < supervised.size() && (supervised[end] != 0 ? 1 : 0) == flag) ++end;
    if (flag != 0) sample.supervised += static_cast<std::int64_t>(end - begin);
    runs.push_back(static_cast<std::uint32_t>(end - begin));
    begin = end;
  }
  std::uint32_t all = 0;  // every bit that some id has; negative ids have the highest
  for (const std::int32_t id : ids) {
    all |= static_cast<std::uint32_t>(id);
    sample.largest_id = std::max(sample.largest_id, id);
  }
  const bool wide = all > 0xFFFF;
  sample.bytes.resize(kHead + 4 * runs.size() + (wide ? 4 : 2) * ids.size());
  std::byte* to = put(sample.bytes.data(), group);
  to = put(to, line);
  to = put(to, static_cast<std::uint32_t>(runs.size()));
  to = put(to, static_cast<std::uint8_t>(wide ? 4 : 2));
  for (const std::uint32_t run : runs) to = put(to, run);
  for (const std::int32_t id : ids) to = wide ? put(to, id) : put(to, static_cast<std::uint16_t>(id));
  return sample;
}

void SampleTotals::add(const EncodedSample& sample) {
  tokens += sample.tokens;
  supervised += sample.supervised;
  largest_id = std::max(largest_id, sample.largest_id);
}

TokenizedSamples::TokenizedSamples(MappedFile file, std::span<const std::byte> bytes,
                                   std::span<const std::uint64_t> places, SampleTotals totals,
                                   std::uint64_t fingerprint)
    : mapped_(true),
      file_(std::move(file)),
      mapped_bytes_(bytes),
      mapped_places_(places),
      mapped_fingerprint_(fingerprint),
      totals_(totals) {}

void TokenizedSamples::add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
                           std::uint64_t group, std::int64_t line) {
  add(encode_sample(ids, supervised, group, line));
}

void TokenizedSamples::add(const EncodedSample& sample) {
  check(!mapped_, "nothing is added to a file");
  own_places_.push_back(SamplePlace{.begin = own_bytes_.size(), .tokens = sample.tokens}.packed());
  own_bytes_.insert(own_bytes_.end(), sample.bytes.begin(), sample.bytes.end());
  totals_.add(sample);
}

const std::byte* TokenizedSamples::begin_of(std::int64_t i, std::size_t needed) const {
  const std::uint64_t begin = SamplePlace::unpack(places()[i]).begin;
  check(begin <= bytes().size() && needed <= bytes().size() - begin, "a sample lies among the bytes");
  return bytes().data() + begin;
}

TokenizedSample TokenizedSamples::operator[](std::int64_t i) const {
  TokenizedSample sample;
  read(i, sample);
  return sample;
}

void TokenizedSamples::read(std::int64_t i, TokenizedSample& sample) const {
  const auto tokens = static_cast<std::size_t>(length(i));
  const std::byte* head = begin_of(i, kHead);
  const std::size_t runs = get<std::uint32_t>(head + 16);
  const std::size_t width = get<std::uint8_t>(head + 20);
  const std::byte* from = begin_of(i, kHead + 4 * runs + width * tokens) + kHead;
  sample.supervised.clear();
  for (std::size_t run = 0; run < runs; ++run, from += 4) {
    const auto length = std::min<std::size_t>(get<std::uint32_t>(from), tokens - sample.supervised.size());
    sample.supervised.resize(sample.supervised.size() + length, static_cast<std::uint8_t>(run % 2));
  }
  check(sample.supervised.size() == tokens, "the runs are as long as the sample");
  sample.ids.resize(tokens);
  for (std::size_t t = 0; t < tokens; ++t, from += width)
    sample.ids[t] = width == 2 ? get<std::uint16_t>(from) : get<std::int32_t>(from);
}

std::uint64_t TokenizedSamples::group(std::int64_t i) const {
  return get<std::uint64_t>(begin_of(i, kHead));
}

std::int64_t TokenizedSamples::line(std::int64_t i) const {
  return get<std::int64_t>(begin_of(i, kHead) + 8);
}

std::uint64_t TokenizedSamples::fingerprint() const {
  return mapped_ ? mapped_fingerprint_ : fingerprint_of(*this);
}

void TokenizedSamples::release() const {
  if (mapped_) file_.release(0, file_.bytes().size());
}

std::uint64_t fingerprint_of(const TokenizedSamples& samples) {
  Checksum sum;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i <= samples.size(); ++i) {
    sum.add(std::as_bytes(std::span(&begin, 1)));
    if (i < samples.size()) begin += samples.length(i);
  }
  for_each(samples, [&](const TokenizedSample& sample) { sum.add(std::as_bytes(std::span(sample.ids))); });
  for_each(samples,
           [&](const TokenizedSample& sample) { sum.add(std::as_bytes(std::span(sample.supervised))); });
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
  std::uint64_t passed = 0;
  const auto hash_of = [&](std::int64_t i) {
    if (++passed % 4096 == 0) samples.release();
    return std::pair{mix64(samples.group(i) ^ key), samples.group(i)};
  };
  for (std::int64_t i = 0; i < count; ++i) order.push_back(hash_of(i));
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
    const bool validates = std::binary_search(chosen.begin(), chosen.end(), hash_of(i));
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
