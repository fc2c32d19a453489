// Unigram models: of all ways to cut a piece of text into tokens, the one whose scores have the largest sum
// (Viterbi; Kudo 2018), with the tie rules of Hugging Face `tokenizers`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/origin_map.h"
#include "text/pair_table.h"
#include "text/vocabulary.h"

namespace lazytrain {

class UnigramEncoder {
 public:
  // `model` is the value of `model` in tokenizer.json; its vocabulary is added to `vocabulary`, which must
  // outlive the encoder. Throws Error(model_file), naming `where`, for what is malformed or not supported.
  UnigramEncoder(const nlohmann::json& model, Vocabulary& vocabulary, const std::string& where);

  // Appends the ids of a piece and, where `ranges` is not null, the bytes of each, shifted by `base`. What no
  // token spells becomes, as much as stands together, the tokens of its bytes (`byte_fallback`) or one
  // unknown token. Linear in the piece. Thread-safe.
  void encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges) const;

 private:
  // The best way to reach an offset.
  struct Step {
    double score = 0;
    std::int32_t id = -1;  // of its last token; -1: not reached
    std::size_t begin = 0;
  };
  void read_vocabulary(const nlohmann::json& vocab, const std::string& where);
  void build_trie();
  [[nodiscard]] std::vector<Step> best_steps(std::string_view piece) const;
  void put_unknown(std::string_view text, std::uint64_t base, std::vector<std::int32_t>& ids,
                   std::vector<ByteRange>* ranges) const;

  Vocabulary* vocabulary_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::int32_t unknown_id_ = -1;
  bool byte_fallback_ = false;
  std::array<std::int32_t, 256> byte_ids_{};
  std::array<std::int32_t, 256> roots_{};  // nodes of one byte; -1: none
  PairTable edges_;                        // (node, byte) -> node
  std::vector<std::int32_t> token_of_node_;
};

}  // namespace lazytrain
