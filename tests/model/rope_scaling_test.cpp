// Every way to scale the rotary embedding against its formula in fp64, written down here once more, and the
// spellings of config.json that lead to it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "model/config_document.h"
#include "model/model_support.h"
#include "model/rope.h"

namespace lazytrain {
namespace {

using Json = nlohmann::json;

RopeConfig rope_of(const Json& scaling, double theta = 1e6, std::int64_t max_position = 32768) {
  Json config = small_config();
  config["rope_theta"] = theta;
  config["max_position_embeddings"] = max_position;
  config["rope_scaling"] = scaling;
  return architecture_of(config, "config.json").rope;
}

std::vector<double> plain(double theta, int dim) {
  std::vector<double> f;
  for (int i = 0; i < dim / 2; ++i) f.push_back(std::pow(theta, -2.0 * i / dim));
  return f;
}

// Prints and checks the largest relative distance.
void expect_near(const char* what, const std::vector<float>& actual, const std::vector<double>& exact) {
  ASSERT_EQ(actual.size(), exact.size());
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) worst = std::max(worst, std::abs(actual[i] / exact[i] - 1));
  EXPECT_LT(worst, 2e-6) << what;
  std::printf("  rope %-44s largest distance from fp64 %.1e (bar 2e-06)\n", what, worst);
}

TEST(RopeScaling, DefaultIsThePowersOfTheta) {
  for (const double theta : {10000.0, 1e6, 1e7})
    expect_near("default", inverse_frequencies(rope_of(nullptr, theta), 128), plain(theta, 128));
}

TEST(RopeScaling, LinearDividesEveryFrequency) {
  std::vector<double> exact = plain(10000, 128);
  for (double& f : exact) f /= 8;
  expect_near("linear, factor 8",
              inverse_frequencies(rope_of({{"type", "linear"}, {"factor", 8}}, 10000), 128), exact);
}

TEST(RopeScaling, DynamicStretchesThetaBeyondTheModelsPositionsOnly) {
  const RopeConfig rope = rope_of({{"rope_type", "dynamic"}, {"factor", 2.0}}, 10000, 2048);
  expect_near("dynamic, factor 2, within the positions", inverse_frequencies(rope, 64, 2048),
              plain(10000, 64));
  expect_near("dynamic, factor 2, twice the positions", inverse_frequencies(rope, 64, 4096),
              plain(10000 * std::pow(2.0 * 4096 / 2048 - 1, 64.0 / 62), 64));
  expect_near("dynamic, factor 2, 5000 positions", inverse_frequencies(rope, 64, 5000),
              plain(10000 * std::pow(2.0 * 5000 / 2048 - 1, 64.0 / 62), 64));
  // The last channel of a row: within the positions as ever, beyond them as of a sequence that ends there.
  std::vector<float> cosine(4096 * 32), sine(4096 * 32);
  fill_rope_tables(rope, 64, 4096, cosine, sine);
  const double slowest = std::pow(10000.0, -62.0 / 64);
  EXPECT_NEAR(sine[2047 * 32 + 31], std::sin(2047 * slowest), 1e-6);
  const double slower = std::pow(10000.0 * std::pow(2.0 * 3001 / 2048 - 1, 64.0 / 62), -62.0 / 64);
  EXPECT_NEAR(sine[3000 * 32 + 31], std::sin(3000 * slower), 1e-6);
  EXPECT_GT(std::abs(std::sin(3000 * slowest) - std::sin(3000 * slower)), 0.1);
}

// Wavelengths below 8192 / 4 stay, above 8192 / 1 are divided, between is a blend.
TEST(RopeScaling, Llama3BlendsByWavelength) {
  const RopeConfig rope = rope_of({{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 8192}},
                                  500000);
  std::vector<double> exact = plain(500000, 128);
  for (double& f : exact) {
    const double wavelength = 2 * std::numbers::pi / f;
    const double t = (8192 / wavelength - 1) / (4 - 1);
    f = wavelength > 8192 ? f / 8 : wavelength < 2048 ? f : (1 - t) * f / 8 + t * f;
  }
  expect_near("llama3, factor 8", inverse_frequencies(rope, 128), exact);
}

struct Yarn {
  double theta, factor, original, fast = 32, slow = 1;
  bool truncate = true;
};

std::vector<double> yarn(const Yarn& y, int dim) {
  const auto channel = [&](double turns) {
    return dim * std::log(y.original / (2 * std::numbers::pi * turns)) / (2 * std::log(y.theta));
  };
  double low = channel(y.fast), high = channel(y.slow);
  if (y.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  std::vector<double> f = plain(y.theta, dim);
  for (int i = 0; i < dim / 2; ++i) {
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    double& one = f[static_cast<std::size_t>(i)];
    one = one / y.factor * ramp + one * (1 - ramp);
  }
  return f;
}

TEST(RopeScaling, YarnBlendsByTurns) {
  const Json qwen = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  expect_near("yarn, factor 4 of 32768, theta 1e6", inverse_frequencies(rope_of(qwen), 128),
              yarn({1e6, 4, 32768}, 128));
  expect_near("yarn, factor 16, theta 1e4, heads of 64",
              inverse_frequencies(rope_of({{"type", "yarn"}, {"factor", 16}}, 10000, 4096), 64),
              yarn({10000, 16, 4096}, 64));
  Json betas = qwen;
  betas["beta_fast"] = 20;
  betas["beta_slow"] = 3;
  expect_near("yarn, beta 20 and 3", inverse_frequencies(rope_of(betas), 128),
              yarn({1e6, 4, 32768, 20, 3}, 128));
  betas["truncate"] = false;
  expect_near("yarn, beta 20 and 3, not truncated", inverse_frequencies(rope_of(betas), 128),
              yarn({1e6, 4, 32768, 20, 3, false}, 128));
}

TEST(RopeScaling, YarnScalesCosineAndSine) {
  Json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const auto attention_factor = [&] { return rope_of(scaling).attention_factor; };
  EXPECT_DOUBLE_EQ(attention_factor(), 1.1386294361119891);  // 0.1 ln 4 + 1
  std::vector<float> cosine(2 * 8), sine(2 * 8);
  fill_rope_tables(rope_of(scaling), 16, 2, cosine, sine);
  EXPECT_FLOAT_EQ(cosine[0], 1.1386294F);
  EXPECT_FLOAT_EQ(cosine[8], 1.1386294F * 0.54030231F);  // of one radian
  EXPECT_FLOAT_EQ(sine[8], 1.1386294F * 0.84147098F);
  scaling["mscale"] = 0.707;
  scaling["mscale_all_dim"] = 1.0;
  EXPECT_DOUBLE_EQ(attention_factor(), (0.0707 * std::log(4.0) + 1) / (0.1 * std::log(4.0) + 1));
  scaling["attention_factor"] = 0.75;
  EXPECT_EQ(attention_factor(), 0.75);
  scaling = {{"rope_type", "yarn"}, {"factor", 1.0}};
  EXPECT_EQ(attention_factor(), 1.0);
  scaling = {{"rope_type", "yarn"}, {"original_max_position_embeddings", 8192}};  // 32768 / 8192
  EXPECT_EQ(rope_of(scaling).factor, 4.0);
}

TEST(RopeScaling, YarnReachesItsOwnPositions) {
  Json config = small_config();  // of 2048 positions
  config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}};
  EXPECT_EQ(architecture_of(config, "c").max_position, 8192);
  config["rope_scaling"]["original_max_position_embeddings"] = 256;
  EXPECT_EQ(architecture_of(config, "c").max_position, 2048);
}

// transformers 5 writes rope_parameters, flat or by layer type; before it were rope_theta and rope_scaling,
// and before that "type" for "rope_type".
TEST(RopeScaling, EverySpellingMeansTheSame) {
  const RopeConfig expected =
      rope_of({{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}});
  EXPECT_EQ(rope_of({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}}),
            expected);
  EXPECT_EQ(rope_of({{"type", "yarn"}, {"rope_type", "yarn"}, {"factor", 4}, {"attention_factor", nullptr}}),
            expected);  // original positions: max_position_embeddings
  Json config = small_config();
  config.erase("rope_theta");
  config["max_position_embeddings"] = 32768;
  const Json flat = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 32768}};
  config["rope_parameters"] = flat;
  EXPECT_EQ(architecture_of(config, "c").rope, expected);
  config["rope_parameters"] = {{"full_attention", flat}, {"sliding_attention", flat}};
  EXPECT_EQ(architecture_of(config, "c").rope, expected);
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 500000}};
  EXPECT_EQ(architecture_of(config, "c").rope, rope_of(nullptr, 500000));
  config.erase("rope_parameters");
  config["rope_scaling"] = nullptr;
  EXPECT_EQ(architecture_of(config, "c").rope, rope_of(nullptr, 10000));  // without rope_theta
}

}  // namespace
}  // namespace lazytrain
