// Byte-level byte-pair encoding: a piece of text starts as its bytes, and the pair of neighbours that stands
// first in the list of merges is joined until none is left (Sennrich, Haddow, Birch 2016).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"
#include "text/vocabulary.h"

namespace lazytrain {

// Merges by the pair of ids, in one flat table (open addressing, linear probing).
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = 0;
    std::int32_t id = 0;  // of the joined token
  };
  void reserve(std::size_t merges);
  // A pair given twice keeps the later rank, as Hugging Face `tokenizers` does.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  // Null where the pair is never joined.
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const;

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const;
  std::vector<Slot> slots_;
  std::size_t used_ = 0;
};

class BytePairEncoder {
 public:
  // `model` is the value of `model` in tokenizer.json; its vocabulary is added to `vocabulary`, which must
  // outlive the encoder. Throws Error(model_file), naming `where`, for what is malformed or not supported.
  BytePairEncoder(const nlohmann::json& model, Vocabulary& vocabulary, const std::string& where);
  // To be called once after all tokens are in: finds the unknown token and the pieces that are one token.
  void finish(const std::string& where);

  // Appends the ids of a piece and, where `ranges` is not null, the bytes of each, shifted by `base`. A byte
  // that no token spells becomes the unknown token, or nothing where there is none. O(n log n). Thread-safe.
  void encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges) const;

 private:
  struct Symbol {
    std::int32_t id = 0;
    std::uint64_t begin = 0, end = 0;
  };
  void read_vocabulary(const nlohmann::json& model, const std::string& where);
  void read_merges(const nlohmann::json& model, const std::string& where);
  void start(std::string_view piece, std::vector<Symbol>& symbols) const;
  void merge_short(std::vector<Symbol>& symbols) const;
  void merge_long(std::vector<Symbol>& symbols) const;
  [[nodiscard]] std::int32_t find_whole(std::string_view piece) const;
  void remember_whole(std::int32_t id);

  Vocabulary* vocabulary_;
  MergeTable merges_;
  std::vector<std::int32_t> byte_ids_;  // 256; -1: no token spells this byte
  std::string unknown_;
  std::int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false, ignore_merges_ = false;
  std::int64_t model_size_ = 0;      // ids below it may be tokens of the model
  std::vector<std::int32_t> whole_;  // open addressing by the bytes; -1: free
};

}  // namespace lazytrain
