#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

#include "formats/text_checks.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool begins_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string_view without_space_at_end(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_white_space(decode_utf8(text, begin).value)) break;
    text = text.substr(0, begin);
  }
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) outside();
    add(Token::Kind::end, "", source_.size());
    return std::move(tokens_);
  }

 private:
  void add(Token::Kind kind, std::string text, std::size_t offset) {
    tokens_.push_back({kind, std::move(text), offset});
  }
  [[nodiscard]] bool here(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  [[nodiscard]] std::size_t skip_space(std::size_t at) const {
    while (at < source_.size() && is_space(source_[at])) ++at;
    return at;
  }

  // Data up to the next tag, and the beginning of the tag.
  void outside() {
    std::size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == kNone || open + 1 >= source_.size()) {
        open = source_.size();
        break;
      }
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (open == source_.size()) {
      data(source_.substr(at_));
      at_ = open;
      return;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const bool has_sign = sign == '-' || sign == '+';
    data(before_tag(source_.substr(at_, open - at_), kind, has_sign ? sign : '\0'));
    at_ = open + (has_sign ? 3 : 2);
    if (kind == '#') return comment(open);
    if (kind == '%' && raw_begins()) return raw(open);
    add(kind == '{' ? Token::Kind::print_begin : Token::Kind::block_begin, "", open);
    inside(open, kind == '{' ? "}}" : "%}");
  }

  void data(std::string_view text) {
    if (!text.empty())
      add(Token::Kind::data, std::string(text), static_cast<std::size_t>(text.data() - source_.data()));
  }

  // What a tag leaves of the data before it. It is at the start of a line where only blanks are before it.
  [[nodiscard]] std::string_view before_tag(std::string_view text, char kind, char sign) const {
    if (sign == '-') return without_space_at_end(text);
    if (sign == '+' || kind == '{') return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == kNone && !line_starts_) return text;
    const std::size_t begin = newline == kNone ? 0 : newline + 1;
    const std::string_view last_line = text.substr(begin);
    return without_space_at_end(last_line).empty() ? text.substr(0, begin) : text;
  }

  // Behind the end of a tag: `sign` is what stands before it.
  void after_tag(char sign, bool trims) {
    if (sign == '-') {
      at_ = skip_space(at_);
    } else if (trims && sign != '+' && here("\n")) {
      ++at_;
    }
    line_starts_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  void comment(std::size_t open) {
    const std::size_t close = source_.find("#}", at_);
    if (close == kNone) throw SyntaxFault{open, "the comment is never closed with #}"};
    const char sign = close > at_ ? source_[close - 1] : '\0';
    at_ = close + 2;
    after_tag(sign, true);
  }

  [[nodiscard]] bool raw_begins() const { return word_tag(at_, "raw").has_value(); }

  struct WordTag {
    std::size_t end = 0;
    char sign = '\0';
  };
  // "word %}" with the white space that may be there.
  [[nodiscard]] std::optional<WordTag> word_tag(std::size_t at, std::string_view word) const {
    at = skip_space(at);
    if (!source_.substr(at).starts_with(word)) return std::nullopt;
    at = skip_space(at + word.size());
    WordTag tag;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) tag.sign = source_[at++];
    if (!source_.substr(at).starts_with("%}")) return std::nullopt;
    tag.end = at + 2;
    return tag;
  }

  void raw(std::size_t open) {
    const WordTag begin = *word_tag(at_, "raw");
    at_ = begin.end;
    after_tag(begin.sign, false);
    for (std::size_t close = at_;; ++close) {
      close = source_.find("{%", close);
      if (close == kNone) throw SyntaxFault{open, "the raw block is never closed with {% endraw %}"};
      const char sign = close + 2 < source_.size() ? source_[close + 2] : '\0';
      const bool has_sign = sign == '-' || sign == '+';
      const auto end = word_tag(close + (has_sign ? 3 : 2), "endraw");
      if (!end) continue;
      data(before_tag(source_.substr(at_, close - at_), '%', has_sign ? sign : '\0'));
      at_ = end->end;
      return after_tag(end->sign, true);
    }
  }

  // The tokens of one tag, up to its end.
  void inside(std::size_t open, std::string_view close) {
    std::vector<char> brackets;
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= source_.size())
        throw SyntaxFault{open, fmt::format("the tag is never closed with {}", close)};
      if (brackets.empty()) {
        const char sign = source_[at_];
        const bool has_sign =
            (sign == '-' || (sign == '+' && close == "%}")) && source_.substr(at_ + 1).starts_with(close);
        if (has_sign || here(close)) {
          add(close == "}}" ? Token::Kind::print_end : Token::Kind::block_end, "", at_);
          at_ += has_sign ? 3 : 2;
          return after_tag(has_sign ? sign : '\0', close == "%}");
        }
      }
      token(brackets);
    }
  }

  void token(std::vector<char>& brackets) {
    const char c = source_[at_];
    if (begins_name(c)) return name();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return quoted();
    constexpr std::array<std::string_view, 24> kSigns{"**", "//", "==", "!=", "<=", ">=", "+", "-",
                                                      "*",  "/",  "%",  "~",  "(",  ")",  "[", "]",
                                                      "{",  "}",  "<",  ">",  "=",  ".",  ":", "|"};
    const auto* sign = std::find_if(kSigns.begin(), kSigns.end(), [&](auto text) { return here(text); });
    if (c == ',') {
      add(Token::Kind::sign, ",", at_++);
      return;
    }
    if (sign == kSigns.end())
      throw SyntaxFault{at_, fmt::format("{} has no meaning here", in_quotes(source_.substr(at_, 1)))};
    if (c == '(' || c == '[' || c == '{') brackets.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        throw SyntaxFault{at_, fmt::format("'{}' closes nothing that is open", c)};
      brackets.pop_back();
    }
    add(Token::Kind::sign, std::string(*sign), at_);
    at_ += sign->size();
  }

  void name() {
    const std::size_t begin = at_;
    while (at_ < source_.size() && (begins_name(source_[at_]) || is_digit(source_[at_]))) ++at_;
    add(Token::Kind::name, std::string(source_.substr(begin, at_ - begin)), begin);
  }

  void digits(std::string& text) {
    while (at_ < source_.size() && (is_digit(source_[at_]) || source_[at_] == '_')) {
      if (source_[at_] != '_') text += source_[at_];
      ++at_;
    }
  }

  void number() {
    const std::size_t begin = at_;
    if (source_[at_] == '0' && at_ + 1 < source_.size()) {
      const char base = static_cast<char>(std::tolower(static_cast<unsigned char>(source_[at_ + 1])));
      if (base == 'x' || base == 'o' || base == 'b')
        return other_base(base == 'x' ? 16 : base == 'o' ? 8 : 2);
    }
    std::string text;
    digits(text);
    bool real = false;
    if (at_ + 1 < source_.size() && source_[at_] == '.' && is_digit(source_[at_ + 1])) {
      real = true;
      text += source_[at_++];
      digits(text);
    }
    std::size_t exponent = at_;
    if (exponent < source_.size() && (source_[exponent] == 'e' || source_[exponent] == 'E')) {
      ++exponent;
      if (exponent < source_.size() && (source_[exponent] == '-' || source_[exponent] == '+')) ++exponent;
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        real = true;
        text += source_.substr(at_, exponent - at_);
        at_ = exponent;
        digits(text);
      }
    }
    add(real ? Token::Kind::real : Token::Kind::integer, std::move(text), begin);
  }

  void other_base(int base) {
    const std::size_t begin = at_;
    at_ += 2;
    std::string text;
    for (; at_ < source_.size() &&
           (std::isalnum(static_cast<unsigned char>(source_[at_])) != 0 || source_[at_] == '_');
         ++at_) {
      if (source_[at_] != '_') text += source_[at_];
    }
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      throw SyntaxFault{begin, "the number cannot be read"};
    add(Token::Kind::integer, std::to_string(value), begin);
  }

  void quoted() {
    const std::size_t begin = at_;
    const char quote = source_[at_++];
    std::string text;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] == '\\' && at_ + 1 < source_.size()) {
        escape(text);
      } else {
        text += source_[at_++];
      }
    }
    if (at_ >= source_.size()) throw SyntaxFault{begin, "the text is never closed with its quote"};
    ++at_;
    add(Token::Kind::text, std::move(text), begin);
  }

  // As in Python; a backslash before anything else stays.
  void escape(std::string& text) {
    const char c = source_[at_ + 1];
    constexpr std::string_view kNames = "abfnrtv\\'\"\n", kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (const std::size_t found = kNames.find(c); found != kNone) {
      if (c != '\n') text += kMeanings[found];
      at_ += 2;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      code(text, at_ + 2, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
    } else if (c >= '0' && c <= '7') {
      std::size_t length = 1;
      while (length < 3 && at_ + 1 + length < source_.size() && source_[at_ + 1 + length] >= '0' &&
             source_[at_ + 1 + length] <= '7')
        ++length;
      code(text, at_ + 1, length, 8);
    } else {
      text += '\\';
      ++at_;
    }
  }

  void code(std::string& text, std::size_t from, std::size_t length, int base) {
    const std::string_view part = source_.substr(std::min(from, source_.size()), length);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value, base);
    const bool whole = error == std::errc() && part.size() == length && end == part.data() + part.size();
    if (!whole || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
      throw SyntaxFault{at_, "the escape in the text names no character"};
    append_utf8(text, value);
    at_ = from + length;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string normal_source(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back();
  return result;
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace lazytrain::jinja
