// Ruby syntax, as Oniguruma reads it, to PCRE2's. Where both agree the text is copied.
#include <algorithm>
#include <array>
#include <cctype>

#include "core/error.h"
#include "text/regex.h"

namespace lazytrain {
namespace {

// Oniguruma's \w; PCRE2 10.42 leaves out the marks and has all of N.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexDigit = "0-9a-fA-F";

// Scripts in lower case: \p{Han} is the script here, the script extensions in PCRE2.
constexpr std::array<std::string_view, 16> kScripts{
    "han",    "hiragana", "katakana",   "hangul",  "latin",    "greek", "cyrillic", "arabic",
    "hebrew", "thai",     "devanagari", "bengali", "bopomofo", "tamil", "armenian", "georgian"};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& where) : in_(pattern), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\') {
        escape(false);
      } else if (in_[at_] == '[') {
        character_class();
      } else if (in_[at_] == '(') {
        group();
      } else if (in_[at_] == '{') {
        interval();
      } else {
        out_ += in_[at_++];
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ExitCode::model_file,
         "{}: the regular expression uses {} at byte {}, which is not supported; choose a model with another "
         "tokenizer",
         where_, what, at_);
  }
  [[nodiscard]] bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void copy(std::size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void escape(bool in_class) {
    if (at_ + 1 >= in_.size()) return copy(1);  // PCRE2 reports it
    const char c = in_[at_ + 1];
    const auto put_set = [&](std::string_view set, bool negated) {
      if (negated && in_class) refuse(fmt::format("'\\{}' inside a character class", c));
      at_ += 2;
      if (in_class) {
        out_ += set;
      } else {
        out_ += fmt::format("[{}{}]", negated ? "^" : "", set);
      }
    };
    switch (c) {
      case 'w':
      case 'W':
        return put_set(kWord, c == 'W');
      case 'h':
      case 'H':
        return put_set(kHexDigit, c == 'H');
      case 'b':
      case 'B': {
        if (in_class) return copy(2);
        at_ += 2;
        const bool inside = c == 'B';
        out_ += inside ? fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWord)
                       : fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWord);
        return;
      }
      case 'p':
      case 'P':
        return property();
      default:
        if (std::string_view("QEKGCONyYugkXR123456789").find(c) != std::string_view::npos)
          refuse(fmt::format("'\\{}'", c));
        copy(2);
    }
  }

  void property() {
    const std::size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos) return copy(2);
    std::string name(in_.substr(at_ + 3, close - at_ - 3));
    const bool caret = name.starts_with('^');
    if (caret) name.erase(0, 1);
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const bool script = std::find(kScripts.begin(), kScripts.end(), lower) != kScripts.end();
    out_ += fmt::format("\\{}{{{}{}{}}}", in_[at_ + 1], caret ? "^" : "", script ? "sc:" : "", name);
    at_ = close + 1;
  }

  void character_class() {
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) refuse("']' as the first of a character class");
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(true);
      } else if (next_is("&&")) {
        refuse("an intersection of character classes ('&&')");
      } else if (next_is("[:punct:]")) {
        at_ += std::string_view("[:punct:]").size();
        out_ += R"(\p{P}\p{S})";
      } else if (next_is("[:")) {
        const std::size_t close = in_.find(":]", at_);
        if (close == std::string_view::npos) refuse("a nested character class");
        copy(close + 2 - at_);
      } else if (in_[at_] == '[') {
        refuse("a nested character class");
      } else {
        copy(1);
      }
    }
    if (at_ < in_.size()) copy(1);
  }

  void group() {
    if (!next_is("(?")) {
      if (next_is("(*")) refuse("'(*'");
      return copy(1);
    }
    for (const std::string_view plain : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"})
      if (next_is(plain)) return copy(plain.size());
    // Options: in Ruby m lets the dot match a newline, which is s in PCRE2.
    const std::size_t begin = at_;
    std::string options = "(?";
    for (at_ += 2; at_ < in_.size(); ++at_) {
      const char c = in_[at_];
      if (c == 'i' || c == '-') {
        options += c;
      } else if (c == 'm') {
        options += 's';
      } else if (c == ':' || (c == ')' && begin == 0)) {
        ++at_;
        out_ += options + c;
        return;
      } else {
        break;
      }
    }
    at_ = begin;
    refuse(fmt::format("the group '{}'", in_.substr(begin, 4)));
  }

  void interval() {
    const std::size_t close = in_.find('}', at_);
    if (close == std::string_view::npos) return copy(1);
    const std::string_view body = in_.substr(at_ + 1, close - at_ - 1);
    const bool quantifier = !body.empty() && body != "," && std::all_of(body.begin(), body.end(), [](char c) {
      return c == ',' || (c >= '0' && c <= '9');
    }) && std::count(body.begin(), body.end(), ',') <= 1;
    if (!quantifier) return copy(1);
    if (body.starts_with(',')) {  // {,n} is {0,n}
      out_ += "{0";
      at_ += 1;
    }
    copy(close + 1 - at_);
    if (next_is("+")) refuse("'+' after an interval");
  }

  std::string_view in_;
  const std::string& where_;
  std::string out_;
  std::size_t at_ = 0;
};

}  // namespace

std::string to_pcre2_syntax(std::string_view pattern, const std::string& where) {
  return Translator(pattern, where).run();
}

}  // namespace lazytrain
