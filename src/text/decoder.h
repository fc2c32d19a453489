// Joins what tokens spell to text again: the `decoder` of tokenizer.json. The steps have the names and the
// meaning of Hugging Face `tokenizers`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/normalizer.h"

namespace lazytrain {

class Decoder {
 public:
  // `document` is the value of the key; `where` names file and key. `byte_level` says that tokens are spelled
  // in the alphabet of bytes; then ByteLevel is the only step. Throws Error(model_file).
  Decoder(const nlohmann::json& document, bool byte_level, const std::string& where);

  // The text of tokens as tokenizer.json spells them. Not for ByteLevel, which only puts bytes together.
  [[nodiscard]] std::string join(std::vector<std::string> tokens) const;
  // The bytes that a token stands for inside of a text; they need not be whole code points.
  [[nodiscard]] std::string bytes(const std::string& token) const;

 private:
  struct Metaspace {
    std::string replacement;
    bool drops_first = false;  // in the first token
  };
  struct ByteFallback {};
  struct Fuse {};
  struct Strip {
    std::string content;
    std::uint64_t start = 0, stop = 0;
  };
  using Step = std::variant<Metaspace, ByteFallback, Fuse, Strip, Replacement>;

  void add(const nlohmann::json& document, bool byte_level, const std::string& where);
  static void run(const Step& step, std::vector<std::string>& tokens);

  std::vector<Step> steps_;  // none: ByteLevel
};

}  // namespace lazytrain
