// Architecture: everything about a model that can be known from its config.json: sizes, tensors with names
// and shapes, floating-point operations, and what a layer saves inside itself for its backward.
// Planning needs nothing else; no weight is read here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "core/units.h"

namespace lazytrain {

enum class RopeKind : std::uint8_t { standard, llama3, linear, dynamic, yarn };

// Rotary embedding; formulas in model/rope.h.
struct RopeConfig {
  RopeKind kind = RopeKind::standard;
  double theta = 10000.0;
  double factor = 1.0;                   // of all kinds but standard
  double low_frequency_factor = 1.0;     // llama3
  double high_frequency_factor = 4.0;    // llama3
  double original_max_position = 8192;   // llama3, dynamic, yarn: positions before the scaling
  double beta_fast = 32, beta_slow = 1;  // yarn: turns within these positions that bound the blend
  bool whole_bounds = true;              // yarn: the bounds are rounded outwards to whole channels
  double attention_factor = 1.0;         // yarn: multiplies cosine and sine

  bool operator==(const RopeConfig&) const = default;
};

// What a decoder layer is made of. Layers of one kind have the same tensors, bytes and costs.
enum class LayerKind : std::uint8_t {
  attention,                // softmax attention, then a dense MLP
  sliding_attention,        // the same, through a window of the last tokens
  linear_attention,         // Gated DeltaNet, then a dense MLP
  attention_experts,        // softmax attention, then a mixture of experts
  linear_attention_experts  // Gated DeltaNet, then a mixture of experts
};
inline constexpr LayerKind kLayerKinds[] = {LayerKind::attention, LayerKind::sliding_attention,
                                            LayerKind::linear_attention, LayerKind::attention_experts,
                                            LayerKind::linear_attention_experts};
inline constexpr std::size_t kLayerKindCount = std::size(kLayerKinds);
[[nodiscard]] const char* to_string(LayerKind kind);
[[nodiscard]] constexpr bool has_linear_attention(LayerKind kind) {
  return kind == LayerKind::linear_attention || kind == LayerKind::linear_attention_experts;
}
[[nodiscard]] constexpr bool has_experts(LayerKind kind) {
  return kind == LayerKind::attention_experts || kind == LayerKind::linear_attention_experts;
}

// Gated DeltaNet (Qwen3-Next, Qwen3.5): heads and their widths. Queries have the keys' heads.
struct LinearAttention {
  std::int64_t key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  std::int64_t taps = 0;  // of the causal convolution over queries, keys and values

  [[nodiscard]] std::int64_t value_width() const { return value_heads * value_dim; }
  [[nodiscard]] std::int64_t convolved_width() const { return 2 * key_heads * key_dim + value_width(); }
  // All that is projected in: queries, keys, values, the output gate, and two scalars a value head (decay and
  // step size).
  [[nodiscard]] std::int64_t projected_width() const {
    return convolved_width() + value_width() + 2 * value_heads;
  }
  bool operator==(const LinearAttention&) const = default;
};

// A mixture of experts in the place of the MLP.
struct Experts {
  std::int64_t count = 0, active = 0;  // of all of them, each token passes `active`
  std::int64_t ffn = 0;                // intermediate size of each
  std::int64_t shared_ffn = 0;         // of the one that every token passes; 0 = there is none

  bool operator==(const Experts&) const = default;
};

struct Architecture {
  std::string model_type;  // "llama", "qwen3_5_text"
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  std::int64_t max_position = 0;
  bool tied_head = false;       // lm_head is the embedding matrix
  bool attention_bias = false;  // biases on q, k and v
  bool output_bias = false;     // bias on o
  bool mlp_bias = false;        // biases on gate, up and down
  double rms_epsilon = 1e-6;
  bool query_key_norm = false;  // each head's queries and keys are normalised before they are rotated
  bool attention_gate = false;  // q projects a gate of the attention's output too
  std::int64_t window = 0;      // tokens that a query of LayerKind::sliding_attention sees, with its own
  LinearAttention linear = {};  // of the layers that have it
  Experts experts = {};         // likewise
  std::vector<LayerKind> kinds = {};  // of each layer; empty: all are LayerKind::attention
  RopeConfig rope;
  std::optional<std::int32_t> bos_token;
  std::vector<std::int32_t> eos_tokens;
  // Its row of the embedding gets no gradient from the input (a tied head's part stays), as transformers
  // trains: torch.nn.Embedding(padding_idx).
  std::optional<std::int32_t> padding_token;
  std::string checkpoint_dtype;  // "bfloat16", "float32", ... as config.json says, empty where it does not

  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t kv_width() const { return kv_heads * head_dim; }
  // Rows of the projection into softmax attention, its gate included.
  [[nodiscard]] std::int64_t qkv_width() const {
    return (attention_gate ? 2 : 1) * query_width() + 2 * kv_width();
  }
  [[nodiscard]] LayerKind kind_of(std::int64_t layer) const {
    return kinds.empty() ? LayerKind::attention : kinds[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] std::int64_t layers_of(LayerKind kind) const;  // how many there are
  // Tokens that a query of a layer of this kind sees at most, its own included; 0 = all before it.
  [[nodiscard]] std::int64_t window_of(LayerKind kind) const {
    return kind == LayerKind::sliding_attention ? window : 0;
  }

  // Widths of a layer of this kind, in elements a token: what is projected into the attention, the
  // attention's output before its projection, and the up-projections of the MLP that a token passes.
  [[nodiscard]] std::int64_t projected_width(LayerKind kind) const {
    return has_linear_attention(kind) ? linear.projected_width() : qkv_width();
  }
  [[nodiscard]] std::int64_t core_width(LayerKind kind) const {
    return has_linear_attention(kind) ? linear.value_width() : query_width();
  }
  [[nodiscard]] std::int64_t mlp_width(LayerKind kind) const {
    return has_experts(kind) ? experts.active * experts.ffn + experts.shared_ffn : ffn;
  }
  bool operator==(const Architecture&) const = default;
};

// What an architecture is read for. A step can be planned of more models than can be trained.
enum class Purpose : std::uint8_t { train, plan };

// Reads config.json of a folder (or the file itself). Old and new spellings (rope_theta / rope_scaling /
// rope_parameters, torch_dtype / dtype, text eos lists, settings inside text_config). Anything the program
// cannot train exactly as transformers would is refused in one sentence, Error(model_file), naming the key;
// unknown keys are ignored. Purpose::plan refuses only what has no known bytes or operations; of a model that
// sees too, it is about the language model alone, and `rope` is left as it is: no plan depends on it.
Architecture read_architecture(const std::filesystem::path& folder_or_config,
                               Purpose purpose = Purpose::train);

// One tensor inside a parameter group's flat buffer.
struct ParameterTensor {
  std::string name;                 // checkpoint name, e.g. "model.layers.0.self_attn.q_proj.weight"
  std::vector<std::int64_t> shape;  // as in the checkpoint
  std::int64_t elements = 0;
  std::int64_t offset = 0;  // in elements from the start of the group
  bool decay = true;        // weight decay applies (Hugging Face Trainer's rule: not biases, not norms)
};

// Tensors that are stored, streamed and updated together, in one flat buffer of one element type.
// Groups: 0 = embedding, 1..L = decoder layers, L+1 = head (final norm, then lm_head unless tied).
// Inside a layer q|k|v are adjacent (one [qkv_width, hidden] matrix) and so are gate|up, as are their
// biases, and all that is projected into linear attention; every matrix that is used alone starts on a
// multiple of 64 elements; gaps hold zeros.
enum class GroupKind : std::uint8_t { embedding, layer, head };
struct ParameterGroup {
  GroupKind kind = GroupKind::layer;
  std::int32_t layer = -1;  // 0-based, for GroupKind::layer
  std::vector<ParameterTensor> tensors;
  std::int64_t elements = 0;  // of the flat buffer, gaps included: a multiple of 64
};
std::vector<ParameterGroup> parameter_groups(const Architecture& architecture);

// Offsets (in elements) inside the flat buffer of a layer with softmax attention (with or without a window)
// and a dense MLP; -1 where the layer has no such tensor.
struct LayerOffsets {
  std::int64_t input_norm, qkv, qkv_bias, query_norm, key_norm, output, output_bias, post_norm, gate_up,
      gate_up_bias, down, down_bias;
};
LayerOffsets layer_offsets(const Architecture& architecture);

// Parameters as checkpoints count them (a tied head once; gaps not counted).
std::int64_t parameter_count(const Architecture& architecture);

// ---- What a layer saves for its backward: the one list of stash items ----

// A level is a named set of items that the forward saves; the re-forward computes the others.
//   none: nothing        attention: qkv, core, lse, mid        mlp: mid, gate_up        all: everything
enum class StashLevel : std::uint8_t { none, attention, mlp, all };
inline constexpr StashLevel kStashLevels[] = {StashLevel::none, StashLevel::attention, StashLevel::mlp,
                                              StashLevel::all};
[[nodiscard]] const char* to_string(StashLevel level);
// Throws Error(usage) listing the levels.
StashLevel stash_level_from(const std::string& name);

enum class StashItem : std::uint8_t { qkv, core, lse, mid, gate_up };
inline constexpr StashItem kStashItems[] = {StashItem::qkv, StashItem::core, StashItem::lse, StashItem::mid,
                                            StashItem::gate_up};
struct StashItemShape {
  StashItem item;
  const char* name;
  std::int64_t elements_per_token;
  bool fp32;  // fp32 whatever the storage type (log-sum-exp)
};
// Of a layer of this kind. With experts, gate_up holds the rows of those that a token passes.
std::vector<StashItemShape> stash_items(const Architecture& architecture, LayerKind kind);
[[nodiscard]] bool stash_contains(StashLevel level, StashItem item);
// Bytes of one level for `tokens` tokens, every item aligned to kBufferAlignment; storage type 2 or 4 bytes.
Bytes stash_bytes(const Architecture& architecture, LayerKind kind, StashLevel level, std::int64_t tokens,
                  std::int64_t type_bytes);

// ---- Floating-point operations (2 per multiply-add) ----

struct LayerFlops {
  double forward;          // of one layer and token, attention over `context` keys on average
  double down_projection;  // the part that a tail-skipping re-forward leaves out
  double attention_block;  // norm to `mid`: what a stash of level attention saves
  double mlp_up;           // gate and up projections: what a stash of level mlp saves
};
// Of a layer of this kind. Linear attention does not depend on the context: its recurrence takes 6 operations
// for each element of a head's state. Of experts, only those count that a token passes.
LayerFlops layer_flops(const Architecture& architecture, LayerKind kind, double mean_context);
// Keys that a query of such a layer sees, on average over a slot that is one document.
double mean_context(const Architecture& architecture, LayerKind kind, double slot_tokens);
double head_flops(const Architecture& architecture);  // forward, per supervised token

}  // namespace lazytrain
