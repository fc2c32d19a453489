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

ParameterGroup layer_group(const Architecture& a, std::int32_t layer) {
  const std::string prefix = "model.layers." + std::to_string(layer) + ".";
  const std::string attention = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  GroupBuilder group(GroupKind::layer, layer);
  group.add(prefix + "input_layernorm.weight", {a.hidden});
  group.align()
      .add(attention + "q_proj.weight", {a.query_width(), a.hidden})
      .add(attention + "k_proj.weight", {a.kv_width(), a.hidden})
      .add(attention + "v_proj.weight", {a.kv_width(), a.hidden});
  if (a.attention_bias) {
    group.align()
        .add(attention + "q_proj.bias", {a.query_width()})
        .add(attention + "k_proj.bias", {a.kv_width()})
        .add(attention + "v_proj.bias", {a.kv_width()});
  }
  group.align().add(attention + "o_proj.weight", {a.hidden, a.query_width()});
  if (a.attention_bias) group.align().add(attention + "o_proj.bias", {a.hidden});
  group.align().add(prefix + "post_attention_layernorm.weight", {a.hidden});
  group.align()
      .add(mlp + "gate_proj.weight", {a.ffn, a.hidden})
      .add(mlp + "up_proj.weight", {a.ffn, a.hidden});
  if (a.mlp_bias) group.align().add(mlp + "gate_proj.bias", {a.ffn}).add(mlp + "up_proj.bias", {a.ffn});
  group.align().add(mlp + "down_proj.weight", {a.hidden, a.ffn});
  if (a.mlp_bias) group.align().add(mlp + "down_proj.bias", {a.hidden});
  return group.finish();
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const Architecture& architecture) {
  const Architecture& a = architecture;
  std::vector<ParameterGroup> groups;
  groups.reserve(static_cast<std::size_t>(a.layers) + 2);
  groups.push_back(
      GroupBuilder(GroupKind::embedding, -1).add("model.embed_tokens.weight", {a.vocab, a.hidden}).finish());
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    groups.push_back(layer_group(a, static_cast<std::int32_t>(layer)));
  }
  GroupBuilder head(GroupKind::head, -1);
  head.add("model.norm.weight", {a.hidden});
  if (!a.tied_head) head.align().add("lm_head.weight", {a.vocab, a.hidden});
  groups.push_back(head.finish());
  return groups;
}

LayerOffsets layer_offsets(const Architecture& architecture) {
  const ParameterGroup group = layer_group(architecture, 0);
  const auto offset = [&](std::string_view suffix) -> std::int64_t {
    for (const ParameterTensor& tensor : group.tensors) {
      if (std::string_view(tensor.name).ends_with(suffix)) return tensor.offset;
    }
    return -1;
  };
  return {.input_norm = offset(".input_layernorm.weight"),
          .qkv = offset(".q_proj.weight"),
          .qkv_bias = offset(".q_proj.bias"),
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
  std::int64_t layer = 0;
  for (const ParameterTensor& tensor : layer_group(a, 0).tensors) layer += tensor.elements;
  const std::int64_t matrix = a.vocab * a.hidden;
  return matrix + a.layers * layer + a.hidden + (a.tied_head ? 0 : matrix);
}

}  // namespace lazytrain
