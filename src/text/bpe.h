// Byte-pair encoding: a piece of text starts as its bytes or code points, and the pair of neighbours that
// stands first in the list of merges is joined until none is left (Sennrich, Haddow, Birch 2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/origin_map.h"
#include "text/pair_table.h"
#include "text/vocabulary.h"

namespace lazytrain {

class BytePairEncoder {
 public:
  // `model` is the value of `model` in tokenizer.json; its vocabulary is added to `vocabulary`, which must
  // outlive the encoder. `byte_level`: text starts as bytes, and tokens are spelled in their alphabet; else
  // as code points. Throws Error(model_file), naming `where`, for what is malformed or not supported.
  BytePairEncoder(const nlohmann::json& model, bool byte_level, Vocabulary& vocabulary,
                  const std::string& where);
  // To be called once after all tokens are in: finds the unknown token and the pieces that are one token.
  void finish(const std::string& where);

  // Appends the ids of a piece and, where `ranges` is not null, the bytes of each, shifted by `base`. A byte
  // or code point that no token spells becomes the tokens of its bytes (`byte_fallback`), else the unknown
  // token, or nothing where there is none. O(n log n). Thread-safe.
  void encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges) const;

 private:
  struct Symbol {
    std::int32_t id = 0;
    std::uint64_t begin = 0, end = 0;
  };
  void read_vocabulary(const nlohmann::json& model, const std::string& where);
  // Returns the ids of what they make.
  std::vector<std::int32_t> read_merges(const nlohmann::json& model, const std::string& where);
  void find_letters();
  void find_seams(std::span<const std::int32_t> joined);
  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  void start_bytes(std::string_view piece, std::vector<Symbol>& symbols) const;
  void start_letters(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge(std::vector<Symbol>& symbols) const;
  void merge_short(std::vector<Symbol>& symbols) const;
  void merge_long(std::vector<Symbol>& symbols) const;
  void encode_part(std::string_view part, std::uint64_t base, std::vector<std::int32_t>& ids,
                   std::vector<ByteRange>* ranges) const;
  [[nodiscard]] std::int32_t letter_id(char32_t letter) const;
  // What a piece has to be to be the token; nothing for tokens that no piece can be.
  [[nodiscard]] std::optional<std::string_view> text_of(std::int32_t id) const;
  [[nodiscard]] std::int32_t find_whole(std::string_view piece) const;
  void remember_whole(std::int32_t id);

  Vocabulary* vocabulary_;
  bool byte_level_;
  PairTable merges_;
  std::vector<std::int32_t>
      byte_ids_;  // 256: a byte's token, by byte_fallback or the alphabet of bytes; -1: none
  std::vector<std::int32_t> ascii_ids_;                    // 128, of code points; -1: none
  std::unordered_map<char32_t, std::int32_t> letter_ids_;  // the others
  bool has_seams_ = false;
  PairTable inside_;  // pairs of code points that stand beside each other in what some merge makes
  std::string unknown_;
  std::int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false, ignore_merges_ = false, byte_fallback_ = false;
  std::int64_t model_size_ = 0;      // ids below it may be tokens of the model
  std::size_t longest_ = 0;          // bytes of the longest spelling
  std::vector<std::int32_t> whole_;  // open addressing by the bytes; -1: free
};

}  // namespace lazytrain
