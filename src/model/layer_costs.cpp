// What a decoder layer saves for its backward, and how many floating-point operations its parts take.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "model/architecture.h"

namespace lazytrain {

const char* to_string(LayerKind kind) {
  switch (kind) {
    case LayerKind::attention:
      return "attention";
    case LayerKind::sliding_attention:
      return "sliding_attention";
    case LayerKind::linear_attention:
      return "linear_attention";
    case LayerKind::attention_experts:
      return "attention_experts";
    case LayerKind::linear_attention_experts:
      return "linear_attention_experts";
  }
  return "?";
}

std::int64_t Architecture::layers_of(LayerKind kind) const {
  if (kinds.empty()) return kind == LayerKind::attention ? layers : 0;
  return std::count(kinds.begin(), kinds.end(), kind);
}

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

std::vector<StashItemShape> stash_items(const Architecture& architecture, LayerKind kind) {
  const Architecture& a = architecture;
  std::vector<StashItemShape> items{
      // Queries and keys after the rotary embedding, then the values; where queries and keys are normalised,
      // as
      // they were projected, since the norm's backward needs that and the rest is quickly made of it; of
      // linear
      // attention all that is projected in.
      {.item = StashItem::qkv, .name = "qkv", .elements_per_token = a.projected_width(kind), .fp32 = false},
      // The attention's output, before the output projection.
      {.item = StashItem::core, .name = "core", .elements_per_token = a.core_width(kind), .fp32 = false}};
  // Log-sum-exp of every head's scores.
  if (!has_linear_attention(kind))
    items.push_back({.item = StashItem::lse, .name = "lse", .elements_per_token = a.heads, .fp32 = true});
  // The residual stream between attention and MLP.
  items.push_back({.item = StashItem::mid, .name = "mid", .elements_per_token = a.hidden, .fp32 = false});
  // Gate and up projections before the activation.
  items.push_back({.item = StashItem::gate_up,
                   .name = "gate_up",
                   .elements_per_token = 2 * a.mlp_width(kind),
                   .fp32 = false});
  return items;
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

Bytes stash_bytes(const Architecture& architecture, LayerKind kind, StashLevel level, std::int64_t tokens,
                  std::int64_t type_bytes) {
  Bytes sum;
  for (const StashItemShape& shape : stash_items(architecture, kind)) {
    if (!stash_contains(level, shape.item)) continue;
    sum +=
        align_up(Bytes{tokens} * shape.elements_per_token * (shape.fp32 ? 4 : type_bytes), kBufferAlignment);
  }
  return sum;
}

LayerFlops layer_flops(const Architecture& architecture, LayerKind kind, double mean_context) {
  const auto hidden = static_cast<double>(architecture.hidden);
  const auto ffn = static_cast<double>(architecture.mlp_width(kind));
  const auto core = static_cast<double>(architecture.core_width(kind));
  const auto projected = static_cast<double>(architecture.projected_width(kind));
  LayerFlops flops{};
  // Projections in and out, then scores (query . key) and their weighted sum of values, or per element of the
  // recurrent state three multiply-adds: what it predicts, its update and its output.
  flops.attention_block =
      2 * hidden * (projected + core) + (has_linear_attention(kind)
                                             ? 6 * static_cast<double>(architecture.linear.key_dim) * core
                                             : 4 * core * mean_context);
  flops.mlp_up = 4 * hidden * ffn;
  if (has_experts(kind)) flops.mlp_up += 2 * hidden * static_cast<double>(architecture.experts.count);
  flops.down_projection = 2 * hidden * ffn;
  flops.forward = flops.attention_block + flops.mlp_up + flops.down_projection;
  return flops;
}

double mean_context(const Architecture& architecture, LayerKind kind, double slot_tokens) {
  const auto window = static_cast<double>(architecture.window_of(kind));
  if (window <= 0 || window >= slot_tokens) return slot_tokens / 2;
  return window - window * window / (2 * slot_tokens);
}

double head_flops(const Architecture& architecture) {
  return 2 * static_cast<double>(architecture.hidden) * static_cast<double>(architecture.vocab);
}

}  // namespace lazytrain
