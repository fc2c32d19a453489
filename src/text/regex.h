// The regular expressions of tokenizer.json. They are written for Oniguruma in Ruby syntax and Unicode 16;
// this runs them on PCRE2 (just-in-time compiled) and keeps their meaning: what would mean something else is
// translated, or refused by name.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// The same expression in PCRE2's syntax. Throws Error(model_file), naming `where`, for a construct whose
// meaning differs and that has no translation here.
std::string to_pcre2_syntax(std::string_view pattern, const std::string& where);

class Regex {
 public:
  // `where` names the file and key in errors. Throws Error(model_file) where the pattern is not valid.
  Regex(std::string_view pattern, const std::string& where);
  // Matches exactly this text.
  static Regex literal(std::string_view text, const std::string& where);

  struct Part {
    std::size_t begin = 0, end = 0;
    bool match = false;
  };
  // Cuts `subject` (valid UTF-8, see with_stand_ins) into matches and the text between them, in order; the
  // parts cover it. A match may be empty, but not right behind another match. Nothing outside of `subject` is
  // looked at. Appends to `parts`. Thread-safe. Throws Error(model_file) where matching exceeds its limits.
  void split(std::string_view subject, std::vector<Part>& parts) const;

 private:
  struct Code;
  Regex(std::string_view pattern, unsigned options, const std::string& where);
  std::shared_ptr<const Code> code_;
};

}  // namespace lazytrain
