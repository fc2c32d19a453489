#include "text/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "formats/text_checks.h"
#include "text/jinja_strings.h"

namespace lazytrain::jinja {
namespace {

std::optional<std::int64_t> whole_number(const Value& value) {
  if (const auto* b = value.get<bool>()) return *b ? 1 : 0;
  if (const auto* i = value.get<std::int64_t>()) return *i;
  return std::nullopt;
}

std::optional<double> number(const Value& value) {
  if (const auto* d = value.get<double>()) return *d;
  const auto whole = whole_number(value);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

[[noreturn]] void refuse(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right})
    if (value->is<Undefined>()) refuse_undefined(*value);
  throw Fault(fmt::format("{} and {} cannot be combined by {}", type_name(left), type_name(right), sign));
}

[[noreturn]] void refuse_size() {
  throw Fault("the number grows too large");
}

std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) refuse_size();
  return result;
}
std::int64_t difference(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_sub_overflow(a, b, &result)) refuse_size();
  return result;
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) refuse_size();
  return result;
}

Value power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (result == 0 || (result == 1 && base == 1)) break;
    if (base == -1) return std::int64_t{exponent % 2 == 0 ? 1 : -1};
    result = product(result, base);
  }
  return result;
}

Value whole_arithmetic(Operator operation, std::int64_t a, std::int64_t b) {
  switch (operation) {
    case Operator::add:
      return sum(a, b);
    case Operator::subtract:
      return difference(a, b);
    case Operator::multiply:
      return product(a, b);
    case Operator::power:
      if (a == 0 && b < 0) throw Fault("a number is divided by zero");
      return b < 0 ? Value(std::pow(static_cast<double>(a), static_cast<double>(b))) : power(a, b);
    default:
      break;
  }
  if (b == 0) throw Fault("a number is divided by zero");
  if (operation == Operator::divide) return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) {
    if (operation == Operator::remainder) return std::int64_t{0};
    return difference(0, a);
  }
  const bool differs = a % b != 0 && (a % b < 0) != (b < 0);
  if (operation == Operator::floor_divide) return (a / b) - (differs ? 1 : 0);
  return (a % b) + (differs ? b : 0);
}

Value real_arithmetic(Operator operation, double a, double b) {
  switch (operation) {
    case Operator::add:
      return a + b;
    case Operator::subtract:
      return a - b;
    case Operator::multiply:
      return a * b;
    case Operator::power:
      return std::pow(a, b);
    default:
      break;
  }
  if (b == 0) throw Fault("a number is divided by zero");
  if (operation == Operator::divide) return a / b;
  if (operation == Operator::floor_divide) return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value repeat(const Value& sequence, std::int64_t times, Budget& budget) {
  times = std::max<std::int64_t>(times, 0);
  const auto count = static_cast<std::size_t>(times);
  if (const MarkedText* text = sequence.as_text()) {
    const std::size_t cost = text->size() + (sizeof(MarkRun) * text->runs().size());
    if (cost > 0 && count > SIZE_MAX / cost) budget.spend(SIZE_MAX);
    budget.spend(cost * count);
    MarkedText result;
    for (std::size_t i = 0; cost > 0 && i < count; ++i) result.append(*text);
    return Value::text(std::move(result));
  }
  const List* list = sequence.as_list();
  std::vector<Value> items;
  for (std::size_t i = 0; !list->items.empty() && i < count; ++i) {
    budget.spend_items(list->items.size());
    items.insert(items.end(), list->items.begin(), list->items.end());
  }
  return make_list(std::move(items), list->tuple);
}

Value joined(const Value& left, const Value& right, Budget& budget) {
  MarkedText result = to_text(left, budget);
  result.append(to_text(right, budget));
  return Value::text(std::move(result));
}

std::string_view sign_of(Operator operation) {
  constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**", "~"};
  return kSigns[static_cast<std::size_t>(operation)];
}

// A place in a sequence of `size`; negative ones count from the end.
std::optional<std::size_t> place(std::int64_t index, std::size_t size) {
  const auto count = static_cast<std::int64_t>(size);
  if (index < 0) index += count;
  if (index < 0 || index >= count) return std::nullopt;
  return static_cast<std::size_t>(index);
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto index = static_cast<std::int64_t>(loop.index);
  const auto length = static_cast<std::int64_t>(loop.items->items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return length - index;
  if (name == "revindex0") return length - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == length;
  if (name == "length") return length;
  if (name == "depth") return std::int64_t{1};  // of recursive loops, which are not there
  if (name == "depth0") return std::int64_t{0};
  if (name == "previtem")
    return index == 0 ? Value::undefined("there is no previous item") : loop.items->items[loop.index - 1];
  if (name == "nextitem")
    return index + 1 == length ? Value::undefined("there is no next item")
                               : loop.items->items[loop.index + 1];
  if (name == "cycle") return Function::method;
  return Value::undefined(fmt::format("the attribute {} of loop", in_quotes(name)));
}

}  // namespace

void refuse_undefined(const Value& value) {
  const auto* undefined = value.get<Undefined>();
  const bool named = undefined != nullptr && undefined->what;
  throw Fault(fmt::format("{} is undefined", named ? *undefined->what : "a value"));
}

Bound::Bound(const Arguments& arguments, std::string_view parameters, std::string_view callee)
    : callee_(callee) {
  while (!parameters.empty()) {
    const std::size_t space = std::min(parameters.find(' '), parameters.size());
    names_.push_back(parameters.substr(0, space));
    parameters.remove_prefix(std::min(space + 1, parameters.size()));
  }
  values_.resize(names_.size());
  if (arguments.by_position.size() > names_.size())
    throw Fault(fmt::format("'{}' takes at most {} arguments", callee, names_.size()));
  for (std::size_t i = 0; i < arguments.by_position.size(); ++i) values_[i] = &arguments.by_position[i];
  for (const auto& [name, value] : arguments.by_name) {
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) throw Fault(fmt::format("'{}' has no argument named '{}'", callee, name));
    values_[static_cast<std::size_t>(found - names_.begin())] = &value;
  }
}

const Value& Bound::need(std::size_t index) const {
  if ((*this)[index] == nullptr)
    throw Fault(fmt::format("'{}' needs the argument '{}'", callee_, names_[index]));
  return *values_[index];
}

std::int64_t Bound::whole(std::size_t index, std::int64_t otherwise) const {
  const Value* value = (*this)[index];
  if (value == nullptr || value->is<None>()) return otherwise;
  const auto number = whole_number(*value);
  if (!number)
    throw Fault(fmt::format("'{}': {} is {}, not a whole number", callee_, names_[index], type_name(*value)));
  return *number;
}

const MarkedText* Bound::text(std::size_t index) const {
  const Value* value = (*this)[index];
  return value == nullptr || value->is<None>() ? nullptr : &need_text(index);
}

const MarkedText& Bound::need_text(std::size_t index) const {
  const Value& value = need(index);
  if (value.is<Undefined>()) refuse_undefined(value);
  const MarkedText* text = value.as_text();
  if (text == nullptr)
    throw Fault(fmt::format("'{}': {} is {}, not a text", callee_, names_[index], type_name(value)));
  return *text;
}

bool Bound::truth(std::size_t index, bool otherwise) const {
  const Value* value = (*this)[index];
  return value == nullptr ? otherwise : truthy(*value);
}

Value binary(Operator operation, const Value& left, const Value& right, Budget& budget) {
  if (operation == Operator::join) return joined(left, right, budget);
  const auto a = whole_number(left), b = whole_number(right);
  if (a && b) return whole_arithmetic(operation, *a, *b);
  const auto x = number(left), y = number(right);
  if (x && y) return real_arithmetic(operation, *x, *y);
  if (operation == Operator::add) {
    if (left.as_text() != nullptr && right.as_text() != nullptr) return joined(left, right, budget);
    const List *first = left.as_list(), *second = right.as_list();
    if (first != nullptr && second != nullptr && first->tuple == second->tuple) {
      budget.spend_items(first->items.size() + second->items.size());
      std::vector<Value> items = first->items;
      items.insert(items.end(), second->items.begin(), second->items.end());
      return make_list(std::move(items), first->tuple);
    }
  }
  const auto repeatable = [](const Value& v) { return v.as_text() != nullptr || v.as_list() != nullptr; };
  if (operation == Operator::multiply && repeatable(left) && b) return repeat(left, *b, budget);
  if (operation == Operator::multiply && a && repeatable(right)) return repeat(right, *a, budget);
  refuse(sign_of(operation), left, right);
}

Value negate(const Value& value) {
  if (const auto whole = whole_number(value)) return whole_arithmetic(Operator::subtract, 0, *whole);
  if (const auto* real = value.get<double>()) return -*real;
  if (value.is<Undefined>()) refuse_undefined(value);
  throw Fault(fmt::format("{} has no sign", type_name(value)));
}

Value attribute(const Value& object, std::string_view name, Budget& budget) {
  if (object.is<Undefined>()) refuse_undefined(object);
  if (const Dict* dict = object.as_dict()) {
    if (is_dict_method(name)) return Function::method;
    budget.spend(dict->entries.size());
    const Value* value = dict->find(name);
    return value != nullptr ? *value : Value::undefined(fmt::format("the key {}", in_quotes(name)));
  }
  if (const auto* space = object.get<std::shared_ptr<Namespace>>()) {
    const Value* value = (*space)->find(name);
    return value != nullptr ? *value : Value::undefined(fmt::format("the attribute {}", in_quotes(name)));
  }
  if (const auto* loop = object.get<std::shared_ptr<const Loop>>()) return loop_attribute(**loop, name);
  return Value::undefined(fmt::format("the attribute {} of {}", in_quotes(name), type_name(object)));
}

Value item(const Value& object, const Value& key, Budget& budget) {
  if (object.is<Undefined>()) refuse_undefined(object);
  if (const Dict* dict = object.as_dict()) {
    budget.spend(dict->entries.size());
    const MarkedText* name = key.as_text();
    const Value* value = name != nullptr ? dict->find(name->bytes()) : nullptr;
    if (value != nullptr) return *value;
    return Value::undefined(name != nullptr ? fmt::format("the key {}", in_quotes(name->bytes()))
                                            : "the key");
  }
  if (const auto index = whole_number(key)) {
    if (const List* list = object.as_list()) {
      const auto at = place(*index, list->items.size());
      return at ? list->items[*at] : Value::undefined(fmt::format("the item {} of a list", *index));
    }
    if (const MarkedText* text = object.as_text()) {
      budget.spend(text->size());
      const std::vector<std::size_t> offsets = character_offsets(text->bytes());
      const auto at = place(*index, offsets.size() - 1);
      return at ? Value::text(text->slice(offsets[*at], offsets[*at + 1]))
                : Value::undefined(fmt::format("the character {} of a text", *index));
    }
  }
  if (const MarkedText* name = key.as_text()) return attribute(object, name->bytes(), budget);
  return Value::undefined(fmt::format("an item of {}", type_name(object)));
}

Value attribute_path(const Value& object, std::string_view path, Budget& budget, const Value* absent) {
  Value value = object;
  for (;;) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string part(path.substr(0, dot));
    const bool digits = !part.empty() && part.size() < 10 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    value = item(value, digits ? Value(std::int64_t{std::stoi(part)}) : Value::text(part), budget);
    if (value.is<Undefined>() && absent != nullptr) value = *absent;
    if (dot == path.size()) return value;
    path.remove_prefix(dot + 1);
  }
}

Value slice(const Value& object, const Value* begin, const Value* end, const Value* step, Budget& budget) {
  const auto bound = [](const Value* value) -> std::optional<std::int64_t> {
    if (value == nullptr || value->is<None>()) return std::nullopt;
    if (value->is<Undefined>()) refuse_undefined(*value);
    const auto number = whole_number(*value);
    if (!number) throw Fault(fmt::format("a slice has {} where a whole number belongs", type_name(*value)));
    return number;
  };
  if (object.is<Undefined>()) refuse_undefined(object);
  const MarkedText* text = object.as_text();
  const List* list = object.as_list();
  if (text == nullptr && list == nullptr) throw Fault(fmt::format("{} has no slices", type_name(object)));
  std::vector<std::size_t> offsets;
  if (text != nullptr) {
    budget.spend(text->size());
    offsets = character_offsets(text->bytes());
  }
  const auto size = static_cast<std::int64_t>(text != nullptr ? offsets.size() - 1 : list->items.size());
  const std::int64_t by = bound(step).value_or(1);
  if (by == 0) throw Fault("the step of a slice is zero");
  const auto clamp = [&](std::int64_t at) {
    if (at < 0) at += size;
    return by > 0 ? std::clamp<std::int64_t>(at, 0, size) : std::clamp<std::int64_t>(at, -1, size - 1);
  };
  const auto first = bound(begin), last = bound(end);
  const std::int64_t from = first ? clamp(*first) : by > 0 ? 0 : size - 1;
  const std::int64_t to = last ? clamp(*last) : by > 0 ? size : -1;
  if (text != nullptr && by == 1)
    return Value::text(from < to ? text->slice(offsets[static_cast<std::size_t>(from)],
                                               offsets[static_cast<std::size_t>(to)])
                                 : MarkedText());
  MarkedText characters;
  std::vector<Value> items;
  for (std::int64_t at = from; by > 0 ? at < to : at > to;) {
    const auto i = static_cast<std::size_t>(at);
    if (text != nullptr) {
      budget.spend(sizeof(MarkRun));
      characters.append(*text, offsets[i], offsets[i + 1]);
    } else {
      budget.spend_items(1);
      items.push_back(list->items[i]);
    }
    if (__builtin_add_overflow(at, by, &at)) break;
  }
  return text != nullptr ? Value::text(std::move(characters)) : make_list(std::move(items), list->tuple);
}

}  // namespace lazytrain::jinja
