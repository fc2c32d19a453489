// What is put around a text once its tokens are known: the `post_processor` of tokenizer.json
// (TemplateProcessing, ByteLevel, which changes nothing here, and sequences of them).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/vocabulary.h"

namespace lazytrain {

// The ids around a text.
struct TextFrame {
  std::vector<std::int32_t> before, after;
};

// `document` is the value of the key, null for none; `where` names file and key. Throws Error(model_file).
TextFrame read_post_processor(const nlohmann::json& document, const Vocabulary& vocabulary,
                              const std::string& where);

}  // namespace lazytrain
