// The tokenizer of a GGUF file of the kind "llama" (sentencepiece's BPE by scores) as the components of a
// tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace lazytrain {

// A list of merges that joins as the scores do: the pair first whose result has the highest score.
// `mergeable` says of each token whether it can be part of one or come of one. Pairs of tokens ("left",
// "right").
nlohmann::ordered_json merges_of_scores(std::span<const std::string_view> tokens,
                                        std::span<const float> scores, const std::vector<bool>& mergeable);

// Spaces are written as U+2581 and, with `prefix`, one is put in front of a text.
nlohmann::ordered_json sentencepiece_normalizer(bool prefix);
nlohmann::ordered_json sentencepiece_decoder(bool prefix);

}  // namespace lazytrain
