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
  const LayerFlops flops = layer_flops(architecture, tokens / 2);
  CostTable costs;
  costs.slot_tokens = slot_tokens;
  costs.layer.forward = tokens * flops.forward / rate;
  costs.layer.down_projection = tokens * flops.down_projection / rate;
  for (const StashLevel level : kStashLevels) {
    double rest = flops.forward - flops.down_projection;
    if (stash_contains(level, StashItem::qkv)) rest -= flops.attention_block;
    if (stash_contains(level, StashItem::gate_up)) rest -= flops.mlp_up;
    costs.layer.recompute[static_cast<std::size_t>(level)] =
        tokens * (level == StashLevel::all ? 0.0 : rest) / rate;
  }
  costs.layer.backward = 2 * costs.layer.forward;
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
  for (Seconds* cost : {&costs.layer.forward, &costs.layer.down_projection, &costs.layer.backward,
                        &costs.head, &costs.head_forward})
    *cost *= factor;
  for (Seconds& cost : costs.layer.recompute) cost *= factor;
}

nlohmann::json to_json(const CostTable& costs) {
  return {{"source", costs.source},
          {"machine", costs.machine},
          {"slot_tokens", costs.slot_tokens},
          {"forward_s", costs.layer.forward},
          {"recompute_s", costs.layer.recompute},
          {"down_projection_s", costs.layer.down_projection},
          {"backward_s", costs.layer.backward},
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
}

CostTable cost_table_from_json(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where, ExitCode::usage);
  constexpr double kLongest = 1e6;
  CostTable costs;
  costs.source = fields.text("source");
  costs.machine = fields.text("machine");
  costs.slot_tokens = fields.integer("slot_tokens", 1, 1 << 24);
  costs.layer.forward = fields.number("forward_s", 0, kLongest);
  const nlohmann::json& recompute = fields.array("recompute_s");
  if (recompute.size() != kStashLevelCount)
    fail(ExitCode::usage, "{}: 'recompute_s' must have {} entries", where, kStashLevelCount);
  for (std::size_t i = 0; i < kStashLevelCount; ++i) {
    const double value = recompute[i].is_number() ? recompute[i].get<double>() : -1;
    if (!(value >= 0 && value <= kLongest))
      fail(ExitCode::usage, "{}: 'recompute_s' must hold seconds between 0 and {}", where, kLongest);
    costs.layer.recompute[i] = value;
  }
  costs.layer.down_projection = fields.number("down_projection_s", 0, kLongest);
  costs.layer.backward = fields.number("backward_s", 0, kLongest);
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
