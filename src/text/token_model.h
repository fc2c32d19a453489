// What makes tokens of pieces of text: the `model` of tokenizer.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "text/bpe.h"
#include "text/unigram.h"

namespace lazytrain {

using TokenModel = std::variant<BytePairEncoder, UnigramEncoder>;

// `byte_level`: pieces are taken as bytes. `where` names file and key. Throws Error(model_file) for what is
// malformed or not supported.
TokenModel read_token_model(const nlohmann::json& model, bool byte_level, Vocabulary& vocabulary,
                            const std::string& where);

}  // namespace lazytrain
