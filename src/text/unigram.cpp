#include "text/unigram.h"

#include <algorithm>

#include "core/error.h"
#include "text/byte_token.h"
#include "text/json_field.h"
#include "text/utf8.h"

namespace lazytrain {

using nlohmann::json;

// How much worse than the worst token a code point without a token is.
constexpr double kUnknownPenalty = 10.0;

UnigramEncoder::UnigramEncoder(const json& model, Vocabulary& vocabulary, const std::string& where)
    : vocabulary_(&vocabulary) {
  byte_fallback_ = json_field::boolean(model, "byte_fallback", false, where);
  read_vocabulary(json_field::need(model, "vocab", where), where);
  const json* unknown = json_field::find(model, "unk_id");
  if (unknown == nullptr)
    fail(ExitCode::model_file,
         "{}: a Unigram model without 'unk_id' is not supported; choose a model with another tokenizer",
         where);
  const bool in_range = unknown->is_number_unsigned() &&
                        unknown->get<std::uint64_t>() < static_cast<std::uint64_t>(scores_.size());
  if (!in_range)
    fail(ExitCode::model_file, "{}: 'unk_id' {} is not the id of a token", where, unknown->dump());
  unknown_id_ = unknown->get<std::int32_t>();
  byte_ids_ = find_byte_tokens(vocabulary);
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
  build_trie();
}

void UnigramEncoder::read_vocabulary(const json& vocab, const std::string& where) {
  if (!vocab.is_array() || vocab.empty())
    fail(ExitCode::model_file, "{}: 'vocab' should be an array of tokens and scores", where);
  for (const json& entry : vocab) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      fail(ExitCode::model_file, "{}: entry {} of 'vocab' should be a token and its score", where,
           scores_.size());
    vocabulary_->add(entry[0].get<std::string>(), std::ssize(scores_), where);
    scores_.push_back(entry[1].get<double>());
  }
}

void UnigramEncoder::build_trie() {
  std::size_t bytes = 0;
  for (std::int32_t id = 0; id < std::ssize(scores_); ++id) bytes += vocabulary_->spelling(id)->size();
  edges_.reserve(bytes);
  roots_.fill(-1);
  const auto add_node = [&] {
    token_of_node_.push_back(-1);
    return static_cast<std::int32_t>(token_of_node_.size() - 1);
  };
  for (std::int32_t id = 0; id < std::ssize(scores_); ++id) {
    const std::string& spelling = *vocabulary_->spelling(id);
    if (spelling.empty()) continue;
    std::int32_t& root = roots_[static_cast<unsigned char>(spelling[0])];
    if (root < 0) root = add_node();
    std::int32_t node = root;
    for (std::size_t i = 1; i < spelling.size(); ++i) {
      const auto byte = static_cast<std::int32_t>(static_cast<unsigned char>(spelling[i]));
      if (const auto* edge = edges_.find(node, byte)) {
        node = edge->id;
      } else {
        const std::int32_t fresh = add_node();
        edges_.insert(node, byte, {.rank = 0, .id = fresh});
        node = fresh;
      }
    }
    token_of_node_[static_cast<std::size_t>(node)] = id;
  }
}

std::vector<UnigramEncoder::Step> UnigramEncoder::best_steps(std::string_view piece) const {
  std::vector<Step> steps(piece.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t id) {
    Step& step = steps[end];
    if (step.id < 0 || score > step.score) step = {.score = score, .id = id, .begin = begin};
  };
  for (std::size_t begin = 0; begin < piece.size();) {
    const double before = steps[begin].score;
    const std::size_t letter_end = begin + decode_utf8(piece, begin).size;
    bool has_letter = false;
    std::int32_t node = roots_[static_cast<unsigned char>(piece[begin])];
    for (std::size_t end = begin + 1; node >= 0; ++end) {
      if (const std::int32_t id = token_of_node_[static_cast<std::size_t>(node)]; id >= 0) {
        offer(begin, end, scores_[static_cast<std::size_t>(id)] + before, id);
        has_letter = has_letter || end == letter_end;
      }
      if (end == piece.size()) break;
      const auto* edge = edges_.find(node, static_cast<unsigned char>(piece[end]));
      node = edge != nullptr ? edge->id : -1;
    }
    if (!has_letter) offer(begin, letter_end, unknown_score_ + before, unknown_id_);
    begin = letter_end;
  }
  return steps;
}

void UnigramEncoder::encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
                            std::vector<ByteRange>* ranges) const {
  if (piece.empty()) return;
  const std::vector<Step> steps = best_steps(piece);
  std::vector<ByteRange> tokens;  // from the last to the first; unknown ones in a row as one
  bool after_unknown = false;
  for (std::size_t end = piece.size(); end > 0; end = steps[end].begin) {
    const bool unknown = steps[end].id == unknown_id_;
    if (unknown && after_unknown) {
      tokens.back().begin = steps[end].begin;
    } else {
      tokens.push_back({steps[end].begin, end});
    }
    after_unknown = unknown;
  }
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) {
    const std::int32_t id = steps[token->end].id;
    if (id == unknown_id_) {
      put_unknown(piece.substr(token->begin, token->end - token->begin), base + token->begin, ids, ranges);
      continue;
    }
    ids.push_back(id);
    if (ranges != nullptr) ranges->push_back({base + token->begin, base + token->end});
  }
}

void UnigramEncoder::put_unknown(std::string_view text, std::uint64_t base, std::vector<std::int32_t>& ids,
                                 std::vector<ByteRange>* ranges) const {
  // Together they may spell a token, if only the unknown one.
  const auto known = vocabulary_->find(text);
  const bool is_token = known && *known < std::ssize(scores_);
  const auto byte_id = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (!is_token && byte_fallback_ &&
      std::all_of(text.begin(), text.end(), [&](char c) { return byte_id(c) >= 0; })) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      ids.push_back(byte_id(text[i]));
      if (ranges != nullptr) ranges->push_back({base + i, base + i + 1});
    }
    return;
  }
  ids.push_back(is_token ? *known : unknown_id_);
  if (ranges != nullptr) ranges->push_back({base, base + text.size()});
}

}  // namespace lazytrain
