// Cuts text into the pieces that BPE merges within: the `pre_tokenizer` of tokenizer.json (Split, Digits,
// ByteLevel and sequences of them). The mapping of bytes to code points is left to the vocabulary.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/unicode.h"

namespace lazytrain {

// What becomes of the matches of a Split: names and meaning are those of Hugging Face `tokenizers`.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Joins or drops parts as the behaviour says; appends the non-empty pieces, shifted by `base`.
void apply_behavior(const std::vector<Regex::Part>& parts, SplitBehavior behavior, std::uint64_t base,
                    std::vector<ByteRange>& pieces);

class PreTokenizer {
 public:
  // `document` is the value of the key; `where` names the file. Throws Error(model_file).
  PreTokenizer(const nlohmann::json& document, const std::string& where);

  // The pieces of `text` (valid UTF-8, normalised), as ranges of the text. Where a space has to be put in
  // front
  // (`add_prefix_space`) the text is rewritten into `storage` and the ranges are of that, with `origin`
  // filled; `allow_prefix` false leaves the text alone. Returns the text that the ranges mean.
  std::string_view split(std::string_view text, bool allow_prefix, std::string& storage, OriginMap* origin,
                         std::vector<ByteRange>& pieces) const;

 private:
  struct Split {
    Regex regex;
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false;
  };
  struct Digits {
    bool individual = false;
  };
  using Stage = std::variant<Split, Digits>;

  void add(const nlohmann::json& document, const std::string& where);
  static void run(const Stage& stage, std::string_view subject, std::vector<ByteRange>& pieces);

  std::vector<Stage> before_prefix_, after_prefix_;  // a prefix space is put in between
  bool byte_level_ = false;
  bool add_prefix_space_ = false;
};

}  // namespace lazytrain
