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

struct ModelFamily {
  std::string_view model_type;
  bool trainable = false;
  AttentionBias bias = AttentionBias::by_key;
  bool query_key_norm = false;
  bool windows_by_default = true;  // sliding_window counts where use_sliding_window is absent
  bool experts = false;            // some or all layers have them
  bool linear_attention = false;   // likewise
};

// nullptr where no family has this model_type.
const ModelFamily* find_family(std::string_view model_type);
// "llama, mistral, ...": for messages.
std::string family_names();

// Fills in biases, norms, window, experts, linear attention and the kind of every layer; sizes must be there.
// Throws Error(model_file) naming the key that says what cannot be planned.
void read_layers(const ConfigReader& config, const ModelFamily& family, Architecture& architecture);

}  // namespace lazytrain
