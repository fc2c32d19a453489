// What a loaded tokenizer consists of; shared by loading and use, and by nothing outside of this room.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/token_model.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace lazytrain {

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
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  TokenModel model;
  Decoder decoder;
  AddedTokenMatcher as_given, normalized;
  std::unordered_set<std::int32_t> special;
  // Added tokens that the normalizer rewrites are decoded as it leaves them.
  std::unordered_map<std::int32_t, std::string> written;
  TextFrame frame;
  RoleTokens roles;

  void encode(std::string_view text, const EncodeOptions& options, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges) const;

 private:
  void read_added_tokens(const nlohmann::json& document);
  // `base`: where the section begins in the text that was given.
  void encode_section(std::string_view text, std::uint64_t base, const EncodeOptions& options,
                      std::vector<std::int32_t>& ids, std::vector<ByteRange>* ranges) const;
  void encode_pieces(std::string_view text, const PrefixRule& rule, std::vector<std::int32_t>& ids,
                     std::vector<ByteRange>* ranges) const;
};

}  // namespace lazytrain
