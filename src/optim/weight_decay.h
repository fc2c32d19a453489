// Which parameters weight decay applies to, by checkpoint name: Hugging Face Trainer's rule.
#pragma once

#include <string_view>

namespace lazytrain {

// False for biases and for norm weights: names that contain "bias", "layernorm" or "rmsnorm", or have a
// dot-separated part that is "norm" or ends in "_norm". Embeddings and the head are decayed. Case is ignored.
[[nodiscard]] bool weight_decay_applies(std::string_view name);

}  // namespace lazytrain
