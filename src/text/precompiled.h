// sentencepiece's compiled table of replacements (`Precompiled` in tokenizer.json): a trie in a double array
// (Darts) from strings to where their replacements begin in a text of zero-ended strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/origin_map.h"

namespace lazytrain {

class PrecompiledMap {
 public:
  // `base64` is the value of `precompiled_charsmap`. Throws Error(model_file), naming `where`, where it is
  // damaged.
  PrecompiledMap(std::string_view base64, const std::string& where);

  // The text with its grapheme clusters of less than six bytes replaced, and the code points of all others,
  // as the reference library does it: the shortest entry that a cluster begins with stands for all of it.
  // Nothing where nothing is replaced.
  [[nodiscard]] std::optional<std::string> apply(std::string_view text, OriginMap* origin) const;

 private:
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const;

  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace lazytrain
