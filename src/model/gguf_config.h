// The settings of a GGUF file of the llama, qwen2 or qwen3 architecture as a Hugging Face config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "formats/gguf.h"

namespace lazytrain {

// "block_count" -> "qwen3.block_count": keys stand under the architecture's name.
std::string gguf_key(const Gguf& file, const std::string& name);

// Sizes from the architecture's keys, the vocabulary from the token list, tied head and biases from the
// tensors that are there; rotation plain, linear, yarn or llama3's. Other architectures, experts, other
// scaling and partial rotation are refused by name.
nlohmann::ordered_json gguf_config(const Gguf& file);

// Special tokens by their role; generation stops at any of `eos`. Ids are checked against the token list.
struct GgufSpecialTokens {
  std::optional<std::int64_t> bos, unknown, padding;
  std::vector<std::int64_t> eos;  // the end of text first, then the ends of a turn or message
};
GgufSpecialTokens gguf_special_tokens(const Gguf& file);

}  // namespace lazytrain
