// Samples as token ids, each id with a flag that says whether the model is to learn to predict it. All
// samples lie in two arrays one after the other: 5 bytes a token, nothing else of the text is kept.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lazytrain {

struct TokenizedSample {
  std::span<const std::int32_t> ids;
  std::span<const std::uint8_t> supervised;  // as long as ids; 1 = to be predicted, 0 = given
};

class TokenizedSamples {
 public:
  // `group` says which samples belong together when some are set aside for validation (equal numbers are
  // never separated); `line` is where the record begins in its file, 1-based.
  void add(std::span<const std::int32_t> ids, std::span<const std::uint8_t> supervised,
           std::uint64_t group = 0, std::int64_t line = 0);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(group_.size()); }
  [[nodiscard]] TokenizedSample operator[](std::int64_t i) const;
  [[nodiscard]] std::int64_t length(std::int64_t i) const { return begin_[i + 1] - begin_[i]; }
  [[nodiscard]] std::uint64_t group(std::int64_t i) const { return group_[i]; }
  [[nodiscard]] std::int64_t line(std::int64_t i) const { return line_[i]; }
  [[nodiscard]] std::int64_t tokens() const { return begin_.back(); }
  [[nodiscard]] std::int64_t supervised_tokens() const { return supervised_tokens_; }

  // XXH3-64 of all lengths, ids and flags: two runs that print the same value train on the same data.
  [[nodiscard]] std::uint64_t fingerprint() const;

 private:
  std::vector<std::int32_t> ids_;
  std::vector<std::uint8_t> supervised_;
  std::vector<std::int64_t> begin_{0};  // of sample i in ids_; one more than samples
  std::vector<std::uint64_t> group_;
  std::vector<std::int64_t> line_;
  std::int64_t supervised_tokens_ = 0;
};

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
