#include "model/rope_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kLargestTheta = 1e12;
constexpr double kLargestFactor = 1e6;

// partial_rotary_factor says which share of a head is rotated; the Llama family rotates all of it.
void refuse_partial_rotation(const ConfigReader& config) {
  const auto share = config.number("partial_rotary_factor", 0.0, 1.0);
  if (share && *share != 1.0) {
    fail(ExitCode::model_file, "{}: {} is {}; only models that rotate whole heads (1.0) can be trained",
         config.where(), config.name("partial_rotary_factor"), *share);
  }
}

// One of the two objects; `theta` is what rope_theta beside it says.
RopeConfig read_object(const ConfigReader& config, const std::string& key, std::optional<double> theta) {
  const nlohmann::json& object = *config.find(key);
  const ConfigReader inner(object, config.where(), key + ".");
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      fail(ExitCode::model_file, "{}: {}.{} is an object; rotary settings per layer type cannot be trained",
           config.where(), key, name);
    }
  }
  RopeConfig rope;
  const auto inner_theta = inner.number("rope_theta", 1.0, kLargestTheta);
  if (theta && inner_theta && *theta != *inner_theta) {
    fail(ExitCode::model_file, "{}: rope_theta is {} but {}.rope_theta is {}; keep the right one of the two",
         config.where(), *theta, key, *inner_theta);
  }
  rope.theta = inner_theta.value_or(theta.value_or(rope.theta));
  refuse_partial_rotation(inner);

  const auto new_name = inner.text("rope_type");
  const auto old_name = inner.text("type");
  if (new_name && old_name && *new_name != *old_name) {
    fail(ExitCode::model_file, "{}: {}.rope_type is '{}' but {}.type is '{}'; keep the right one of the two",
         config.where(), key, *new_name, key, *old_name);
  }
  const std::string type = new_name.value_or(old_name.value_or("default"));
  if (type == "default") return rope;
  if (type != "llama3") {
    fail(ExitCode::model_file, "{}: {} has the type {}; only 'default' and 'llama3' can be trained",
         config.where(), key, shown(nlohmann::json(type)));
  }
  rope.kind = RopeKind::llama3;
  rope.factor = inner.required_number("factor", 1.0, kLargestFactor);
  rope.low_frequency_factor = inner.required_number("low_freq_factor", 1e-6, kLargestFactor);
  rope.high_frequency_factor = inner.required_number("high_freq_factor", 1e-6, kLargestFactor);
  rope.original_max_position = inner.required_number("original_max_position_embeddings", 1.0, 1e12);
  if (!(rope.high_frequency_factor > rope.low_frequency_factor)) {
    fail(ExitCode::model_file, "{}: {}.high_freq_factor is {}; it must be above low_freq_factor, which is {}",
         config.where(), key, rope.high_frequency_factor, rope.low_frequency_factor);
  }
  return rope;
}

bool same(const RopeConfig& a, const RopeConfig& b) {
  return a.kind == b.kind && a.theta == b.theta && a.factor == b.factor &&
         a.low_frequency_factor == b.low_frequency_factor &&
         a.high_frequency_factor == b.high_frequency_factor &&
         a.original_max_position == b.original_max_position;
}

}  // namespace

RopeConfig read_rope(const ConfigReader& config) {
  const auto theta = config.number("rope_theta", 1.0, kLargestTheta);
  refuse_partial_rotation(config);
  std::optional<RopeConfig> before, now;
  if (config.find("rope_scaling") != nullptr) before = read_object(config, "rope_scaling", theta);
  if (config.find("rope_parameters") != nullptr) now = read_object(config, "rope_parameters", theta);
  if (before && now && !same(*before, *now)) {
    fail(ExitCode::model_file, "{}: rope_scaling and rope_parameters disagree; keep the right one of the two",
         config.where());
  }
  if (now) return *now;
  if (before) return *before;
  RopeConfig plain;
  plain.theta = theta.value_or(plain.theta);
  return plain;
}

}  // namespace lazytrain
