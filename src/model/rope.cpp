#include "model/rope.h"

#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lazytrain {

std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim) {
  check(head_dim > 0 && head_dim % 2 == 0, "rotary embedding of an even head dimension");
  std::vector<float> frequencies(static_cast<std::size_t>(head_dim / 2));
  const auto theta = static_cast<float>(rope.theta);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    // Rounded to fp32 step by step, as transformers computes it: the exponent, the power, the reciprocal.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const auto power =
        static_cast<float>(std::pow(static_cast<double>(theta), static_cast<double>(exponent)));
    frequencies[i] = 1.0F / power;
  }
  if (rope.kind == RopeKind::standard) return frequencies;

  const double longest = rope.original_max_position / rope.low_frequency_factor;
  const double shortest = rope.original_max_position / rope.high_frequency_factor;
  for (float& frequency : frequencies) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    const float scaled = frequency / static_cast<float>(rope.factor);
    if (wavelength > longest) {
      frequency = scaled;
    } else if (wavelength >= shortest) {
      const auto blend =
          static_cast<float>((rope.original_max_position / wavelength - rope.low_frequency_factor) /
                             (rope.high_frequency_factor - rope.low_frequency_factor));
      frequency = (1.0F - blend) * scaled + blend * frequency;
    }
  }
  return frequencies;
}

void fill_rope_tables(const RopeConfig& rope, std::int64_t head_dim, std::int64_t positions,
                      std::span<float> cosine, std::span<float> sine) {
  const std::vector<float> frequencies = inverse_frequencies(rope, head_dim);
  const std::size_t half = frequencies.size();
  const auto size = static_cast<std::size_t>(positions) * half;
  check(positions >= 0 && cosine.size() == size && sine.size() == size,
        "rope tables of [positions, head_dim / 2]");
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      const std::size_t at = static_cast<std::size_t>(position) * half + i;
      // Through double: correctly rounded on every C library, so the tables are the same everywhere.
      cosine[at] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sine[at] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace lazytrain
