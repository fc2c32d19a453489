// The `model` of tokenizer.json: vocabulary and merges.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "core/error.h"
#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/byte_token.h"
#include "text/json_field.h"
#include "text/utf8.h"

namespace lazytrain {

using nlohmann::json;

BytePairEncoder::BytePairEncoder(const json& model, bool byte_level, Vocabulary& vocabulary,
                                 const std::string& where)
    : vocabulary_(&vocabulary), byte_level_(byte_level) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const json* affix = json_field::find(model, key);
    if (affix != nullptr && *affix != "")
      fail(ExitCode::model_file, "{}: '{}' {} is not supported; only BPE without it is", where, key,
           affix->dump());
  }
  byte_fallback_ = json_field::boolean(model, "byte_fallback", false, where);
  const json* dropout = json_field::find(model, "dropout");
  if (dropout != nullptr && *dropout != 0)
    fail(ExitCode::model_file, "{}: 'dropout' {} is not supported; set it to null", where, dropout->dump());
  fuse_unknown_ = json_field::boolean(model, "fuse_unk", false, where);
  ignore_merges_ = json_field::boolean(model, "ignore_merges", false, where);
  if (json_field::find(model, "unk_token") != nullptr) unknown_ = json_field::text(model, "unk_token", where);
  read_vocabulary(model, where);
  find_letters();
  // Where every byte has its letter, nothing is left to fall back.
  if (byte_level_ && byte_fallback_ && std::count(byte_ids_.begin(), byte_ids_.end(), -1) > 0)
    fail(ExitCode::model_file,
         "{}: 'byte_fallback' is not supported with ByteLevel; choose a model with another tokenizer", where);
  const std::vector<std::int32_t> joined = read_merges(model, where);
  if (!byte_level_) find_seams(joined);
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
}

void BytePairEncoder::find_letters() {
  if (byte_level_) {
    byte_ids_.assign(256, -1);
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (const auto id = vocabulary_->find(spelling_of_bytes({&c, 1})))
        byte_ids_[static_cast<std::size_t>(byte)] = *id;
    }
    return;
  }
  const auto of_bytes = find_byte_tokens(*vocabulary_);
  byte_ids_.assign(of_bytes.begin(), of_bytes.end());
  ascii_ids_.assign(128, -1);
  for (std::int32_t id = 0; id < model_size_; ++id) {
    const std::string* spelling = vocabulary_->spelling(id);
    if (spelling == nullptr || spelling->empty()) continue;
    longest_ = std::max(longest_, spelling->size());
    const CodePoint point = decode_utf8(*spelling, 0);
    if (point.size != spelling->size()) continue;
    if (point.value < ascii_ids_.size()) {
      ascii_ids_[point.value] = id;
    } else {
      letter_ids_[point.value] = id;
    }
  }
}

std::vector<std::int32_t> BytePairEncoder::read_merges(const json& model, const std::string& where) {
  const json& merges = json_field::need(model, "merges", where);
  if (!merges.is_array()) fail(ExitCode::model_file, "{}: 'merges' should be an array", where);
  if (merges.size() >= std::numeric_limits<std::uint32_t>::max())
    fail(ExitCode::model_file, "{}: 'merges' has {} entries", where, merges.size());
  merges_.reserve(merges.size());
  std::vector<std::int32_t> joined;
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
    joined.push_back(*id);
    ++rank;
  }
  return joined;
}

// Without a pre-tokenizer a piece is a whole text. Most places in it no merge reaches across: two code points
// that stand beside each other in no token that is made by merging. Unknown tokens spell nothing, so no merge
// may use them.
void BytePairEncoder::find_seams(std::span<const std::int32_t> joined) {
  std::vector<std::pair<char32_t, char32_t>> pairs;
  for (const std::int32_t id : joined) {
    const std::string& spelling = *vocabulary_->spelling(id);
    char32_t before = 0;
    for (std::size_t at = 0; at < spelling.size();) {
      const CodePoint point = decode_utf8(spelling, at);
      if (at > 0) pairs.emplace_back(before, point.value);
      before = point.value;
      at += point.size;
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  inside_.reserve(pairs.size());
  for (const auto& [left, right] : pairs)
    inside_.insert(static_cast<std::int32_t>(left), static_cast<std::int32_t>(right), {});
  has_seams_ = true;
}

}  // namespace lazytrain
