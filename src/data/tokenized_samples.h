// Samples as token ids, each id with a flag that says whether the model is to learn to predict it. They are
// kept as they lie in a file (below), either in memory or in a mapped file that the system pages in and out,
// so a dataset larger than memory costs 8 bytes a sample and what is being looked at.
//
// A sample's bytes, native byte order, packed: u64 group, i64 line, u32 number of runs, u8 bytes an id (2 or
// 4), the runs (u32 lengths of not supervised and supervised ids in turn), the ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/file.h"

namespace lazytrain {

// The longest sample.
inline constexpr std::int64_t kMaxSampleTokens = std::int64_t{1} << 24;

struct TokenizedSample {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;  // as long as ids; 1 = to be predicted, 0 = given
};

// A sample as it is kept, and what is known of it without looking inside.
struct EncodedSample {
  std::vector<std::byte> bytes;
  std::int64_t tokens = 0;
  std::int64_t supervised = 0;   // ids to be predicted
  std::int32_t largest_id = -1;  // -1: it has none
};
// `group` says which samples belong together when some are set aside for validation (equal numbers are never
// separated); `line` is where the record begins in its file, 1-based.
[[nodiscard]] EncodedSample encode_sample(std::span<const std::int32_t> ids,
                                          std::span<const std::uint8_t> supervised, std::uint64_t group,
                                          std::int64_t line);

// Where a sample begins among the bytes of all, and its length in tokens, in one number: 39 and 25 bits.
struct SamplePlace {
  std::uint64_t begin = 0;
  std::int64_t tokens = 0;
  [[nodiscard]] std::uint64_t packed() const { return begin << 25 | static_cast<std::uint64_t>(tokens); }
  static SamplePlace unpack(std::uint64_t packed) {
    return {.begin = packed >> 25, .tokens = static_cast<std::int64_t>(packed & ((1u << 25) - 1))};
  }
};

struct SampleTotals {
  std::int64_t tokens = 0;
  std::int64_t supervised = 0;
  std::int32_t largest_id = -1;
  void add(const EncodedSample& sample);
};

class TokenizedSamples {
 public:
  TokenizedSamples() = default;
  // What lies in a mapped file: all samples' bytes and their places. Both are parts of `file`.
  TokenizedSamples(MappedFile file, std::span<const std::byte> bytes, std::span<const std::uint64_t> places,
                   SampleTotals totals, std::uint64_t fingerprint);

  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
           std::uint64_t group = 0, std::int64_t line = 0);
  void add(const EncodedSample& sample);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(places().size()); }
  [[nodiscard]] TokenizedSample operator[](std::int64_t i) const;
  // The same into an object that is used again and again.
  void read(std::int64_t i, TokenizedSample& sample) const;
  [[nodiscard]] std::int64_t length(std::int64_t i) const { return SamplePlace::unpack(places()[i]).tokens; }
  [[nodiscard]] std::uint64_t group(std::int64_t i) const;
  [[nodiscard]] std::int64_t line(std::int64_t i) const;
  [[nodiscard]] std::int64_t tokens() const { return totals_.tokens; }
  [[nodiscard]] std::int64_t supervised_tokens() const { return totals_.supervised; }
  [[nodiscard]] std::int32_t largest_id() const { return totals_.largest_id; }

  // XXH3-64 of all lengths, ids and flags: two runs that print the same value train on the same data.
  [[nodiscard]] std::uint64_t fingerprint() const;

  // Gives back the memory of a mapped file's pages; they come again when they are looked at.
  void release() const;

 private:
  [[nodiscard]] std::span<const std::byte> bytes() const { return mapped_ ? mapped_bytes_ : own_bytes_; }
  [[nodiscard]] std::span<const std::uint64_t> places() const {
    return mapped_ ? mapped_places_ : own_places_;
  }
  [[nodiscard]] const std::byte* begin_of(std::int64_t i, std::size_t needed) const;

  std::vector<std::byte> own_bytes_;
  std::vector<std::uint64_t> own_places_;
  bool mapped_ = false;
  MappedFile file_;
  std::span<const std::byte> mapped_bytes_;
  std::span<const std::uint64_t> mapped_places_;
  std::uint64_t mapped_fingerprint_ = 0;
  SampleTotals totals_;
};

// The fingerprint of samples as they are kept.
[[nodiscard]] std::uint64_t fingerprint_of(const TokenizedSamples& samples);

struct DataSplit {
  std::vector<std::int64_t> train, validation;  // sample numbers, ascending
};

// Sets `validation_size` samples aside: a whole number >= 1, or a fraction of all samples below 1; 0 = none.
// Whole groups are taken in an order that only the seed decides, passing over those that would exceed the
// number, so no question is on both sides and there may be a few samples fewer. Error(data) where a side
// would stay empty, Error(usage) for a negative or non-finite number.
[[nodiscard]] DataSplit split_by_group(const TokenizedSamples& samples, double validation_size,
                                       std::uint64_t seed);

}  // namespace lazytrain
