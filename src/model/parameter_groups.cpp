// Which tensors a Llama-family model has, and where each stands in its group's flat buffer.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "model/architecture.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kElementAlignment = 64;

std::int64_t aligned(std::int64_t elements) {
  return (elements + kElementAlignment - 1) / kElementAlignment * kElementAlignment;
}

// `part` stands in `name` as a whole dotted component, or at the end of one ("_norm").
bool ends_a_component(std::string_view name, std::string_view part, bool starts_a_component) {
  for (std::size_t at = name.find(part); at != std::string_view::npos; at = name.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    const bool ends = end == name.size() || name[end] == '.';
    const bool starts = !starts_a_component || at == 0 || name[at - 1] == '.';
    if (ends && starts) return true;
  }
  return false;
}

// The rule of Hugging Face's Trainer: every parameter decays but biases and normalisation weights, told by
// their names whatever the letters' case.
bool decays(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto holds = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return !holds("bias") && !holds("layernorm") && !holds("rmsnorm") &&
         !ends_a_component(name, "norm", true) && !ends_a_component(name, "_norm", false);
}

// Appends tensors one after the other.
class GroupBuilder {
 public:
  GroupBuilder(GroupKind kind, std::int32_t layer)
      : group_{.kind = kind, .layer = layer, .tensors = {}, .elements = 0} {}

  // The next tensor starts on a multiple of kElementAlignment.
  GroupBuilder& align() {
    group_.elements = aligned(group_.elements);
    return *this;
  }
  GroupBuilder& add(std::string name, std::vector<std::int64_t> shape) {
    ParameterTensor tensor{.name = std::move(name), .shape = std::move(shape), .offset = group_.elements};
    tensor.elements = 1;
    for (const std::int64_t size : tensor.shape) tensor.elements *= size;
    tensor.decay = decays(tensor.name);
    group_.elements += tensor.elements;
    group_.tensors.push_back(std::move(tensor));
    return *this;
  }
  ParameterGroup finish() {
    align();
    return std::move(group_);
  }

 private:
  ParameterGroup group_;
};

void add_attention(GroupBuilder& group, const Architecture& a, const std::string& prefix) {
  const std::int64_t queries = (a.attention_gate ? 2 : 1) * a.query_width();
  group.align()
      .add(prefix + "q_proj.weight", {queries, a.hidden})
      .add(prefix + "k_proj.weight", {a.kv_width(), a.hidden})
      .add(prefix + "v_proj.weight", {a.kv_width(), a.hidden});
  if (a.attention_bias) {
    group.align()
        .add(prefix + "q_proj.bias", {queries})
        .add(prefix + "k_proj.bias", {a.kv_width()})
        .add(prefix + "v_proj.bias", {a.kv_width()});
  }
  if (a.query_key_norm) {
    group.align().add(prefix + "q_norm.weight", {a.head_dim});
    group.align().add(prefix + "k_norm.weight", {a.head_dim});
  }
  group.align().add(prefix + "o_proj.weight", {a.hidden, a.query_width()});
  if (a.output_bias) group.align().add(prefix + "o_proj.bias", {a.hidden});
}

void add_linear_attention(GroupBuilder& group, const Architecture& a, const std::string& prefix) {
  const LinearAttention& linear = a.linear;
  group.align();
  if (a.model_type == "qwen3_next") {  // which stores them interleaved by key head
    group.add(prefix + "in_proj_qkvz.weight", {linear.convolved_width() + linear.value_width(), a.hidden})
        .add(prefix + "in_proj_ba.weight", {2 * linear.value_heads, a.hidden});
  } else {
    group.add(prefix + "in_proj_qkv.weight", {linear.convolved_width(), a.hidden})
        .add(prefix + "in_proj_z.weight", {linear.value_width(), a.hidden})
        .add(prefix + "in_proj_b.weight", {linear.value_heads, a.hidden})
        .add(prefix + "in_proj_a.weight", {linear.value_heads, a.hidden});
  }
  group.align().add(prefix + "conv1d.weight", {linear.convolved_width(), 1, linear.taps});
  group.align().add(prefix + "dt_bias", {linear.value_heads});
  group.align().add(prefix + "A_log", {linear.value_heads});
  group.align().add(prefix + "norm.weight", {linear.value_dim});
  group.align().add(prefix + "out_proj.weight", {a.hidden, linear.value_width()});
}

void add_mlp(GroupBuilder& group, const Architecture& a, const std::string& prefix, std::int64_t ffn,
             bool bias) {
  group.align()
      .add(prefix + "gate_proj.weight", {ffn, a.hidden})
      .add(prefix + "up_proj.weight", {ffn, a.hidden});
  if (bias) group.align().add(prefix + "gate_proj.bias", {ffn}).add(prefix + "up_proj.bias", {ffn});
  group.align().add(prefix + "down_proj.weight", {a.hidden, ffn});
  if (bias) group.align().add(prefix + "down_proj.bias", {a.hidden});
}

void add_experts(GroupBuilder& group, const Architecture& a, const std::string& prefix) {
  group.align().add(prefix + "gate.weight", {a.experts.count, a.hidden});  // the router
  for (std::int64_t expert = 0; expert < a.experts.count; ++expert)
    add_mlp(group, a, prefix + "experts." + std::to_string(expert) + ".", a.experts.ffn, false);
  if (a.experts.shared_ffn == 0) return;
  add_mlp(group, a, prefix + "shared_expert.", a.experts.shared_ffn, false);
  group.align().add(prefix + "shared_expert_gate.weight", {1, a.hidden});
}

ParameterGroup layer_group(const Architecture& a, std::int64_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const LayerKind kind = a.kind_of(layer);
  GroupBuilder group(GroupKind::layer, static_cast<std::int32_t>(layer));
  group.add(prefix + "input_layernorm.weight", {a.hidden});
  if (has_linear_attention(kind))
    add_linear_attention(group, a, prefix + "linear_attn.");
  else
    add_attention(group, a, prefix + "self_attn.");
  group.align().add(prefix + "post_attention_layernorm.weight", {a.hidden});
  if (has_experts(kind))
    add_experts(group, a, prefix + "mlp.");
  else
    add_mlp(group, a, prefix + "mlp.", a.ffn, a.mlp_bias);
  return group.finish();
}

// The first layer of this kind; -1 where there is none.
std::int64_t first_layer(const Architecture& a, LayerKind kind) {
  for (std::int64_t layer = 0; layer < a.layers; ++layer)
    if (a.kind_of(layer) == kind) return layer;
  return -1;
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Architecture& architecture) {
  const Architecture& a = architecture;
  std::vector<ParameterGroup> groups;
  groups.reserve(static_cast<std::size_t>(a.layers) + 2);
  groups.push_back(
      GroupBuilder(GroupKind::embedding, -1).add("model.embed_tokens.weight", {a.vocab, a.hidden}).finish());
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    groups.push_back(layer_group(a, layer));
  }
  GroupBuilder head(GroupKind::head, -1);
  head.add("model.norm.weight", {a.hidden});
  if (!a.tied_head) head.align().add("lm_head.weight", {a.vocab, a.hidden});
  groups.push_back(head.finish());
  return groups;
}

LayerOffsets layer_offsets(const Architecture& architecture) {
  const std::int64_t layer = std::max(first_layer(architecture, LayerKind::attention),
                                      first_layer(architecture, LayerKind::sliding_attention));
  const ParameterGroup group = layer < 0 ? ParameterGroup{} : layer_group(architecture, layer);
  const auto offset = [&](std::string_view suffix) -> std::int64_t {
    for (const ParameterTensor& tensor : group.tensors) {
      if (std::string_view(tensor.name).ends_with(suffix)) return tensor.offset;
    }
    return -1;
  };
  return {.input_norm = offset(".input_layernorm.weight"),
          .qkv = offset(".q_proj.weight"),
          .qkv_bias = offset(".q_proj.bias"),
          .query_norm = offset(".q_norm.weight"),
          .key_norm = offset(".k_norm.weight"),
          .output = offset(".o_proj.weight"),
          .output_bias = offset(".o_proj.bias"),
          .post_norm = offset(".post_attention_layernorm.weight"),
          .gate_up = offset(".gate_proj.weight"),
          .gate_up_bias = offset(".gate_proj.bias"),
          .down = offset(".down_proj.weight"),
          .down_bias = offset(".down_proj.bias")};
}

std::int64_t parameter_count(const Architecture& architecture) {
  const Architecture& a = architecture;
  const std::int64_t matrix = a.vocab * a.hidden;
  std::int64_t count = matrix + a.hidden + (a.tied_head ? 0 : matrix);
  for (const LayerKind kind : kLayerKinds) {
    const std::int64_t layers = a.layers_of(kind);
    if (layers == 0) continue;
    for (const ParameterTensor& tensor : layer_group(a, first_layer(a, kind)).tensors)
      count += layers * tensor.elements;
  }
  return count;
}

}  // namespace lazytrain
