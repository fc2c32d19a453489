#include "data/answer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lazytrain {
namespace {

__extension__ typedef __int128 Wide;  // "__extension__": -Wpedantic knows it is no standard type

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// The first line that is not blank.
std::string_view first_line(std::string_view text) {
  text = trimmed(text);
  return trimmed(text.substr(0, text.find('\n')));
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(what, at)) != std::string::npos; at = found + what.size()) {
    result.append(text, at, found - at).append(by);
  }
  text = result.append(text, at, std::string::npos);
}

// A number written -?$?1,234.50 or -?1/2, as matched at the start of a text.
struct Number {
  bool negative = false;
  std::string whole, fraction, denominator;  // digits; whole without separators or leading zeros
  std::size_t length = 0;                    // characters matched, 0 = none
};

void strip_leading_zeros(std::string& digits) {
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.empty()) digits = "0";
}

Number match_number(std::string_view text) {
  Number number;
  std::size_t i = 0;
  const auto digit_at = [&](std::size_t k) { return k < text.size() && is_digit(text[k]); };
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) number.negative = text[i++] == '-';
  if (i < text.size() && text[i] == '$') ++i;
  if (i < text.size() && text[i] == '-' && !number.negative) number.negative = true, ++i;  // "$-5"
  if (!digit_at(i) && !(i < text.size() && text[i] == '.' && digit_at(i + 1))) return {};
  // A comma counts as part of the number where a digit follows at once: "1,234", but not "72, altogether".
  for (; digit_at(i) || (i < text.size() && text[i] == ',' && digit_at(i + 1) && !number.whole.empty());
       ++i) {
    if (text[i] != ',') number.whole += text[i];
  }
  if (i < text.size() && text[i] == '.' && digit_at(i + 1)) {
    for (++i; digit_at(i); ++i) number.fraction += text[i];
  }
  if (i < text.size() && text[i] == '/' && digit_at(i + 1)) {
    for (++i; digit_at(i); ++i) number.denominator += text[i];
  }
  strip_leading_zeros(number.whole);
  while (!number.fraction.empty() && number.fraction.back() == '0') number.fraction.pop_back();
  number.length = i;
  return number;
}

struct Rational {
  Wide numerator = 0, denominator = 1;
};

// Appends decimal digits; false where the result would leave 62 bits, so that products of two stay exact.
bool append_digits(Wide& value, std::string_view digits) {
  for (const char c : digits) {
    value = value * 10 + (c - '0');
    if (value > (Wide{1} << 62)) return false;
  }
  return true;
}

std::optional<Rational> to_rational(const Number& number) {
  Rational r;
  if (number.length == 0 || !append_digits(r.numerator, number.whole) ||
      !append_digits(r.numerator, number.fraction) || number.fraction.size() > 18) {
    return std::nullopt;
  }
  Wide below = 1;
  if (!number.denominator.empty()) {
    below = 0;
    if (!append_digits(below, number.denominator) || below == 0) return std::nullopt;
  }
  for (std::size_t i = 0; i < number.fraction.size(); ++i) {
    below *= 10;
    if (below > (Wide{1} << 62)) return std::nullopt;
  }
  r.denominator = below;
  if (number.negative) r.numerator = -r.numerator;
  return r;
}

std::optional<Rational> to_rational(std::string_view text) {
  const Number number = match_number(text);
  return number.length == text.size() && !text.empty() ? to_rational(number) : std::nullopt;
}

std::string normal_form(const Number& number) {
  const bool zero = number.whole == "0" && number.fraction.empty();
  std::string text = number.negative && !zero ? "-" : "";
  if (!number.denominator.empty() && number.fraction.empty()) {
    if (const auto r = to_rational(number)) {
      Wide a = r->numerator < 0 ? -r->numerator : r->numerator;
      Wide b = r->denominator;
      while (b != 0) std::swap(a %= b, b);
      const auto divisor = a;  // greatest common divisor; the denominator is positive, so it is not zero
      const Wide top = (r->numerator < 0 ? -r->numerator : r->numerator) / divisor;
      const Wide bottom = r->denominator / divisor;
      text += std::to_string(static_cast<std::int64_t>(top));
      if (bottom != 1) text += '/' + std::to_string(static_cast<std::int64_t>(bottom));
      return text;
    }
  }
  text += number.whole;
  if (!number.fraction.empty()) text += '.' + number.fraction;
  if (!number.denominator.empty()) text += '/' + number.denominator;
  return text;
}

// The content of the braces that open at `open`, nullopt where they never close.
std::optional<std::string_view> braced(std::string_view text, std::size_t open) {
  if (open >= text.size() || text[open] != '{') return std::nullopt;
  std::int64_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth == 0) return text.substr(open + 1, i - open - 1);
  }
  return std::nullopt;
}

// LaTeX that only sets type disappears; \frac{a}{b} of plain numbers becomes a/b.
std::string without_latex(std::string_view line) {
  std::string text(line);
  for (const char* mark : {"\\!", "\\,", "\\;", "\\left", "\\right", "^\\circ", "^{\\circ}", "**"}) {
    replace_all(text, mark, "");
  }
  replace_all(text, "\\$", "$");
  replace_all(text, "\\%", "%");
  replace_all(text, "\xE2\x88\x92", "-");  // the typographic minus
  for (const char* name : {"\\dfrac", "\\tfrac"}) replace_all(text, name, "\\frac");
  for (const char* wrapper : {"\\boxed", "\\text", "\\mathrm", "\\mbox"}) {
    const std::string_view name(wrapper);
    if (const std::size_t at = text.find(name); at != std::string::npos) {
      if (const auto inside = braced(text, at + name.size())) {
        text = text.substr(0, at) + std::string(*inside) + text.substr(at + name.size() + inside->size() + 2);
      }
    }
  }
  if (const std::size_t at = text.find("\\frac"); at != std::string::npos) {
    const auto top = braced(text, at + 5);
    const auto bottom = top ? braced(text, at + 7 + top->size()) : std::nullopt;
    const auto digits = [](std::string_view t) {
      return !t.empty() && std::all_of(t.begin(), t.end(), is_digit);
    };
    if (bottom && digits(*top) && digits(*bottom)) {
      const std::size_t end = at + 9 + top->size() + bottom->size();
      text = text.substr(0, at) + std::string(*top) + '/' + std::string(*bottom) + text.substr(end);
    } else if (!top && at + 6 < text.size() && is_digit(text[at + 5]) && is_digit(text[at + 6])) {  // \frac12
      text = text.substr(0, at) + text[at + 5] + '/' + text[at + 6] + text.substr(at + 7);
    }
  }
  return text;
}

// Formulas, intervals, lists: not a number with words around it.
bool is_expression(std::string_view text) {
  if (text.find_first_of("\\^(){}[]+*<>|;:_=") != std::string_view::npos) return true;
  bool letters = false;
  std::int64_t numbers = 0;
  for (std::size_t i = 0; i < text.size();) {
    const Number number = is_digit(text[i]) ? match_number(text.substr(i)) : Number{};
    if (number.length == 0) {
      letters = letters || is_letter(text[i]) || static_cast<unsigned char>(text[i]) >= 0x80;
      ++i;
      continue;
    }
    const std::size_t end = i + number.length;
    if ((i > 0 && is_letter(text[i - 1])) || (end < text.size() && is_letter(text[end]))) return true;  // 2x
    ++numbers;
    i = end;
  }
  return numbers > 1 && !letters;
}

// The first number of a text, with its sign where the minus cannot be an operator; `from` moves behind it.
Number next_number(std::string_view text, std::size_t& from) {
  for (std::size_t i = from; i < text.size(); ++i) {
    const char before = i > 0 ? text[i - 1] : ' ';
    if ((text[i] == '-' || text[i] == '+') && (is_digit(before) || is_letter(before) || before == ')'))
      continue;
    const bool decimal_tail = text[i] == '.' && (is_digit(before) || is_letter(before));
    if (decimal_tail) continue;
    if (const Number number = match_number(text.substr(i)); number.length > 0) {
      from = i + number.length;
      return number;
    }
  }
  from = text.size();
  return {};
}

// "1 1/2"
std::optional<std::string> mixed_number(std::string_view text) {
  const Number whole = match_number(text);
  if (whole.length == 0 || !whole.fraction.empty() || !whole.denominator.empty()) return std::nullopt;
  if (whole.length >= text.size() || text[whole.length] != ' ') return std::nullopt;
  const std::string_view rest = trimmed(text.substr(whole.length));
  const Number part = match_number(rest);
  if (!is_digit(rest.empty() ? ' ' : rest.front()) || part.length != rest.size() ||
      part.denominator.empty()) {
    return std::nullopt;
  }
  Number sum = part;
  const auto a = to_rational(whole);
  const auto b = to_rational(part);
  if (!a || !b) return std::nullopt;
  const Wide top = (a->numerator < 0 ? -a->numerator : a->numerator) * b->denominator + b->numerator;
  if (top > (Wide{1} << 62)) return std::nullopt;
  sum.negative = whole.negative;
  sum.whole = std::to_string(static_cast<std::int64_t>(top));
  sum.fraction.clear();
  return normal_form(sum);
}

// $...$ is mathematics mode; a single $ is money and stays.
std::string_view without_dollars(std::string_view text) {
  while (text.size() >= 2 && text.front() == '$' && text.back() == '$') {
    text = trimmed(text.substr(1, text.size() - 2));
  }
  return text;
}

// One line that claims to be an answer.
std::optional<std::string> normalise(std::string_view line) {
  const std::string plain = without_latex(line);
  std::string_view text = trimmed(plain);
  while (!text.empty() && (text.back() == '.' || is_space(text.back()))) text.remove_suffix(1);
  text = without_dollars(text);
  if (const std::size_t equals = text.rfind('='); equals != std::string_view::npos) {
    if (const auto right = trimmed(text.substr(equals + 1)); !right.empty()) text = without_dollars(right);
  }
  if (const auto mixed = mixed_number(text)) return mixed;
  const Number leading = match_number(text);
  if (leading.length > 0) {
    const std::string_view rest = trimmed(text.substr(leading.length));
    const bool spaced = leading.length < text.size() && is_space(text[leading.length]);
    if (rest.empty() || rest == "%" || rest == "$" || (spaced && (is_letter(rest[0]) || rest[0] == '('))) {
      return normal_form(leading);
    }
  }
  if (!is_expression(text)) {
    std::size_t from = 0;
    if (const Number number = next_number(text, from); number.length > 0) return normal_form(number);
  }
  std::string kept;
  for (const char c : text) {
    if (!is_space(c) && c != '$' && c != '%') kept += c;
  }
  if (kept.empty()) return std::nullopt;
  return kept;
}

std::optional<std::string> after_marker(std::string_view text, std::string_view marker) {
  const std::size_t at = text.rfind(marker);
  if (at == std::string_view::npos) return std::nullopt;
  return normalise(first_line(text.substr(at + marker.size())));
}

std::optional<std::string> inside_box(std::string_view text) {
  const std::size_t at = text.rfind("\\boxed{");
  if (at == std::string_view::npos) return std::nullopt;
  const auto inside = braced(text, at + 6);
  return inside ? normalise(*inside) : std::nullopt;
}

std::optional<std::string> last_number(std::string_view text) {
  std::optional<std::string> last;
  for (std::size_t from = 0; from < text.size();) {
    if (const Number number = next_number(text, from); number.length > 0) last = normal_form(number);
  }
  return last;
}

}  // namespace

std::optional<std::string> extract_answer(std::string_view text) {
  if (auto answer = after_marker(text, "The answer is:")) return answer;
  if (auto answer = after_marker(text, "####")) return answer;
  if (auto answer = inside_box(text)) return answer;
  return last_number(text);
}

bool equal_answers(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const auto x = to_rational(a);
  const auto y = to_rational(b);
  return x && y && x->numerator * y->denominator == y->numerator * x->denominator;
}

}  // namespace lazytrain
