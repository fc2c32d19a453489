// Rewrites text before it is cut into pieces: the `normalizer` of tokenizer.json. The steps have the names
// and the meaning of Hugging Face `tokenizers`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/normal_form.h"
#include "text/origin_map.h"
#include "text/precompiled.h"
#include "text/regex.h"

namespace lazytrain {

// A string, or a regular expression, to be replaced; also a step of decoders.
struct Replacement {
  std::string literal;  // looked for where there is no `regex`
  std::optional<Regex> regex;
  std::string content;

  // `document` has the keys `pattern` and `content`. Throws Error(model_file), naming `where`.
  static Replacement read(const nlohmann::json& document, const std::string& where);
  // The text with every match replaced, or nothing where none is in it.
  [[nodiscard]] std::optional<std::string> apply(std::string_view text, OriginMap* origin) const;
};

class Normalizer {
 public:
  // `document` is the value of the key, null for none; `where` names file and key. Throws Error(model_file)
  // for what is malformed or not supported.
  Normalizer(const nlohmann::json& document, const std::string& where);

  // The rewritten text, or nothing where the text (valid UTF-8) stays as it is. `origin`, if not null, is
  // filled only when there is a result. `allow_prefix` false leaves out what Prepend would put in front.
  // Thread-safe.
  [[nodiscard]] std::optional<std::string> apply(std::string_view text, bool allow_prefix,
                                                 OriginMap* origin) const;

 private:
  struct Lowercase {};
  struct StripAccents {};
  struct Nmt {};
  struct Strip {
    bool left = true, right = true;
  };
  struct Prepend {
    std::string text;
  };
  using Step =
      std::variant<NormalForm, Lowercase, StripAccents, Nmt, Strip, Prepend, Replacement, PrecompiledMap>;

  void add(const nlohmann::json& document, const std::string& where);
  static std::optional<std::string> run(const Step& step, std::string_view text, bool allow_prefix,
                                        OriginMap* origin);

  std::vector<Step> steps_;
};

}  // namespace lazytrain
