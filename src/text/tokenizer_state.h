// What a loaded tokenizer consists of; shared by loading and use, and by nothing outside of this room.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace lazytrain {

// The ids around a text, from the post-processor.
struct TextFrame {
  std::vector<std::int32_t> before, after;
};

// Named tokens of a model folder.
struct RoleTokens {
  std::optional<std::int32_t> end, begin, padding;
  std::vector<std::int32_t> stops;
};

// Reads tokenizer_config.json, generation_config.json and config.json, each where it exists.
RoleTokens read_role_tokens(const std::filesystem::path& folder, const Vocabulary& vocabulary);

struct Tokenizer::State {
  State(const nlohmann::json& document, const std::string& source);

  std::string where;
  Vocabulary vocabulary;
  bool nfc = false;
  PreTokenizer pre_tokenizer;
  BytePairEncoder bpe;
  AddedTokenMatcher as_given, normalized;
  std::unordered_set<std::int32_t> special;
  TextFrame frame;
  RoleTokens roles;

  void encode(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges) const;

 private:
  void read_added_tokens(const nlohmann::json& document);
  // `base`: where the section begins in the text that was given.
  void encode_section(std::string_view text, std::uint64_t base, const EncodeOptions& options,
                      bool allow_prefix, std::vector<std::int32_t>& ids,
                      std::vector<ByteRange>* ranges) const;
  void encode_pieces(std::string_view text, bool allow_prefix, std::vector<std::int32_t>& ids,
                     std::vector<ByteRange>* ranges) const;
};

}  // namespace lazytrain
