// Cuts text into the pieces that the model works within: the `pre_tokenizer` of tokenizer.json (Split,
// Digits, WhitespaceSplit, Metaspace, ByteLevel and sequences of them). ByteLevel's mapping of bytes to code
// points is left to the vocabulary.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/metaspace.h"
#include "text/origin_map.h"
#include "text/regex.h"

namespace lazytrain {

// What becomes of the matches of a Split: names and meaning are those of Hugging Face `tokenizers`.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Joins or drops parts as the behaviour says; appends the non-empty pieces, shifted by `base`.
void apply_behavior(const std::vector<Regex::Part>& parts, SplitBehavior behavior, std::uint64_t base,
                    std::vector<ByteRange>& pieces);

// Where spaces may be put in front of text.
struct PrefixRule {
  bool allowed = true;  // false: nothing is put in front of anything
  // Pieces that begin at one of so many bytes are the first of the whole text.
  std::uint64_t first_until = 1;
};

class PreTokenizer {
 public:
  // `document` is the value of the key, null for none; `where` names the file. Throws Error(model_file).
  PreTokenizer(const nlohmann::json& document, const std::string& where);

  // Whether pieces are taken as bytes (ByteLevel), not as code points.
  [[nodiscard]] bool byte_level() const { return byte_level_; }
  // Whether PrefixRule::first_until matters.
  [[nodiscard]] bool prefixes_first() const;

  // The pieces of `text` (valid UTF-8, normalised), as ranges of the text. Where a step writes the text anew
  // (ByteLevel with `add_prefix_space`, Metaspace) the result is in `storage` and the ranges are of that,
  // with `origin` filled. Returns the text that the ranges mean.
  std::string_view split(std::string_view text, const PrefixRule& rule, std::string& storage,
                         OriginMap* origin, std::vector<ByteRange>& pieces) const;

 private:
  struct Split {
    Regex regex;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;
  };
  struct Digits {
    bool individual = false;
  };
  struct WhitespaceSplit {};
  struct PrefixSpace {};  // of ByteLevel
  using Stage = std::variant<Split, Digits, WhitespaceSplit, PrefixSpace, MetaspaceSettings>;

  void add(const nlohmann::json& document, const std::string& where);
  static void cut(const Stage& stage, std::string_view subject, std::vector<ByteRange>& pieces);

  std::vector<Stage> stages_;
  bool byte_level_ = false;
};

}  // namespace lazytrain
