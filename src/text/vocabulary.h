// Token ids and what they spell: the model's vocabulary and, on top of it, added tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lazytrain {

class Vocabulary {
 public:
  // Adds a token as tokenizer.json spells it. Throws Error(model_file), naming `where`, where the id is
  // negative or absurdly large, or the id or the spelling is taken by another token.
  void add(std::string spelling, std::int64_t id, const std::string& where);

  [[nodiscard]] std::optional<std::int32_t> find(std::string_view spelling) const;
  // The spelling of an id; null where no token has it.
  [[nodiscard]] const std::string* spelling(std::int32_t id) const;
  // The bytes that decoding an id gives: those its letters stand for, or its spelling as it is where a letter
  // is outside of the byte-level alphabet. Empty where no token has the id.
  [[nodiscard]] std::string_view bytes(std::int32_t id) const;
  // Asks for the bytes of every token anew, by id and spelling.
  void respell(const std::function<std::string(std::int32_t, const std::string&)>& bytes_of);
  // One above the largest id.
  [[nodiscard]] std::int64_t size() const { return std::ssize(tokens_); }

 private:
  struct Token {
    const std::string* spelling = nullptr;  // a key of ids_; null: a gap in the ids
    std::string bytes;
  };
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Token> tokens_;
};

}  // namespace lazytrain
