#include "plan/cost_table.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "plan/json_fields.h"

namespace lazytrain {

CostTable modelled_costs(const Architecture& architecture, std::int64_t slot_tokens, double gflops,
                         double memory_gbps) {
  const auto tokens = static_cast<double>(slot_tokens);
  const double rate = gflops * 1e9;
  const double memory = memory_gbps * 1e9;
  CostTable costs;
  costs.slot_tokens = slot_tokens;
  for (const LayerKind kind : kLayerKinds) {
    if (architecture.layers_of(kind) == 0) continue;
    const LayerFlops flops = layer_flops(architecture, kind, mean_context(architecture, kind, tokens));
    LayerCosts& layer = costs.of(kind);
    layer.forward = tokens * flops.forward / rate;
    layer.down_projection = tokens * flops.down_projection / rate;
    for (const StashLevel level : kStashLevels) {
      double rest = flops.forward - flops.down_projection;
      if (stash_contains(level, StashItem::qkv)) rest -= flops.attention_block;
      if (stash_contains(level, StashItem::gate_up)) rest -= flops.mlp_up;
      layer.recompute[static_cast<std::size_t>(level)] =
          tokens * (level == StashLevel::all ? 0.0 : rest) / rate;
    }
    layer.backward = 2 * layer.forward;
  }
  costs.head_forward = tokens * head_flops(architecture) / rate;
  costs.head = 3 * costs.head_forward;
  const double row = static_cast<double>(architecture.hidden);
  costs.gather_embedding = tokens * row * 4 / memory;
  costs.scatter_embedding = tokens * row * 10 / memory;
  costs.finish_embedding = static_cast<double>(architecture.vocab) * row * 2 / memory;
  costs.zero_embedding = costs.finish_embedding;
  costs.update_per_parameter = 26.0 / memory;  // bytes read and written, bf16 weights
  costs.update_eight_bit_per_parameter = 14.1 / memory;
  costs.update_on_device_per_parameter = costs.update_per_parameter;
  costs.update_on_device_eight_bit_per_parameter = costs.update_eight_bit_per_parameter;
  costs.offload_gradient_per_element = 6.0 / memory;
  costs.copy_h2d = costs.copy_d2h = memory_gbps / 2;
  return costs;
}

void scale_compute(CostTable& costs, double factor) {
  for (LayerCosts& layer : costs.layers) {
    for (Seconds* cost : {&layer.forward, &layer.down_projection, &layer.backward}) *cost *= factor;
    for (Seconds& cost : layer.recompute) cost *= factor;
  }
  costs.head *= factor;
  costs.head_forward *= factor;
}

namespace {

constexpr Seconds kLongest = 1e6;

void write_layer(nlohmann::json& json, const LayerCosts& layer) {
  json["forward_s"] = layer.forward;
  json["recompute_s"] = layer.recompute;
  json["down_projection_s"] = layer.down_projection;
  json["backward_s"] = layer.backward;
}

LayerCosts read_layer(const JsonFields& fields, const std::string& where) {
  LayerCosts layer;
  layer.forward = fields.number("forward_s", 0, kLongest);
  const nlohmann::json& recompute = fields.array("recompute_s");
  if (recompute.size() != kStashLevelCount)
    fail(ExitCode::usage, "{}: 'recompute_s' must have {} entries", where, kStashLevelCount);
  for (std::size_t i = 0; i < kStashLevelCount; ++i) {
    const double value = recompute[i].is_number() ? recompute[i].get<double>() : -1;
    if (!(value >= 0 && value <= kLongest))
      fail(ExitCode::usage, "{}: 'recompute_s' must hold seconds between 0 and {}", where, kLongest);
    layer.recompute[i] = value;
  }
  layer.down_projection = fields.number("down_projection_s", 0, kLongest);
  layer.backward = fields.number("backward_s", 0, kLongest);
  return layer;
}

}  // namespace

// Layers of kind attention stand at the top, as they did when there were no others; the others have objects
// of their own where a model has them.
nlohmann::json to_json(const CostTable& costs) {
  nlohmann::json json = {
      {"source", costs.source},
      {"machine", costs.machine},
      {"slot_tokens", costs.slot_tokens},
      {"head_s", costs.head},
      {"head_forward_s", costs.head_forward},
      {"gather_embedding_s", costs.gather_embedding},
      {"scatter_embedding_s", costs.scatter_embedding},
      {"finish_embedding_s", costs.finish_embedding},
      {"zero_embedding_s", costs.zero_embedding},
      {"update_per_parameter_s", costs.update_per_parameter},
      {"update_eight_bit_per_parameter_s", costs.update_eight_bit_per_parameter},
      {"update_on_device_per_parameter_s", costs.update_on_device_per_parameter},
      {"update_on_device_eight_bit_per_parameter_s", costs.update_on_device_eight_bit_per_parameter},
      {"offload_gradient_per_element_s", costs.offload_gradient_per_element},
      {"copy_h2d_gbps", costs.copy_h2d},
      {"copy_d2h_gbps", costs.copy_d2h},
      {"op_overhead_s", costs.op_overhead},
      {"handover_s", costs.handover}};
  for (const LayerKind kind : kLayerKinds) {
    if (kind == LayerKind::attention)
      write_layer(json, costs.of(kind));
    else if (costs.of(kind).forward > 0)
      write_layer(json[to_string(kind)], costs.of(kind));
  }
  return json;
}

CostTable cost_table_from_json(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where, ExitCode::usage);
  CostTable costs;
  costs.source = fields.text("source");
  costs.machine = fields.text("machine");
  costs.slot_tokens = fields.integer("slot_tokens", 1, 1 << 24);
  for (const LayerKind kind : kLayerKinds) {
    if (kind == LayerKind::attention)
      costs.of(kind) = read_layer(fields, where);
    else if (json.contains(to_string(kind)))
      costs.of(kind) = read_layer({json[to_string(kind)], where, ExitCode::usage}, where);
  }
  costs.head = fields.number("head_s", 0, kLongest);
  costs.head_forward = fields.number("head_forward_s", 0, kLongest);
  costs.gather_embedding = fields.number("gather_embedding_s", 0, kLongest);
  costs.scatter_embedding = fields.number("scatter_embedding_s", 0, kLongest);
  costs.finish_embedding = fields.number("finish_embedding_s", 0, kLongest);
  costs.zero_embedding = fields.number("zero_embedding_s", 0, kLongest);
  costs.update_per_parameter = fields.number("update_per_parameter_s", 0, 1);
  costs.update_eight_bit_per_parameter = fields.number("update_eight_bit_per_parameter_s", 0, 1);
  // Tables that were made before layers could be resident, and those of unified machines, lack these.
  const auto on_device = [&](const char* key, Seconds on_host) {
    return json.contains(key) ? fields.number(key, 0, 1) : on_host;
  };
  costs.update_on_device_per_parameter =
      on_device("update_on_device_per_parameter_s", costs.update_per_parameter);
  costs.update_on_device_eight_bit_per_parameter =
      on_device("update_on_device_eight_bit_per_parameter_s", costs.update_eight_bit_per_parameter);
  costs.offload_gradient_per_element = fields.number("offload_gradient_per_element_s", 0, 1);
  costs.copy_h2d = fields.number("copy_h2d_gbps", 0, 1e5);
  costs.copy_d2h = fields.number("copy_d2h_gbps", 0, 1e5);
  costs.op_overhead = fields.number("op_overhead_s", 0, 1);
  costs.handover = fields.number("handover_s", 0, kLongest);
  return costs;
}

std::string fingerprint(const CostTable& costs) {
  const std::string text = to_json(costs).dump();
  return fmt::format("{:016x}", checksum(std::as_bytes(std::span(text))));
}

}  // namespace lazytrain
