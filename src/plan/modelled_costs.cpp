// Costs of a machine that is known by its file alone: nothing of it is measured. An operation takes its
// matrix products at the sustained rate, attention at half of it, linear attention at an eighth, and
// elementwise work at the rate of the device's memory.
#include <algorithm>

#include "core/error.h"
#include "plan/cost_table.h"

namespace lazytrain {
namespace {

// Of host memory, where a machine with tiers does not say: gathering rows is never what a step waits for.
constexpr double kHostMemory = 100e9;

LayerCosts layer_costs(const Architecture& a, LayerKind kind, double tokens, const Machine& machine) {
  const double rate = machine.tflops * 1e12;
  const auto hidden = static_cast<double>(a.hidden);
  const auto ffn = static_cast<double>(a.mlp_width(kind));
  const auto projected = static_cast<double>(a.projected_width(kind));
  const auto core_width = static_cast<double>(a.core_width(kind));
  const auto router = has_experts(kind) ? static_cast<double>(a.experts.count) : 0.0;
  // Seconds of the products: into and out of attention, up and down in the MLP.
  const Seconds in = 2 * hidden * projected * tokens / rate, out = 2 * core_width * hidden * tokens / rate;
  const Seconds up = (4 * hidden * ffn + 2 * hidden * router) * tokens / rate;
  const Seconds down = 2 * ffn * hidden * tokens / rate;
  const Seconds core =
      (has_linear_attention(kind) ? 8 * 6 * static_cast<double>(a.linear.key_dim) * core_width
                                  : 2 * 4 * core_width * mean_context(a, kind, tokens)) *
      tokens / rate;
  // Norms, residuals and activations: bf16 elements read and written.
  const double head_norm = a.query_key_norm && !has_linear_attention(kind)
                               ? 2 * static_cast<double>(a.query_width() + 2 * a.kv_width())
                               : 0;
  const Seconds elementwise =
      (12 * hidden + 6 * ffn + head_norm) * 2 * tokens / (machine.device_memory * 1e9);
  const Seconds products = in + out + up + down;
  LayerCosts costs;
  costs.forward = products + core + elementwise;
  costs.down_projection = down;
  costs.backward = 2 * products + 2.5 * core + 1.5 * elementwise;
  const auto recompute = [&](StashLevel level) -> Seconds& {
    return costs.recompute[static_cast<std::size_t>(level)];
  };
  recompute(StashLevel::none) = costs.forward - down;
  recompute(StashLevel::attention) = up + 0.6 * elementwise;
  recompute(StashLevel::mlp) = in + core + 0.5 * elementwise;
  recompute(StashLevel::all) = 0.7 * elementwise;
  return costs;
}

}  // namespace

CostTable modelled_costs(const Architecture& architecture, std::int64_t slot_tokens, const Machine& machine) {
  check(machine.tflops > 0 && machine.device_memory > 0, "the rates of a modelled machine are known");
  const auto tokens = static_cast<double>(slot_tokens);
  const bool unified = machine.tiers == TierModel::unified;
  CostTable costs;
  costs.machine = machine.name;
  costs.slot_tokens = slot_tokens;
  for (const LayerKind kind : kLayerKinds)
    if (architecture.layers_of(kind) > 0) costs.of(kind) = layer_costs(architecture, kind, tokens, machine);
  costs.head_forward = tokens * head_flops(architecture) / (machine.tflops * 1e12);
  costs.head = 3 * costs.head_forward;
  const double memory = machine.host_memory > 0 ? machine.host_memory * 1e9
                        : unified               ? machine.device_memory * 1e9
                                                : kHostMemory;
  const auto row = static_cast<double>(architecture.hidden);
  costs.gather_embedding = tokens * row * 4 / memory;
  costs.scatter_embedding = tokens * row * 10 / memory;
  costs.finish_embedding = static_cast<double>(architecture.vocab) * row * 2 / memory;
  costs.zero_embedding = costs.finish_embedding;
  costs.update_per_parameter = machine.optimizer_rate > 0 ? 1 / machine.optimizer_rate : 26.0 / memory;
  costs.update_eight_bit_per_parameter =
      machine.optimizer_rate > 0 ? 1 / machine.optimizer_rate : 14.1 / memory;
  // On the device, at the rate of its memory: resident layers are updated there, and a gradient is rounded
  // and summed faster than a link takes it away.
  const double device = machine.device_memory * 1e9;
  costs.update_on_device_per_parameter = 26.0 / device;
  costs.update_on_device_eight_bit_per_parameter = 14.1 / device;
  costs.offload_gradient_per_element = 6.0 / device;
  return costs;
}

WorkspaceBytes modelled_layer_workspace(const Architecture& architecture, std::int64_t rows,
                                        std::int64_t type_bytes) {
  const std::int64_t hidden = architecture.hidden;
  const auto bytes = [&](std::int64_t width) { return Bytes{rows} * width * type_bytes; };
  WorkspaceBytes most;
  for (const LayerKind kind : kLayerKinds) {
    if (architecture.layers_of(kind) == 0) continue;
    const std::int64_t ffn = architecture.mlp_width(kind);
    // Beside a few residual streams, the inside of attention or that of the MLP, whichever is wider.
    const std::int64_t inside =
        std::max(architecture.projected_width(kind) + architecture.core_width(kind), 3 * ffn);
    most.forward = std::max(most.forward, bytes(4 * hidden + inside));
    most.backward = std::max(most.backward, bytes(7 * hidden + 4 * ffn));
  }
  most.recompute = most.forward;
  return most;
}

}  // namespace lazytrain
