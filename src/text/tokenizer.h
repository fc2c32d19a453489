// The tokenizer of a Hugging Face model folder: text <-> token ids, exactly as the `tokenizers` library does
// it for what tokenizer.json may contain here: normalizers NFC, NFD, NFKC, NFKD, Lowercase, StripAccents,
// Strip, Nmt, Prepend, Replace, Precompiled; pre-tokenizers Split, Digits, WhitespaceSplit, Metaspace,
// ByteLevel; models BPE (of bytes, or of code points with or without byte_fallback) and Unigram; decoders
// ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip; post-processors ByteLevel and TemplateProcessing;
// and sequences of them. Anything else is refused by name when the file is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/origin_map.h"

namespace lazytrain {

struct EncodeOptions {
  // Put the tokens of the post-processor around the text (a leading <s>, for example).
  bool add_special_tokens = false;
  // False: text that spells a special token stays text. Added tokens that are not special are always found.
  bool parse_special = true;
  // True: the text goes on where another one, encoded before, ended; no prefix space is put in front of it.
  bool continues = false;
  // False: other tokens stand before the text, so that it gets no space which only the first text has
  // (Metaspace's `prepend_scheme` first).
  bool first = true;
  // Ranges of the text, in order and apart from each other, in which no special token is looked for, nor one
  // that reaches into them.
  std::span<const ByteRange> plain = {};
};

class Tokenizer {
 public:
  // `path` is a model folder or a tokenizer.json in one. Throws Error(model_file) where the file is missing,
  // malformed, or asks for something that is not supported.
  static Tokenizer load(const std::filesystem::path& path);
  // From the content of a tokenizer.json; `where` names it in errors. No end or padding tokens are known
  // then.
  static Tokenizer parse(std::string_view json, const std::string& where);

  // The ids of a text. Parts that are not UTF-8 count as U+FFFD. Bytes that no token spells become the
  // unknown token, or are left out where the tokenizer has none. Thread-safe.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, EncodeOptions options = {}) const;
  // Appends to `ids`, and to `ranges`, if not null, the bytes of `text` that each new token covers:
  // neighbours share bytes where normalisation or a code point of several tokens left no finer answer; empty
  // for a token that stands for no text.
  void encode(std::string_view text, EncodeOptions options, std::vector<std::int32_t>& ids,
              std::vector<ByteRange>* ranges = nullptr) const;

  // The text of ids: always valid UTF-8 (what is cut off inside a code point becomes U+FFFD). Ids that no
  // token has give nothing.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special = false) const;
  // The bytes of one token, which need not be whole code points.
  [[nodiscard]] std::string_view bytes(std::int32_t id) const;

  // One above the largest id; a model may have more rows.
  [[nodiscard]] std::int64_t vocabulary_size() const;
  [[nodiscard]] std::optional<std::int32_t> token_to_id(std::string_view token) const;
  // As tokenizer.json spells it ("Ġthe"); nothing where no token has the id.
  [[nodiscard]] std::optional<std::string> id_to_token(std::int32_t id) const;
  [[nodiscard]] bool is_special(std::int32_t id) const;

  // The token that ends a text: eos_token of tokenizer_config.json, else the first eos_token_id of
  // generation_config.json, else of config.json.
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const;
  // Every id at which generation stops: end_of_text and all that the three files name. Sorted.
  [[nodiscard]] const std::vector<std::int32_t>& stop_ids() const;
  [[nodiscard]] std::optional<std::int32_t> begin_of_text() const;
  [[nodiscard]] std::optional<std::int32_t> padding() const;
  // What the post-processor puts before a text.
  [[nodiscard]] std::span<const std::int32_t> prefix_ids() const;

  // Where the tokenizer came from, for messages.
  [[nodiscard]] const std::string& where() const;

 private:
  struct State;
  explicit Tokenizer(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace lazytrain
