// A CostTable as text.
#include <fmt/core.h>

#include "runtime/profiler.h"

namespace lazytrain {

std::string costs_table(const CostTable& costs, const Architecture& architecture) {
  const auto tokens = static_cast<double>(costs.slot_tokens);
  std::string text = fmt::format("costs ({}){}{}, slots of {} tokens\n", costs.source,
                                 costs.machine.empty() ? "" : ": ", costs.machine, costs.slot_tokens);
  const auto row = [&](const char* what, const std::string& value, const std::string& more = {}) {
    text += fmt::format("  {:<44} {:>12}{}{}\n", what, value, more.empty() ? "" : "   ", more);
  };
  const auto milliseconds = [](Seconds seconds) { return fmt::format("{:.3f} ms", 1e3 * seconds); };
  const auto rate = [](double floating_point_operations, Seconds seconds) {
    return seconds > 0 ? fmt::format("{:.0f} GFLOP/s", floating_point_operations / seconds / 1e9)
                       : std::string();
  };
  for (const LayerKind kind : kLayerKinds) {
    const LayerCosts& layer = costs.of(kind);
    if (architecture.layers_of(kind) == 0 || layer.forward <= 0) continue;
    const LayerFlops flops = layer_flops(architecture, kind, mean_context(architecture, kind, tokens));
    const std::string what =
        kind == LayerKind::attention ? "layer" : fmt::format("layer of {}", to_string(kind));
    row((what + " forward, a slot").c_str(), milliseconds(layer.forward),
        rate(tokens * flops.forward, layer.forward));
    row((what + " backward").c_str(), milliseconds(layer.backward),
        rate(2 * tokens * flops.forward, layer.backward));
    for (const StashLevel level : kStashLevels)
      if (level != StashLevel::all)
        row(fmt::format("{} re-forward, stash {}", what, to_string(level)).c_str(),
            milliseconds(layer.recompute[static_cast<std::size_t>(level)]));
    row("down projection, which a re-forward may skip", milliseconds(layer.down_projection));
  }
  row("head with loss and backward, a slot", milliseconds(costs.head),
      rate(3 * tokens * head_flops(architecture), costs.head));
  row("head with loss", milliseconds(costs.head_forward),
      rate(tokens * head_flops(architecture), costs.head_forward));
  row("embedding rows out, a slot", milliseconds(costs.gather_embedding));
  row("embedding gradient in, a slot", milliseconds(costs.scatter_embedding));
  row("embedding gradient rounded and summed, a step", milliseconds(costs.finish_embedding));
  const auto optimizer = [&](const char* what, Seconds per_parameter) {
    row(what, fmt::format("{:.0f} M/s", 1e-6 / per_parameter), "parameters");
  };
  optimizer("optimizer, fp32 moments", costs.update_per_parameter);
  optimizer("optimizer, 8-bit moments", costs.update_eight_bit_per_parameter);
  // Unified machines have none of their own.
  if (costs.update_on_device_per_parameter != costs.update_per_parameter) {
    optimizer("optimizer on the device, fp32 moments", costs.update_on_device_per_parameter);
    optimizer("optimizer on the device, 8-bit moments", costs.update_on_device_eight_bit_per_parameter);
  }
  row("gradient rounded and summed", fmt::format("{:.0f} M/s", 1e-6 / costs.offload_gradient_per_element),
      "elements");
  row("plain copy to the device", fmt::format("{:.2f} GB/s", costs.copy_h2d));
  row("plain copy to the host", fmt::format("{:.2f} GB/s", costs.copy_d2h));
  row("an op", fmt::format("{:.1f} us", 1e6 * costs.op_overhead));
  row("waking a stream that stood still", fmt::format("{:.1f} us", 1e6 * costs.handover));
  return text;
}

}  // namespace lazytrain
