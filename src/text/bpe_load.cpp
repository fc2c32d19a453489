// The `model` of tokenizer.json: vocabulary and merges.
#include <cstdint>
#include <limits>
#include <string>

#include "core/error.h"
#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/json_field.h"

namespace lazytrain {

using nlohmann::json;

BytePairEncoder::BytePairEncoder(const json& model, Vocabulary& vocabulary, const std::string& file)
    : vocabulary_(&vocabulary) {
  const std::string where = file + ": model";
  if (!model.is_object()) fail(ExitCode::model_file, "{}: should be an object", where);
  const json* type = json_field::find(model, "type");  // absent in old files
  if (type != nullptr && *type != "BPE") {
    fail(ExitCode::model_file, "{}: the type {} is not supported; only byte-level BPE is", where,
         type->dump());
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* affix = json_field::find(model, key);
    if (affix != nullptr && *affix != "")
      fail(ExitCode::model_file, "{}: '{}' {} is not supported; only byte-level BPE without it is", where,
           key, affix->dump());
  }
  if (json_field::boolean(model, "byte_fallback", false, where))
    fail(ExitCode::model_file, "{}: 'byte_fallback' is not supported; only byte-level BPE without it is",
         where);
  const json* dropout = json_field::find(model, "dropout");
  if (dropout != nullptr && *dropout != 0)
    fail(ExitCode::model_file, "{}: 'dropout' {} is not supported; set it to null", where, dropout->dump());
  fuse_unknown_ = json_field::boolean(model, "fuse_unk", false, where);
  ignore_merges_ = json_field::boolean(model, "ignore_merges", false, where);
  if (json_field::find(model, "unk_token") != nullptr) unknown_ = json_field::text(model, "unk_token", where);
  read_vocabulary(model, where);
  read_merges(model, where);
}

void BytePairEncoder::read_vocabulary(const json& model, const std::string& where) {
  const json& vocab = json_field::need(model, "vocab", where);
  if (!vocab.is_object() || vocab.empty())
    fail(ExitCode::model_file, "{}: 'vocab' should be an object of tokens and ids", where);
  for (const auto& [spelling, id] : vocab.items()) {
    if (!id.is_number_integer() ||
        (id.is_number_unsigned() && id.get<std::uint64_t>() > std::uint64_t{1} << 40))
      fail(ExitCode::model_file, "{}: the id of the token '{}' should be a whole number", where, spelling);
    vocabulary_->add(spelling, id.get<std::int64_t>(), where);
  }
  model_size_ = vocabulary_->size();
  byte_ids_.assign(256, -1);
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    if (const auto id = vocabulary_->find(spelling_of_bytes({&c, 1})))
      byte_ids_[static_cast<std::size_t>(byte)] = *id;
  }
}

void BytePairEncoder::read_merges(const json& model, const std::string& where) {
  const json& merges = json_field::need(model, "merges", where);
  if (!merges.is_array()) fail(ExitCode::model_file, "{}: 'merges' should be an array", where);
  if (merges.size() >= std::numeric_limits<std::uint32_t>::max())
    fail(ExitCode::model_file, "{}: 'merges' has {} entries", where, merges.size());
  merges_.reserve(merges.size());
  std::uint32_t rank = 0;
  for (const json& merge : merges) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    } else if (merge.is_string()) {
      const std::string& pair = merge.get_ref<const std::string&>();
      if (pair.starts_with("#version")) continue;  // the first line of a merges.txt, kept by old converters
      const std::size_t space = pair.find(' ');
      if (space == std::string::npos || pair.find(' ', space + 1) != std::string::npos)
        fail(ExitCode::model_file, "{}: merge {} is '{}', which is not two tokens; get the file again", where,
             rank, pair);
      left = pair.substr(0, space);
      right = pair.substr(space + 1);
    } else {
      fail(ExitCode::model_file, "{}: merge {} should be a string or a pair of strings", where, rank);
    }
    const auto left_id = vocabulary_->find(left), right_id = vocabulary_->find(right);
    const auto id = vocabulary_->find(left + right);
    if (!left_id || !right_id || !id) {
      fail(ExitCode::model_file,
           "{}: merge {} needs the token '{}', which the vocabulary lacks; get the file again", where, rank,
           !left_id ? left : (!right_id ? right : left + right));
    }
    merges_.insert(*left_id, *right_id, {.rank = rank, .id = *id});
    ++rank;
  }
}

}  // namespace lazytrain
