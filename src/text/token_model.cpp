#include "text/token_model.h"

#include "core/error.h"
#include "text/json_field.h"

namespace lazytrain {

using nlohmann::json;

TokenModel read_token_model(const json& model, bool byte_level, Vocabulary& vocabulary,
                            const std::string& where) {
  if (!model.is_object()) fail(ExitCode::model_file, "{}: should be an object", where);
  const json* type = json_field::find(model, "type");
  const json* vocab = json_field::find(model, "vocab");
  // Old files do not say the type; only Unigram lists its tokens with scores.
  const bool unigram = type != nullptr ? *type == "Unigram" : vocab != nullptr && vocab->is_array();
  if (unigram) {
    if (byte_level)
      fail(ExitCode::model_file,
           "{}: a Unigram model behind a ByteLevel pre_tokenizer is not supported; choose a model with "
           "another tokenizer",
           where);
    return UnigramEncoder(model, vocabulary, where);
  }
  if (type != nullptr && *type != "BPE")
    fail(ExitCode::model_file, "{}: the type {} is not supported (BPE and Unigram are)", where, type->dump());
  return BytePairEncoder(model, byte_level, vocabulary, where);
}

}  // namespace lazytrain
