// Counter-based random numbers: the n-th value of a stream is a pure function of (seed, stream, n), so
// nothing has to be saved to resume, and no result depends on threads or chunking.
// The mixer is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
#pragma once

#include <cmath>
#include <cstdint>

namespace lazytrain {

constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0)
      : key_(mix64(mix64(seed) ^ mix64(~stream))) {}

  // The n-th 64-bit value of the stream.
  [[nodiscard]] constexpr std::uint64_t at(std::uint64_t n) const {
    return mix64(key_ + n * 0xD1342543DE82EF95u);
  }
  constexpr std::uint64_t next() { return at(counter_++); }
  // Uniform in [0, bound), without modulo bias (Lemire's multiply; the rejection keeps it exact).
  constexpr std::uint64_t below(std::uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    for (;;) {
      const std::uint64_t x = next();
      const auto product = static_cast<Wide>(x) * bound;
      if (static_cast<std::uint64_t>(product) >= (0 - bound) % bound)
        return static_cast<std::uint64_t>(product >> 64);
    }
  }
  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Standard normal (Box-Muller, one of the pair).
  double normal() {
    const double u = 1.0 - uniform();
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
};

}  // namespace lazytrain
