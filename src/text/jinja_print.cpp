// How values become text: Python's str(), repr() and json.dumps().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>

#include "text/jinja_value.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::jinja {
namespace {

class Printer {
 public:
  explicit Printer(Budget& budget) : budget_(budget) {}

  void str(const Value& value) {
    if (const MarkedText* text = value.as_text()) {
      add(*text);
    } else if (!value.is<Undefined>()) {
      repr(value);
    }
  }

  void repr(const Value& value) {
    if (const MarkedText* text = value.as_text()) return quoted(*text);
    if (const List* list = value.as_list()) {
      add(list->tuple ? "(" : "[");
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        if (i > 0) add(", ");
        repr(list->items[i]);
      }
      if (list->tuple && list->items.size() == 1) add(",");
      return add(list->tuple ? ")" : "]");
    }
    if (const Dict* dict = value.as_dict()) {
      add("{");
      for (const auto& [key, item] : dict->entries) {
        if (&key != &dict->entries.front().first) add(", ");
        quoted(*key);
        add(": ");
        repr(item);
      }
      return add("}");
    }
    if (value.is<Undefined>()) return add("Undefined");
    add(scalar(value, "None", "True", "False"));
  }

  void json(const Value& value, const JsonStyle& style, int level) {
    if (const MarkedText* text = value.as_text()) return json_text(*text, style.ascii);
    if (const List* list = value.as_list()) {
      if (list->items.empty()) return add("[]");
      add("[");
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        if (i > 0) add(style.item_separator);
        line(style, level + 1);
        json(list->items[i], style, level + 1);
      }
      line(style, level);
      return add("]");
    }
    if (const Dict* dict = value.as_dict()) return json_dict(*dict, style, level);
    if (value.is<Undefined>())
      throw Fault(fmt::format("{} is undefined, which JSON cannot say",
                              value.get<Undefined>()->what ? *value.get<Undefined>()->what : "the value"));
    add(scalar(value, "null", "true", "false"));
  }

  MarkedText take() { return std::move(result_); }

 private:
  void add(std::string_view text, Mark mark = {}) {
    budget_.spend(text.size() + 1);
    result_.append(text, mark);
  }
  void add(const MarkedText& text) {
    budget_.spend_text(text);
    result_.append(text);
  }

  static std::string scalar(const Value& value, const char* none, const char* yes, const char* no) {
    if (value.is<None>()) return none;
    if (const auto* b = value.get<bool>()) return *b ? yes : no;
    if (const auto* i = value.get<std::int64_t>()) return std::to_string(*i);
    if (const auto* d = value.get<double>()) {
      const bool is_json = none[0] == 'n';
      if (std::isnan(*d)) return is_json ? "NaN" : "nan";
      if (std::isinf(*d)) return fmt::format("{}{}", *d < 0 ? "-" : "", is_json ? "Infinity" : "inf");
      return number_text(*d);
    }
    throw Fault(fmt::format("{} cannot be written as text", type_name(value)));
  }

  void line(const JsonStyle& style, int level) {
    if (style.indent < 0) return;
    add("\n");
    add(std::string(static_cast<std::size_t>(style.indent) * static_cast<std::size_t>(level), ' '));
  }

  void json_dict(const Dict& dict, const JsonStyle& style, int level) {
    if (dict.entries.empty()) return add("{}");
    std::vector<const std::pair<Text, Value>*> entries;
    budget_.spend(dict.entries.size() * sizeof(void*));
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return a->first->bytes() < b->first->bytes(); });
    }
    add("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(style.item_separator);
      line(style, level + 1);
      json_text(*entries[i]->first, style.ascii);
      add(style.key_separator);
      json(entries[i]->second, style, level + 1);
    }
    line(style, level);
    add("}");
  }

  // Calls `escape(code point)` for each character; where it gives nothing the character stays.
  template <typename Escape>
  void escaped(const MarkedText& text, const Escape& escape) {
    const std::string& bytes = text.bytes();
    budget_.spend_text(text);
    std::size_t done = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const CodePoint point = decode_utf8(bytes, at);
      const std::string other = escape(point.value);
      if (!other.empty()) {
        result_.append(text, done, at);
        add(other, text.mark_at(at));
        done = at + point.size;
      }
      at += point.size;
    }
    result_.append(text, done, bytes.size());
  }

  void json_text(const MarkedText& text, bool ascii) {
    add("\"");
    escaped(text, [ascii](char32_t c) -> std::string {
      switch (c) {
        case '"':
          return "\\\"";
        case '\\':
          return "\\\\";
        case '\n':
          return "\\n";
        case '\r':
          return "\\r";
        case '\t':
          return "\\t";
        case '\b':
          return "\\b";
        case '\f':
          return "\\f";
        default:
          break;
      }
      const auto code = static_cast<std::uint32_t>(c);
      if (code < 0x20 || (ascii && code >= 0x7F && code < 0x10000)) return fmt::format("\\u{:04x}", code);
      if (ascii && code >= 0x10000)
        return fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + (code & 0x3FF));
      return {};
    });
    add("\"");
  }

  void quoted(const MarkedText& text) {
    const bool single = text.bytes().find('\'') != std::string::npos;
    const char quote = single && text.bytes().find('"') == std::string::npos ? '"' : '\'';
    add({&quote, 1});
    escaped(text, [quote](char32_t c) -> std::string {
      if (c == static_cast<unsigned char>(quote)) return {'\\', quote};
      if (c == '\\') return "\\\\";
      if (c == '\n') return "\\n";
      if (c == '\r') return "\\r";
      if (c == '\t') return "\\t";
      if (is_printable(c)) return {};
      const auto code = static_cast<std::uint32_t>(c);
      if (code < 0x100) return fmt::format("\\x{:02x}", code);
      return code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    });
    add({&quote, 1});
  }

  Budget& budget_;
  MarkedText result_;
};

}  // namespace

std::string number_text(double number) {
  std::array<char, 40> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  std::string_view text(buffer.data(), static_cast<std::size_t>(end.ptr - buffer.data()));
  const std::string sign = text.starts_with('-') ? "-" : "";
  text.remove_prefix(sign.size());
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  std::string digits;
  std::copy_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(e), std::back_inserter(digits),
               [](char c) { return c != '.'; });
  // Python writes an exponent outside of these.
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return fmt::format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

MarkedText to_text(const Value& value, Budget& budget) {
  Printer printer(budget);
  printer.str(value);
  return printer.take();
}

MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Printer printer(budget);
  printer.json(value, style, 0);
  return printer.take();
}

}  // namespace lazytrain::jinja
