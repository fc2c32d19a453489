// Filters of single values; those of sequences stand in jinja_sequences.cpp.
#include "text/jinja_filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja_strings.h"

namespace lazytrain::jinja {
namespace {

// As Jinja's filters of texts take their input: anything, as text.
MarkedText text_of(const FilterCall& call) {
  return to_text(call.input, call.budget);
}

Value otherwise(const FilterCall& call) {
  const bool absent = call.input.is<Undefined>() || (call.arguments.truth(1, false) && !truthy(call.input));
  if (!absent) return call.input;
  return call.arguments[0] != nullptr ? *call.arguments[0] : Value::text("");
}

Value length(const FilterCall& call) {
  if (const MarkedText* text = call.input.as_text()) {
    call.budget.spend(text->size() / 16);
    return static_cast<std::int64_t>(count_characters(text->bytes()));
  }
  if (const Dict* dict = call.input.as_dict()) return static_cast<std::int64_t>(dict->entries.size());
  if (const List* list = call.input.as_list()) return static_cast<std::int64_t>(list->items.size());
  if (call.input.is<Undefined>()) return std::int64_t{0};
  throw Fault(fmt::format("{} has no length", type_name(call.input)));
}

Value trim(const FilterCall& call) {
  const MarkedText* characters = call.arguments.text(0);
  return Value::text(
      strip(text_of(call), Ends::both,
            characters != nullptr ? std::optional<std::string_view>(characters->bytes()) : std::nullopt));
}

Value replaced(const FilterCall& call) {
  Arguments arguments = call.all;
  for (Value& value : arguments.by_position) {
    if (!value.is<std::int64_t>() && !value.is<None>()) value = Value::text(to_text(value, call.budget));
  }
  return call_method(Value::text(text_of(call)), "replace", arguments, call.budget);
}

std::string_view stripped_number(const MarkedText& text) {
  std::string_view bytes = text.bytes();
  while (!bytes.empty() && std::isspace(static_cast<unsigned char>(bytes.front())) != 0)
    bytes.remove_prefix(1);
  while (!bytes.empty() && std::isspace(static_cast<unsigned char>(bytes.back())) != 0)
    bytes.remove_suffix(1);
  if (bytes.starts_with('+')) bytes.remove_prefix(1);
  return bytes;
}

template <typename Number>
std::optional<Number> parsed(const MarkedText& text) {
  const std::string_view bytes = stripped_number(text);
  Number number{};
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), number);
  if (error != std::errc() || end != bytes.data() + bytes.size() || bytes.empty()) return std::nullopt;
  return number;
}

std::optional<double> as_real(const Value& value) {
  if (const auto* b = value.get<bool>()) return *b ? 1 : 0;
  if (const auto* i = value.get<std::int64_t>()) return static_cast<double>(*i);
  if (const auto* d = value.get<double>()) return *d;
  if (const MarkedText* text = value.as_text()) return parsed<double>(*text);
  return std::nullopt;
}

Value to_whole(const FilterCall& call) {
  if (call.arguments.whole(1, 10) != 10) throw Fault("'int' with another base than 10 is not supported");
  if (call.input.is<std::int64_t>()) return call.input;
  if (const MarkedText* text = call.input.as_text()) {
    if (const auto whole = parsed<std::int64_t>(*text)) return *whole;
  }
  const auto real = as_real(call.input);
  if (!real || !(std::abs(*real) < 9e18))
    return call.arguments[0] != nullptr ? *call.arguments[0] : Value(std::int64_t{0});
  return static_cast<std::int64_t>(*real);
}

Value to_real(const FilterCall& call) {
  if (const auto real = as_real(call.input)) return *real;
  return call.arguments[0] != nullptr ? *call.arguments[0] : Value(0.0);
}

Value magnitude(const FilterCall& call) {
  const auto* real = call.input.get<double>();
  const auto value = as_real(call.input);
  if (!value || call.input.as_text() != nullptr)
    throw Fault(fmt::format("'abs' is given {}, not a number", type_name(call.input)));
  if (real != nullptr) return std::abs(*real);
  return *value < 0 ? negate(call.input) : call.input;
}

Value rounded(const FilterCall& call) {
  const auto value = as_real(call.input);
  const std::int64_t precision = call.arguments.whole(0, 0);
  const MarkedText* method = call.arguments.text(1);
  if (!value || call.input.as_text() != nullptr)
    throw Fault(fmt::format("'round' is given {}, not a number", type_name(call.input)));
  if (precision < 0 || precision > 100) throw Fault("'round' takes a precision of 0 to 100");
  if (method == nullptr || method->bytes() == "common")
    return std::strtod(fmt::format("{:.{}f}", *value, precision).c_str(), nullptr);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method->bytes() == "ceil") return std::ceil(*value * scale) / scale;
  if (method->bytes() == "floor") return std::floor(*value * scale) / scale;
  throw Fault("'round' knows the methods common, ceil and floor");
}

Value json(const FilterCall& call) {
  JsonStyle style;
  style.ascii = call.arguments.truth(0, false);
  style.sort_keys = call.arguments.truth(3, false);
  style.indent = static_cast<int>(std::clamp<std::int64_t>(call.arguments.whole(1, -1), -1, 64));
  if (style.indent >= 0) style.item_separator = ",";
  if (const Value* separators = call.arguments[2]; separators != nullptr && !separators->is<None>()) {
    const List* list = separators->as_list();
    const bool pair = list != nullptr && list->items.size() == 2 && list->items[0].as_text() != nullptr &&
                      list->items[1].as_text() != nullptr;
    if (!pair) throw Fault("'tojson': separators should be two texts");
    style.item_separator = list->items[0].as_text()->bytes();
    style.key_separator = list->items[1].as_text()->bytes();
  }
  return Value::text(to_json(call.input, style, call.budget));
}

Value indented(const FilterCall& call) {
  const Value* width = call.arguments[0];
  const MarkedText* given = width != nullptr ? width->as_text() : nullptr;
  const std::int64_t spaces =
      given != nullptr ? 0 : std::clamp<std::int64_t>(call.arguments.whole(0, 4), 0, 4096);
  const MarkedText indent =
      given != nullptr ? *given : MarkedText(std::string(static_cast<std::size_t>(spaces), ' '));
  MarkedText text = text_of(call);
  text.append("\n");
  const std::vector<MarkedText> lines = split_lines(text, false, call.budget);
  MarkedText result;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool wanted =
        i == 0 ? call.arguments.truth(1, false) : !lines[i].empty() || call.arguments.truth(2, false);
    call.budget.spend_text(lines[i]);
    call.budget.spend_text(indent);
    if (i > 0) result.append("\n");
    if (wanted) result.append(indent);
    result.append(lines[i]);
  }
  return Value::text(std::move(result));
}

Value truncated(const FilterCall& call) {
  const MarkedText text = text_of(call);
  const MarkedText* given = call.arguments.text(2);
  const MarkedText end = given != nullptr ? *given : MarkedText("...");
  const std::int64_t length = call.arguments.whole(0, 255), leeway = call.arguments.whole(3, 5);
  const auto end_length = static_cast<std::int64_t>(count_characters(end.bytes()));
  const std::vector<std::size_t> offsets = character_offsets(text.bytes());
  if (length < end_length || leeway < 0) throw Fault("'truncate' is given a length below that of its end");
  if (std::ssize(offsets) - 1 <= length + leeway) return Value::text(text);
  MarkedText result = text.slice(0, offsets[static_cast<std::size_t>(length - end_length)]);
  if (!call.arguments.truth(1, false)) {
    const std::size_t space = result.bytes().rfind(' ');
    if (space != std::string::npos) result = result.slice(0, space);
  }
  result.append(end);
  return Value::text(std::move(result));
}

Value escaped(const FilterCall& call) {
  constexpr std::string_view kCharacters = "&<>'\"";
  constexpr std::array<std::string_view, 5> kEntities{"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const MarkedText text = text_of(call);
  MarkedText result;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t found = kCharacters.find(text.bytes()[at]);
    if (found == std::string_view::npos) continue;
    call.budget.spend(sizeof(MarkRun));
    result.append(text, done, at);
    result.append(kEntities[found], text.mark_at(at));
    done = at + 1;
  }
  result.append(text, done, text.size());
  return Value::text(std::move(result));
}

// Words as Jinja's filter sees them, which differ from those of Python's method: "They're".
Value title_words(const FilterCall& call) {
  const MarkedText text = text_of(call);
  MarkedText result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.bytes().find_first_of("- \t\n\r({[<", begin), text.size() - 1) + 1;
    result.append(capitalize(text.slice(begin, end)));
    begin = end;
  }
  return Value::text(std::move(result));
}

using C = const FilterCall&;
constexpr std::array kFilters{
    Filter{"default", "default_value boolean", otherwise},
    Filter{"d", "default_value boolean", otherwise},
    Filter{"length", "", length},
    Filter{"count", "", length},
    Filter{"trim", "chars", trim},
    Filter{"upper", "", [](C c) { return Value::text(upper(text_of(c))); }},
    Filter{"lower", "", [](C c) { return Value::text(lower(text_of(c))); }},
    Filter{"capitalize", "", [](C c) { return Value::text(capitalize(text_of(c))); }},
    Filter{"title", "", title_words},
    Filter{"replace", "old new count", replaced},
    Filter{"string", "", [](C c) { return Value::text(text_of(c)); }},
    Filter{"safe", "", [](C c) { return Value::text(text_of(c)); }},
    Filter{"escape", "", escaped},
    Filter{"e", "", escaped},
    Filter{"int", "default base", to_whole},
    Filter{"float", "default", to_real},
    Filter{"abs", "", magnitude},
    Filter{"round", "precision method", rounded},
    Filter{"tojson", "ensure_ascii indent separators sort_keys", json},
    Filter{"indent", "width first blank", indented},
    Filter{"truncate", "length killwords end leeway", truncated},
    Filter{"attr", "name",
           [](C c) { return attribute(c.input, c.arguments.need_text(0).bytes(), c.budget); }},
};

}  // namespace

const Filter* find_filter(std::string_view name) {
  const auto named = [&](const Filter& filter) { return filter.name == name; };
  const auto* found = std::find_if(kFilters.begin(), kFilters.end(), named);
  if (found != kFilters.end()) return found;
  const auto others = sequence_filters();
  const auto other = std::find_if(others.begin(), others.end(), named);
  return other == others.end() ? nullptr : &*other;
}

Value apply(const Filter& filter, const Value& input, const Arguments& arguments, Budget& budget) {
  const bool open = filter.parameters == "*";
  static const Arguments none;
  const Bound bound(open ? none : arguments, open ? "" : filter.parameters, filter.name);
  return filter.apply({input, bound, arguments, budget});
}

}  // namespace lazytrain::jinja
