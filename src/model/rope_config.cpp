#include "model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kLargestTheta = 1e12;
constexpr double kLargestFactor = 1e6;
constexpr double kLargestPosition = 1e12;

// partial_rotary_factor says which share of a head is rotated; the Llama family rotates all of it.
void refuse_partial_rotation(const ConfigReader& config) {
  const auto share = config.number("partial_rotary_factor", 0.0, 1.0);
  if (share && *share != 1.0) {
    fail(ExitCode::model_file, "{}: {} is {}; only models that rotate whole heads (1.0) can be trained",
         config.where(), config.name("partial_rotary_factor"), *share);
  }
}

RopeConfig read_llama3(const ConfigReader& inner, RopeConfig rope) {
  rope.kind = RopeKind::llama3;
  rope.factor = inner.required_number("factor", 1.0, kLargestFactor);
  rope.low_frequency_factor = inner.required_number("low_freq_factor", 1e-6, kLargestFactor);
  rope.high_frequency_factor = inner.required_number("high_freq_factor", 1e-6, kLargestFactor);
  rope.original_max_position =
      inner.required_number("original_max_position_embeddings", 1.0, kLargestPosition);
  if (!(rope.high_frequency_factor > rope.low_frequency_factor)) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be above low_freq_factor, which is {}", inner.where(),
         inner.name("high_freq_factor"), rope.high_frequency_factor, rope.low_frequency_factor);
  }
  return rope;
}

RopeConfig read_yarn(const ConfigReader& inner, RopeConfig rope, double max_position, double original) {
  rope.kind = RopeKind::yarn;
  rope.original_max_position =
      inner.number("original_max_position_embeddings", 1.0, kLargestPosition).value_or(original);
  if (!(rope.theta > 1)) {
    fail(ExitCode::model_file, "{}: rope_theta is {}; with the type 'yarn' it must be above 1", inner.where(),
         rope.theta);
  }
  // Without a factor, what the positions were stretched by.
  const auto factor = inner.number("factor", 1.0, kLargestFactor);
  rope.factor = factor ? *factor : std::max(1.0, max_position / rope.original_max_position);
  const auto turns = [&](const std::string& key, double usual) {
    const double given = inner.number(key, 0.0, kLargestFactor).value_or(0);
    return given > 0 ? given : usual;
  };
  rope.beta_fast = turns("beta_fast", rope.beta_fast);
  rope.beta_slow = turns("beta_slow", rope.beta_slow);
  if (!(rope.beta_fast > rope.beta_slow)) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be above beta_slow, which is {}", inner.where(),
         inner.name("beta_fast"), rope.beta_fast, rope.beta_slow);
  }
  rope.whole_bounds = inner.flag("truncate", true);
  // 0.1 m ln(factor) + 1, for scores that grow with the length; DeepSeek's configs name two m and divide.
  const auto grown = [&](double m) { return rope.factor <= 1 ? 1.0 : 0.1 * m * std::log(rope.factor) + 1.0; };
  const double of_embedding = inner.number("mscale", 0.0, kLargestFactor).value_or(0);
  const double of_all = inner.number("mscale_all_dim", 0.0, kLargestFactor).value_or(0);
  const double usual = of_embedding > 0 && of_all > 0 ? grown(of_embedding) / grown(of_all) : grown(1.0);
  rope.attention_factor = inner.number("attention_factor", 1e-6, kLargestFactor).value_or(usual);
  return rope;
}

// What stands beside the two objects.
struct Outside {
  std::optional<double> theta;  // rope_theta
  double max_position;
  double original;  // original_max_position_embeddings where config.json has it, else max_position
};

// Flat settings: those of all layers, or of one layer type.
RopeConfig read_settings(const ConfigReader& inner, const Outside& outside) {
  RopeConfig rope;
  const auto inner_theta = inner.number("rope_theta", 1.0, kLargestTheta);
  if (outside.theta && inner_theta && *outside.theta != *inner_theta) {
    fail(ExitCode::model_file, "{}: rope_theta is {} but {} is {}; keep the right one of the two",
         inner.where(), *outside.theta, inner.name("rope_theta"), *inner_theta);
  }
  rope.theta = inner_theta.value_or(outside.theta.value_or(rope.theta));
  refuse_partial_rotation(inner);

  const auto new_name = inner.text("rope_type");
  const auto old_name = inner.text("type");
  if (new_name && old_name && *new_name != *old_name) {
    fail(ExitCode::model_file, "{}: {} is '{}' but {} is '{}'; keep the right one of the two", inner.where(),
         inner.name("rope_type"), *new_name, inner.name("type"), *old_name);
  }
  const std::string type = new_name.value_or(old_name.value_or("default"));
  if (type == "default") return rope;
  if (type == "llama3") return read_llama3(inner, rope);
  if (type == "yarn") return read_yarn(inner, rope, outside.max_position, outside.original);
  if (type != "linear" && type != "dynamic") {
    fail(ExitCode::model_file,
         "{}: {} is {}; only 'default', 'linear', 'dynamic', 'yarn' and 'llama3' can be trained",
         inner.where(), inner.name(new_name ? "rope_type" : "type"), shown(nlohmann::json(type)));
  }
  rope.kind = type == "linear" ? RopeKind::linear : RopeKind::dynamic;
  rope.factor = inner.required_number("factor", 1.0, kLargestFactor);
  if (rope.kind == RopeKind::dynamic) rope.original_max_position = outside.max_position;
  return rope;
}

// One of the two objects. Settings may stand in one object for each layer type, if they all say the same.
RopeConfig read_object(const ConfigReader& config, const std::string& key, const Outside& outside) {
  const nlohmann::json& object = *config.find(key);
  const ConfigReader flat(object, config.where(), key + ".");
  std::optional<RopeConfig> first;
  std::string first_name;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_object()) continue;
    const RopeConfig rope = read_settings({value, config.where(), key + "." + name + "."}, outside);
    if (first && !(rope == *first)) {
      fail(ExitCode::model_file,
           "{}: {}.{} and {}.{} differ; rotary settings of their own for layer types cannot be trained",
           config.where(), key, first_name, key, name);
    }
    first = rope;
    first_name = name;
  }
  if (!first) return read_settings(flat, outside);
  for (const char* name : {"rope_type", "type", "rope_theta", "factor"}) {
    if (flat.find(name) == nullptr) continue;
    fail(ExitCode::model_file, "{}: {}.{} stands beside the settings of layer types; keep one of the two",
         config.where(), key, name);
  }
  return *first;
}

}  // namespace

RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position) {
  Outside outside{.theta = config.number("rope_theta", 1.0, kLargestTheta),
                  .max_position = static_cast<double>(max_position),
                  .original = static_cast<double>(max_position)};
  if (const auto original = config.number("original_max_position_embeddings", 1.0, kLargestPosition))
    outside.original = *original;
  refuse_partial_rotation(config);
  std::optional<RopeConfig> before, now;
  if (config.find("rope_scaling") != nullptr) before = read_object(config, "rope_scaling", outside);
  if (config.find("rope_parameters") != nullptr) now = read_object(config, "rope_parameters", outside);
  if (before && now && !(*before == *now)) {
    fail(ExitCode::model_file, "{}: rope_scaling and rope_parameters disagree; keep the right one of the two",
         config.where());
  }
  if (now) return *now;
  if (before) return *before;
  RopeConfig plain;
  plain.theta = outside.theta.value_or(plain.theta);
  return plain;
}

}  // namespace lazytrain
