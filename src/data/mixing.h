// Several datasets as one epoch: joined, or interleaved in given shares. A pure function of the datasets, the
// shares and the seed, so a run that resumes mixes the same way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lazytrain {

enum class MixStrategy : std::uint8_t {
  concat,            // each sample of each dataset once
  interleave_under,  // until one dataset has no more samples
  interleave_over    // until every dataset was used up; those that were begin again
};

// The longest epoch that interleaving may make.
inline constexpr std::int64_t kMostMixed = 100'000'000;

// By LLaMA-Factory's names; Error(usage) for another.
[[nodiscard]] MixStrategy parse_mix_strategy(const std::string& text);
// One number above 0 a dataset, only with interleaving: the chance that the next sample is from it (they are
// divided by their sum). Error(usage) where they are not that. Empty: datasets take turns.
[[nodiscard]] std::vector<double> parse_interleave_probs(const std::vector<std::string>& texts,
                                                         MixStrategy strategy, std::size_t datasets);

// `parts` are the samples of each dataset, in order. Where datasets take turns, `under` goes as far as the
// shortest and `over` as far as the longest. Error(data) where one that is to be interleaved is empty,
// Error(usage) where more than kMostMixed would come out.
[[nodiscard]] std::vector<std::int64_t> mix(const std::vector<std::vector<std::int64_t>>& parts,
                                            MixStrategy strategy, const std::vector<double>& probs,
                                            std::uint64_t seed);

}  // namespace lazytrain
