// What a decoder layer saves for its backward, and how many floating-point operations its parts take.
#include <string>

#include "core/error.h"
#include "model/architecture.h"

namespace lazytrain {

const char* to_string(StashLevel level) {
  switch (level) {
    case StashLevel::none:
      return "none";
    case StashLevel::attention:
      return "attention";
    case StashLevel::mlp:
      return "mlp";
    case StashLevel::all:
      return "all";
  }
  return "?";
}

StashLevel stash_level_from(const std::string& name) {
  for (const StashLevel level : kStashLevels) {
    if (name == to_string(level)) return level;
  }
  fail(ExitCode::usage, "'{}' is not a stash level; choose none, attention, mlp or all", name);
}

std::vector<StashItemShape> stash_items(const Architecture& architecture) {
  const Architecture& a = architecture;
  return {
      // Queries and keys after the rotary embedding, then the values.
      {.item = StashItem::qkv, .name = "qkv", .elements_per_token = a.qkv_width(), .fp32 = false},
      // The attention's output, before the output projection.
      {.item = StashItem::core, .name = "core", .elements_per_token = a.query_width(), .fp32 = false},
      // Log-sum-exp of every head's scores.
      {.item = StashItem::lse, .name = "lse", .elements_per_token = a.heads, .fp32 = true},
      // The residual stream between attention and MLP.
      {.item = StashItem::mid, .name = "mid", .elements_per_token = a.hidden, .fp32 = false},
      // Gate and up projections before the activation.
      {.item = StashItem::gate_up, .name = "gate_up", .elements_per_token = 2 * a.ffn, .fp32 = false},
  };
}

bool stash_contains(StashLevel level, StashItem item) {
  switch (level) {
    case StashLevel::none:
      return false;
    case StashLevel::attention:
      return item != StashItem::gate_up;
    case StashLevel::mlp:
      return item == StashItem::mid || item == StashItem::gate_up;
    case StashLevel::all:
      return true;
  }
  return false;
}

Bytes stash_bytes(const Architecture& architecture, StashLevel level, std::int64_t tokens,
                  std::int64_t type_bytes) {
  Bytes sum;
  for (const StashItemShape& shape : stash_items(architecture)) {
    if (!stash_contains(level, shape.item)) continue;
    sum +=
        align_up(Bytes{tokens} * shape.elements_per_token * (shape.fp32 ? 4 : type_bytes), kBufferAlignment);
  }
  return sum;
}

LayerFlops layer_flops(const Architecture& architecture, double mean_context) {
  const auto hidden = static_cast<double>(architecture.hidden);
  const auto ffn = static_cast<double>(architecture.ffn);
  const auto query = static_cast<double>(architecture.query_width());
  const auto qkv = static_cast<double>(architecture.qkv_width());
  LayerFlops flops{};
  // Projections in and out, then scores (query . key) and their weighted sum of values.
  flops.attention_block = 2 * hidden * (qkv + query) + 4 * query * mean_context;
  flops.mlp_up = 4 * hidden * ffn;
  flops.down_projection = 2 * hidden * ffn;
  flops.forward = flops.attention_block + flops.mlp_up + flops.down_projection;
  return flops;
}

double head_flops(const Architecture& architecture) {
  return 2 * static_cast<double>(architecture.hidden) * static_cast<double>(architecture.vocab);
}

}  // namespace lazytrain
