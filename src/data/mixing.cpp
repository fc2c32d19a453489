#include "data/mixing.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

// Keeps the draws apart from those that shuffle epochs with the same seed.
constexpr std::uint64_t kStream = 0x6D6978;

// Which dataset the next sample is from.
class Chooser {
 public:
  Chooser(const std::vector<double>& probs, std::size_t datasets, std::uint64_t seed)
      : datasets_(datasets), random_(seed, kStream) {
    double sum = 0;
    for (const double share : probs) limits_.push_back(sum += share);
    for (double& limit : limits_) limit /= sum;
  }
  std::size_t next() {
    if (limits_.empty()) return turn_++ % datasets_;
    const auto above = std::upper_bound(limits_.begin(), limits_.end() - 1, random_.uniform());
    return static_cast<std::size_t>(above - limits_.begin());
  }

 private:
  std::size_t datasets_;
  Random random_;
  std::vector<double> limits_;  // sums of the shares up to each dataset
  std::size_t turn_ = 0;
};

}  // namespace

MixStrategy parse_mix_strategy(const std::string& text) {
  if (text == "concat") return MixStrategy::concat;
  if (text == "interleave_under") return MixStrategy::interleave_under;
  if (text == "interleave_over") return MixStrategy::interleave_over;
  fail(ExitCode::usage, "mix_strategy is {}: use concat, interleave_under or interleave_over",
       in_quotes(text));
}

std::vector<double> parse_interleave_probs(const std::vector<std::string>& texts, MixStrategy strategy,
                                           std::size_t datasets) {
  if (texts.empty()) return {};
  if (strategy == MixStrategy::concat) {
    fail(ExitCode::usage,
         "interleave_probs is for mix_strategy: interleave_under or interleave_over; set one of them, or "
         "remove interleave_probs");
  }
  if (texts.size() != datasets) {
    fail(ExitCode::usage, "interleave_probs has {} numbers for {} datasets; give one for each", texts.size(),
         datasets);
  }
  std::vector<double> probs;
  for (const std::string& text : texts) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(number) || number <= 0)
      fail(ExitCode::usage, "interleave_probs: {} is no number above 0", in_quotes(text));
    probs.push_back(number);
  }
  return probs;
}

std::vector<std::int64_t> mix(const std::vector<std::vector<std::int64_t>>& parts, MixStrategy strategy,
                              const std::vector<double>& probs, std::uint64_t seed) {
  std::vector<std::int64_t> mixed;
  if (strategy == MixStrategy::concat || parts.size() < 2) {
    for (const auto& part : parts) mixed.insert(mixed.end(), part.begin(), part.end());
    return mixed;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty())
      fail(ExitCode::data, "dataset {} of {} has no samples to train on, so it cannot be interleaved", i + 1,
           parts.size());
  }
  const auto too_many = [] {
    fail(ExitCode::usage,
         "interleaving gives more than {} samples an epoch; use more equal interleave_probs, or "
         "mix_strategy: interleave_under",
         kMostMixed);
  };
  // What is to be expected, before it is tried.
  const double sum = std::accumulate(probs.begin(), probs.end(), 0.0);
  for (std::size_t i = 0; i < probs.size() && strategy == MixStrategy::interleave_over; ++i) {
    if (static_cast<double>(parts[i].size()) * sum / probs[i] > kMostMixed) too_many();
  }
  Chooser chooser(probs, parts.size(), seed);
  std::vector<std::size_t> next(parts.size(), 0);
  std::vector<bool> used_up(parts.size(), false);
  const auto enough = [&] {
    const auto done = std::count(used_up.begin(), used_up.end(), true);
    return strategy == MixStrategy::interleave_under ? done > 0
                                                     : done == static_cast<std::int64_t>(parts.size());
  };
  // Taking turns ends after whole rounds: every dataset has given as many.
  while (!enough() || (probs.empty() && mixed.size() % parts.size() != 0)) {
    if (static_cast<std::int64_t>(mixed.size()) == kMostMixed) too_many();
    const std::size_t from = chooser.next();
    mixed.push_back(parts[from][next[from]]);
    if (++next[from] < parts[from].size()) continue;
    used_up[from] = true;
    next[from] = 0;
  }
  return mixed;
}

}  // namespace lazytrain
