#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lazytrain {

namespace {

// theta^(2 i / head_dim), rounded to fp32 step by step, as transformers computes it: the exponent, the power.
std::vector<float> powers_of(double theta, std::int64_t head_dim) {
  std::vector<float> powers(static_cast<std::size_t>(head_dim / 2));
  const auto base = static_cast<double>(static_cast<float>(theta));
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    powers[i] = static_cast<float>(std::pow(base, static_cast<double>(exponent)));
  }
  return powers;
}

void scale_as_llama3(const RopeConfig& rope, std::vector<float>& frequencies) {
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
}

std::vector<float> yarn_frequencies(const RopeConfig& rope, std::int64_t head_dim,
                                    const std::vector<float>& powers) {
  const auto channel = [&](double turns) {
    const double original = rope.original_max_position / (turns * 2 * std::numbers::pi);
    return static_cast<double>(head_dim) * std::log(original) / (2 * std::log(rope.theta));
  };
  double low = channel(rope.beta_fast), high = channel(rope.beta_slow);
  if (rope.whole_bounds) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  std::vector<float> frequencies(powers.size());
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const float along = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0F - std::clamp(along, 0.0F, 1.0F);
    const float scaled = 1.0F / (static_cast<float>(rope.factor) * powers[i]), plain = 1.0F / powers[i];
    frequencies[i] = scaled * (1.0F - kept) + plain * kept;
  }
  return frequencies;
}

// dynamic: what theta becomes for sequences longer than the original positions.
double stretched_theta(const RopeConfig& rope, std::int64_t head_dim, std::int64_t tokens) {
  const auto length = static_cast<double>(tokens);
  if (length <= rope.original_max_position) return rope.theta;
  check(head_dim > 2, "dynamic rotary scaling of heads wider than 2");
  const auto dim = static_cast<double>(head_dim);
  const double stretch = rope.factor * length / rope.original_max_position - (rope.factor - 1);
  return rope.theta * std::pow(stretch, dim / (dim - 2));
}

}  // namespace

std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim, std::int64_t length) {
  check(head_dim > 0 && head_dim % 2 == 0, "rotary embedding of an even head dimension");
  const bool dynamic = rope.kind == RopeKind::dynamic;
  const double theta = dynamic ? stretched_theta(rope, head_dim, length) : rope.theta;
  const std::vector<float> powers = powers_of(theta, head_dim);
  if (rope.kind == RopeKind::yarn) return yarn_frequencies(rope, head_dim, powers);
  std::vector<float> frequencies(powers.size());
  for (std::size_t i = 0; i < powers.size(); ++i) frequencies[i] = 1.0F / powers[i];
  if (rope.kind == RopeKind::llama3) scale_as_llama3(rope, frequencies);
  if (rope.kind == RopeKind::linear)
    for (float& frequency : frequencies) frequency /= static_cast<float>(rope.factor);
  return frequencies;
}

void fill_rope_tables(const RopeConfig& rope, std::int64_t head_dim, std::int64_t positions,
                      std::span<float> cosine, std::span<float> sine) {
  std::vector<float> frequencies = inverse_frequencies(rope, head_dim);
  const std::size_t half = frequencies.size();
  const auto size = static_cast<std::size_t>(positions) * half;
  check(positions >= 0 && cosine.size() == size && sine.size() == size,
        "rope tables of [positions, head_dim / 2]");
  const auto factor = static_cast<float>(rope.attention_factor);
  for (std::int64_t position = 0; position < positions; ++position) {
    if (rope.kind == RopeKind::dynamic && static_cast<double>(position) >= rope.original_max_position)
      frequencies = inverse_frequencies(rope, head_dim, position + 1);
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      const std::size_t at = static_cast<std::size_t>(position) * half + i;
      // Through double: correctly rounded on every C library, so the tables are the same everywhere.
      cosine[at] = factor * static_cast<float>(std::cos(static_cast<double>(angle)));
      sine[at] = factor * static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }
}

}  // namespace lazytrain
