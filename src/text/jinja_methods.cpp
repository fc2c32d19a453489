// Methods of texts, mappings and lists, as Python names them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "formats/text_checks.h"
#include "text/jinja_operators.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain::jinja {
namespace {

struct TextCall {
  const MarkedText& self;
  const Bound& arguments;
  Budget& budget;
};

Value list_of(std::vector<MarkedText> texts, bool tuple = false) {
  std::vector<Value> items;
  items.reserve(texts.size());
  for (MarkedText& text : texts) items.push_back(Value::text(std::move(text)));
  return make_list(std::move(items), tuple);
}

Value stripped(const TextCall& call, Ends ends) {
  const MarkedText* characters = call.arguments.text(0);
  return Value::text(
      strip(call.self, ends,
            characters != nullptr ? std::optional<std::string_view>(characters->bytes()) : std::nullopt));
}

Value split_text(const TextCall& call, bool from_right) {
  const MarkedText* given = call.arguments.text(0);
  if (given != nullptr && given->empty()) throw Fault("'split' is given an empty separator");
  std::optional<std::string_view> separator;
  if (given != nullptr) separator = given->bytes();
  return list_of(split(call.self, separator, call.arguments.whole(1, -1), from_right, call.budget));
}

Value partition(const TextCall& call, bool from_right) {
  const MarkedText& separator = call.arguments.need_text(0);
  if (separator.empty()) throw Fault("'partition' is given an empty separator");
  const std::string& bytes = call.self.bytes();
  const std::size_t found = from_right ? bytes.rfind(separator.bytes()) : bytes.find(separator.bytes());
  const MarkedText none;
  std::vector<MarkedText> parts;
  if (found == std::string::npos) {
    parts = from_right ? std::vector{none, none, call.self} : std::vector{call.self, none, none};
  } else {
    parts = {call.self.slice(0, found), separator, call.self.slice(found + separator.size(), bytes.size())};
  }
  return list_of(std::move(parts), true);
}

// The part that optional arguments `start` and `end` leave, in bytes.
struct Part {
  std::string_view bytes;
  std::size_t begin = 0;
};
Part part_of(const TextCall& call) {
  const std::string& bytes = call.self.bytes();
  if (call.arguments[1] == nullptr && call.arguments[2] == nullptr) return {bytes, 0};
  const std::vector<std::size_t> offsets = character_offsets(bytes);
  const auto count = static_cast<std::int64_t>(offsets.size()) - 1;
  const auto offset = [&](std::int64_t at) {
    return offsets[static_cast<std::size_t>(std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count))];
  };
  const std::size_t begin = offset(call.arguments.whole(1, 0)), end = offset(call.arguments.whole(2, count));
  return {std::string_view(bytes).substr(begin, end > begin ? end - begin : 0), begin};
}

Value has_affix(const TextCall& call, bool at_start) {
  const std::string_view bytes = part_of(call).bytes;
  const auto has = [&](const Value& affix) {
    const MarkedText* text = affix.as_text();
    if (text == nullptr) {
      if (affix.is<Undefined>()) refuse_undefined(affix);
      throw Fault(fmt::format("'{}' is given {}, not a text", at_start ? "startswith" : "endswith",
                              type_name(affix)));
    }
    return at_start ? bytes.starts_with(text->bytes()) : bytes.ends_with(text->bytes());
  };
  const Value& affix = call.arguments.need(0);
  if (const List* list = affix.as_list(); list != nullptr && list->tuple)
    return std::any_of(list->items.begin(), list->items.end(), has);
  return has(affix);
}

Value position(const TextCall& call, bool from_right, bool required) {
  const std::string& wanted = call.arguments.need_text(0).bytes();
  const Part part = part_of(call);
  const std::size_t found = from_right ? part.bytes.rfind(wanted) : part.bytes.find(wanted);
  if (found == std::string_view::npos) {
    if (required) throw Fault(fmt::format("the text does not hold {}", in_quotes(wanted)));
    return std::int64_t{-1};
  }
  return static_cast<std::int64_t>(
      count_characters(std::string_view(call.self.bytes()).substr(0, part.begin + found)));
}

std::size_t count_of(std::string_view bytes, std::string_view wanted) {
  if (wanted.empty()) return count_characters(bytes) + 1;
  std::size_t count = 0;
  for (std::size_t at = bytes.find(wanted); at != std::string_view::npos;
       at = bytes.find(wanted, at + wanted.size()))
    ++count;
  return count;
}

Value replaced(const TextCall& call) {
  const MarkedText &old = call.arguments.need_text(0), &by = call.arguments.need_text(1);
  const std::int64_t most = call.arguments.whole(2, -1);
  // Paid for before it is made.
  std::size_t times = count_of(call.self.bytes(), old.bytes());
  if (most >= 0) times = std::min(times, static_cast<std::size_t>(most));
  const std::size_t cost = by.size() + (sizeof(MarkRun) * (by.runs().size() + 1));
  if (times > SIZE_MAX / cost) call.budget.spend(SIZE_MAX);
  call.budget.spend(times * cost);
  return Value::text(replace(call.self, old.bytes(), by, most));
}

Value joined(const TextCall& call) {
  const ListPtr items = iterate(call.arguments.need(0), call.budget);
  MarkedText result;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const MarkedText* text = items->items[i].as_text();
    if (text == nullptr)
      throw Fault(fmt::format("'join' is given {} among its texts", type_name(items->items[i])));
    call.budget.spend_text(*text);
    call.budget.spend_text(call.self);
    if (i > 0) result.append(call.self);
    result.append(*text);
  }
  return Value::text(std::move(result));
}

// Not empty, and all characters are of a kind.
template <typename Predicate>
Value all_are(const TextCall& call, const Predicate& predicate) {
  const std::string& bytes = call.self.bytes();
  for (std::size_t at = 0; at < bytes.size();) {
    const CodePoint point = decode_utf8(bytes, at);
    if (!predicate(point.value)) return false;
    at += point.size;
  }
  return !bytes.empty();
}

Value in_one_case(const TextCall& call, bool is_upper) {
  const MarkedText folded = is_upper ? upper(call.self) : lower(call.self);
  const MarkedText other = is_upper ? lower(call.self) : upper(call.self);
  return folded.bytes() == call.self.bytes() && other.bytes() != call.self.bytes();
}

Value without_affix(const TextCall& call, bool prefix) {
  const std::string &bytes = call.self.bytes(), &affix = call.arguments.need_text(0).bytes();
  if (prefix && bytes.starts_with(affix)) return Value::text(call.self.slice(affix.size(), bytes.size()));
  if (!prefix && bytes.ends_with(affix)) return Value::text(call.self.slice(0, bytes.size() - affix.size()));
  return Value::text(call.self);
}

Value justified(const TextCall& call, bool left, char fill) {
  const auto have = static_cast<std::int64_t>(count_characters(call.self.bytes()));
  const std::int64_t width = call.arguments.whole(0, 0);
  const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(width - have, 0));
  call.budget.spend(missing);
  MarkedText result;
  if (left) result.append(call.self);
  std::size_t sign = 0;  // zfill puts zeros behind a sign
  if (fill == '0' && !call.self.empty() && (call.self.bytes()[0] == '-' || call.self.bytes()[0] == '+'))
    sign = 1;
  if (!left) result.append(call.self, 0, sign);
  result.append(std::string(missing, fill));
  if (!left) result.append(call.self, sign, call.self.size());
  return Value::text(std::move(result));
}

struct TextMethod {
  std::string_view name, parameters;
  Value (*call)(const TextCall&);
};

constexpr std::array kTextMethods{
    TextMethod{"strip", "chars", [](const TextCall& c) { return stripped(c, Ends::both); }},
    TextMethod{"lstrip", "chars", [](const TextCall& c) { return stripped(c, Ends::left); }},
    TextMethod{"rstrip", "chars", [](const TextCall& c) { return stripped(c, Ends::right); }},
    TextMethod{"split", "sep maxsplit", [](const TextCall& c) { return split_text(c, false); }},
    TextMethod{"rsplit", "sep maxsplit", [](const TextCall& c) { return split_text(c, true); }},
    TextMethod{"splitlines", "keepends",
               [](const TextCall& c) {
                 return list_of(split_lines(c.self, c.arguments.truth(0, false), c.budget));
               }},
    TextMethod{"partition", "sep", [](const TextCall& c) { return partition(c, false); }},
    TextMethod{"rpartition", "sep", [](const TextCall& c) { return partition(c, true); }},
    TextMethod{"startswith", "prefix start end", [](const TextCall& c) { return has_affix(c, true); }},
    TextMethod{"endswith", "suffix start end", [](const TextCall& c) { return has_affix(c, false); }},
    TextMethod{"removeprefix", "prefix", [](const TextCall& c) { return without_affix(c, true); }},
    TextMethod{"removesuffix", "suffix", [](const TextCall& c) { return without_affix(c, false); }},
    TextMethod{"replace", "old new count", [](const TextCall& c) { return replaced(c); }},
    TextMethod{"join", "iterable", [](const TextCall& c) { return joined(c); }},
    TextMethod{"find", "sub start end", [](const TextCall& c) { return position(c, false, false); }},
    TextMethod{"rfind", "sub start end", [](const TextCall& c) { return position(c, true, false); }},
    TextMethod{"index", "sub start end", [](const TextCall& c) { return position(c, false, true); }},
    TextMethod{"rindex", "sub start end", [](const TextCall& c) { return position(c, true, true); }},
    TextMethod{"count", "sub start end",
               [](const TextCall& c) -> Value {
                 return static_cast<std::int64_t>(
                     count_of(part_of(c).bytes, c.arguments.need_text(0).bytes()));
               }},
    TextMethod{"upper", "", [](const TextCall& c) { return Value::text(upper(c.self)); }},
    TextMethod{"lower", "", [](const TextCall& c) { return Value::text(lower(c.self)); }},
    TextMethod{"title", "", [](const TextCall& c) { return Value::text(title(c.self)); }},
    TextMethod{"capitalize", "", [](const TextCall& c) { return Value::text(capitalize(c.self)); }},
    TextMethod{"isdigit", "",
               [](const TextCall& c) { return all_are(c, [](char32_t p) { return p >= '0' && p <= '9'; }); }},
    TextMethod{"isnumeric", "", [](const TextCall& c) { return all_are(c, is_numeric); }},
    TextMethod{"isalpha", "", [](const TextCall& c) { return all_are(c, is_alphabetic); }},
    TextMethod{"isalnum", "",
               [](const TextCall& c) {
                 return all_are(c, [](char32_t p) { return is_alphabetic(p) || is_numeric(p); });
               }},
    TextMethod{"isspace", "", [](const TextCall& c) { return all_are(c, is_white_space); }},
    TextMethod{"isupper", "", [](const TextCall& c) { return in_one_case(c, true); }},
    TextMethod{"islower", "", [](const TextCall& c) { return in_one_case(c, false); }},
    TextMethod{"ljust", "width", [](const TextCall& c) { return justified(c, true, ' '); }},
    TextMethod{"rjust", "width", [](const TextCall& c) { return justified(c, false, ' '); }},
    TextMethod{"zfill", "width", [](const TextCall& c) { return justified(c, false, '0'); }}};

Value dict_method(const Dict& dict, std::string_view name, const Arguments& arguments, Budget& budget) {
  if (name == "get") {
    const Bound bound(arguments, "key default", "get");
    const MarkedText* key = bound.need(0).as_text();
    budget.spend(dict.entries.size());
    const Value* value = key != nullptr ? dict.find(key->bytes()) : nullptr;
    if (value != nullptr) return *value;
    return bound[1] != nullptr ? *bound[1] : Value(None{});
  }
  const Bound bound(arguments, "", name);
  budget.spend_items(dict.entries.size() * 4);
  if (name == "copy") return make_dict(dict.entries, dict.turn);
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    if (name == "keys") items.emplace_back(key);
    if (name == "values") items.push_back(value);
    if (name == "items") items.push_back(make_list({Value(key), value}, true));
  }
  return make_list(std::move(items));
}

Value list_method(const List& list, std::string_view name, const Arguments& arguments, Budget& budget) {
  const Bound bound(arguments, "value", name);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!equal(list.items[i], bound.need(0), budget)) continue;
    if (name == "index") return static_cast<std::int64_t>(i);
    ++count;
  }
  if (name == "index") throw Fault("the list does not hold the value that 'index' looks for");
  return count;
}

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

bool is_dict_method(std::string_view name) {
  return among(std::array<std::string_view, 10>{"get", "items", "keys", "values", "copy", "pop", "update",
                                                "clear", "setdefault", "popitem"},
               name);
}

Value call_method(const Value& object, std::string_view name, const Arguments& arguments, Budget& budget) {
  if (const MarkedText* text = object.as_text()) {
    const auto* method = std::find_if(kTextMethods.begin(), kTextMethods.end(),
                                      [&](const TextMethod& m) { return m.name == name; });
    if (method != kTextMethods.end()) {
      budget.spend_text(*text);
      return method->call({*text, Bound(arguments, method->parameters, name), budget});
    }
  }
  const bool changes =
      among(std::array<std::string_view, 12>{"append", "extend", "insert", "remove", "pop", "clear", "sort",
                                             "reverse", "update", "setdefault", "popitem", "add"},
            name);
  const Dict* dict = object.as_dict();
  const List* list = object.as_list();
  if (dict != nullptr && is_dict_method(name) && !changes) return dict_method(*dict, name, arguments, budget);
  if (list != nullptr && (name == "index" || name == "count"))
    return list_method(*list, name, arguments, budget);
  if (const auto* loop = object.get<std::shared_ptr<const Loop>>(); loop != nullptr && name == "cycle") {
    if (arguments.by_position.empty()) throw Fault("'cycle' needs at least one argument");
    return arguments.by_position[(*loop)->index % arguments.by_position.size()];
  }
  if ((dict != nullptr || list != nullptr) && changes)
    throw Fault(
        fmt::format("'{}' would change {}, which chat templates must not do", name, type_name(object)),
        Fault::Kind::template_text);
  throw Fault(fmt::format("{} has no method '{}'", type_name(object), name));
}

}  // namespace lazytrain::jinja
