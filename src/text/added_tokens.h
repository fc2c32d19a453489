// Added tokens: strings that are cut out of a text before it is pre-tokenised, such as <|im_start|>.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/origin_map.h"

namespace lazytrain {

// One entry of `added_tokens` in tokenizer.json. Flags as in Hugging Face `tokenizers`.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in the normalised text instead of the text as given
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // ... and behind it
  bool single_word = false;  // only where no word character touches it
};

// Finds the tokens of one list in a text, leftmost first and of several at one place the longest.
class AddedTokenMatcher {
 public:
  // Empty contents are ignored.
  void add(const AddedToken& token);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  struct Section {
    std::size_t begin = 0, end = 0;
    std::int32_t id = -1;  // -1: plain text
  };
  // Ranges of a text in which no special token is looked for. Their offsets count from `base` bytes before
  // the text, or before what it was rewritten from, if there is an `origin`.
  struct Plain {
    std::span<const ByteRange> ranges = {};
    std::uint64_t base = 0;
    const OriginMap* origin = nullptr;
  };
  // The sections cover the text. With `parse_special` false, tokens with the flag `special` stay plain text;
  // so do those that touch a range of `plain`.
  [[nodiscard]] std::vector<Section> split(std::string_view text, bool parse_special,
                                           const Plain& plain) const;

 private:
  struct Found {
    std::int32_t token = -1;  // index into tokens_
    std::size_t length = 0;
  };
  [[nodiscard]] Found longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node << 8 | byte) -> node
  std::vector<std::int32_t> token_of_node_ = {-1};
  std::array<bool, 256> starts_{};
};

}  // namespace lazytrain
