// The model families whose step can be planned, and what config.json says about the layers of each: biases,
// norms, windows, experts, linear attention. Which of them can be trained is said here too.
#pragma once

#include <string>
#include <string_view>

#include "model/architecture.h"
#include "model/config_reader.h"

namespace lazytrain {

// Biases of a family's attention projections.
enum class AttentionBias : std::uint8_t {
  by_key,            // on q, k, v and o where attention_bias says so
  query_key_value,   // on q, k and v, always
  qkv_unless_denied  // on q, k and v unless qkv_bias is false
};

// Which layers of a family look back through a window of sliding_window tokens.
enum class Windows : std::uint8_t {
  none,        // the family has no windows
  everywhere,  // all layers, where sliding_window is set
  by_flag  // where use_sliding_window is true: those of layer_types, or the layers from max_window_layers on
};

struct ModelFamily {
  std::string_view model_type;
  std::string_view trained_class = {};  // the class of those that can be trained; empty: only planned
  AttentionBias bias = AttentionBias::by_key;
  bool query_key_norm = false;
  Windows windows = Windows::by_flag;
  std::int64_t head_dim = 0;      // where config.json has none; 0: hidden_size / num_attention_heads
  bool experts = false;           // some or all layers have them
  bool linear_attention = false;  // likewise

  [[nodiscard]] bool is_trainable() const { return !trained_class.empty(); }
};

// nullptr where no family has this model_type.
const ModelFamily* find_family(std::string_view model_type);
// "llama, mistral, ... and ...": for messages; of all families, or of those that can be trained.
std::string family_names();
std::string trained_family_names();

// Fills in biases, norms, window, experts, linear attention and the kind of every layer; sizes must be there.
// Throws Error(model_file) naming the key that says what cannot be planned.
void read_layers(const ConfigReader& config, const ModelFamily& family, Architecture& architecture);

}  // namespace lazytrain
