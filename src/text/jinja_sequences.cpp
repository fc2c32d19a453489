// Filters that go over the items of a sequence.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "text/jinja_filters.h"
#include "text/jinja_strings.h"

namespace lazytrain::jinja {
namespace {

using C = const FilterCall&;

// The value of an item that `attribute=` of a filter asks for: a path, or a place.
Value part_of(const Value& each, const Value* path, Budget& budget, const Value* absent = nullptr) {
  budget.spend(1);
  if (path == nullptr || path->is<None>()) return each;
  if (const MarkedText* text = path->as_text()) return attribute_path(each, text->bytes(), budget, absent);
  return item(each, *path, budget);
}

Value list_of(std::vector<Value> items, Budget& budget) {
  budget.spend_items(items.size());
  return make_list(std::move(items));
}

// Texts compare without regard to case unless told.
bool folds(C call, std::size_t parameter) {
  return !call.arguments.truth(parameter, false);
}

Value joined(C call) {
  const ListPtr items = iterate(call.input, call.budget);
  const MarkedText between =
      call.arguments[0] != nullptr ? to_text(*call.arguments[0], call.budget) : MarkedText();
  MarkedText result;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    call.budget.spend_text(between);
    if (i > 0) result.append(between);
    result.append(to_text(part_of(items->items[i], call.arguments[1], call.budget), call.budget));
  }
  return Value::text(std::move(result));
}

Value as_list(C call) {
  return list_of(iterate(call.input, call.budget)->items, call.budget);
}

Value edge(C call, bool first) {
  const ListPtr items = iterate(call.input, call.budget);
  if (items->items.empty())
    return Value::undefined(first ? "the first item of an empty sequence"
                                  : "the last item of an empty sequence");
  return first ? items->items.front() : items->items.back();
}

Value reversed(C call) {
  std::vector<Value> items = iterate(call.input, call.budget)->items;
  std::reverse(items.begin(), items.end());
  if (call.input.as_text() == nullptr) return list_of(std::move(items), call.budget);
  MarkedText text;
  for (const Value& each : items) text.append(*each.as_text());
  return Value::text(std::move(text));
}

// Stable, by the key of each item; a fault of a comparison passes through.
template <typename Key>
void sort_by(std::vector<Value>& items, const Key& key, bool fold, bool reverse, Budget& budget) {
  std::vector<std::pair<Value, Value>> keyed;
  budget.spend_items(items.size() * 2);
  keyed.reserve(items.size());
  for (Value& each : items) keyed.emplace_back(key(each), std::move(each));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    const int order = compare(a.first, b.first, budget, fold);
    return reverse ? order > 0 : order < 0;
  });
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = std::move(keyed[i].second);
}

Value sorted(C call) {
  std::vector<Value> items = iterate(call.input, call.budget)->items;
  sort_by(
      items, [&](const Value& each) { return part_of(each, call.arguments[2], call.budget); }, folds(call, 1),
      call.arguments.truth(0, false), call.budget);
  return list_of(std::move(items), call.budget);
}

Value entries(C call) {
  if (call.input.is<Undefined>()) return make_list({});
  if (call.input.as_dict() == nullptr)
    throw Fault(fmt::format("'items' is given {}, not a mapping", type_name(call.input)));
  return call_method(call.input, "items", {}, call.budget);
}

Value dict_sorted(C call) {
  if (call.input.as_dict() == nullptr)
    throw Fault(fmt::format("'dictsort' is given {}, not a mapping", type_name(call.input)));
  const MarkedText* by = call.arguments.text(1);
  if (by != nullptr && by->bytes() != "key" && by->bytes() != "value")
    throw Fault("'dictsort' sorts by key or by value");
  const std::size_t part = by != nullptr && by->bytes() == "value" ? 1 : 0;
  std::vector<Value> items = call_method(call.input, "items", {}, call.budget).as_list()->items;
  sort_by(
      items, [&](const Value& each) { return each.as_list()->items[part]; }, folds(call, 0),
      call.arguments.truth(2, false), call.budget);
  return list_of(std::move(items), call.budget);
}

Value unique(C call) {
  std::vector<Value> kept, keys;
  const auto folded = [&](const Value& key) {
    const MarkedText* text = key.as_text();
    return text != nullptr && folds(call, 0) ? Value::text(lower(*text)) : key;
  };
  const ListPtr items = iterate(call.input, call.budget);
  for (const Value& each : items->items) {
    Value key = folded(part_of(each, call.arguments[1], call.budget));
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key, call.budget); });
    if (known) continue;
    kept.push_back(each);
    keys.push_back(std::move(key));
  }
  return list_of(std::move(kept), call.budget);
}

Value extreme(C call, int sign) {
  const ListPtr items = iterate(call.input, call.budget);
  if (items->items.empty()) return Value::undefined("the extreme of an empty sequence");
  const Value* best = nullptr;
  Value best_key;
  for (const Value& each : items->items) {
    Value key = part_of(each, call.arguments[1], call.budget);
    if (best != nullptr && compare(key, best_key, call.budget, folds(call, 0)) * sign <= 0) continue;
    best = &each;
    best_key = std::move(key);
  }
  return *best;
}

Value sum(C call) {
  Value total = call.arguments[1] != nullptr ? *call.arguments[1] : Value(std::int64_t{0});
  const ListPtr items = iterate(call.input, call.budget);
  for (const Value& each : items->items)
    total = binary(Operator::add, total, part_of(each, call.arguments[0], call.budget), call.budget);
  return total;
}

const Value* named(const Arguments& arguments, std::string_view name) {
  for (const auto& [key, value] : arguments.by_name)
    if (key == name) return &value;
  return nullptr;
}

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  const auto begin = std::min(count, arguments.by_position.size());
  return {{arguments.by_position.begin() + static_cast<std::ptrdiff_t>(begin), arguments.by_position.end()},
          arguments.by_name};
}

const std::string& name_of(const Value& value, std::string_view what) {
  const MarkedText* text = value.as_text();
  if (text == nullptr) throw Fault(fmt::format("the name of {} is {}, not a text", what, type_name(value)));
  return text->bytes();
}

Value mapped(C call) {
  const ListPtr items = iterate(call.input, call.budget);
  std::vector<Value> results;
  call.budget.spend_items(items->items.size());
  if (call.all.by_position.empty()) {
    const Value* path = named(call.all, "attribute");
    const Value* absent = named(call.all, "default");
    if (path == nullptr) throw Fault("'map' needs a filter or attribute=");
    for (const Value& each : items->items) results.push_back(part_of(each, path, call.budget, absent));
    return make_list(std::move(results));
  }
  const std::string& name = name_of(call.all.by_position.front(), "a filter");
  const Filter* filter = find_filter(name);
  if (filter == nullptr)
    throw Fault(fmt::format("the filter '{}' is not known", name), Fault::Kind::template_text);
  const Arguments arguments = rest_of(call.all, 1);
  for (const Value& each : items->items) {
    call.budget.spend(4);
    results.push_back(apply(*filter, each, arguments, call.budget));
  }
  return make_list(std::move(results));
}

// select, reject (`skip` 0) and selectattr, rejectattr (`skip` 1: the attribute).
Value selected(C call, bool wanted, std::size_t skip) {
  const std::vector<Value>& given = call.all.by_position;
  if (given.size() < skip) throw Fault("an attribute must be named");
  const Test* test = nullptr;
  if (given.size() > skip) {
    const std::string& name = name_of(given[skip], "a test");
    test = find_test(name);
    if (test == nullptr)
      throw Fault(fmt::format("the test '{}' is not known", name), Fault::Kind::template_text);
  }
  const Arguments arguments = rest_of(call.all, skip + 1);
  std::vector<Value> kept;
  const ListPtr items = iterate(call.input, call.budget);
  for (const Value& each : items->items) {
    const Value value = part_of(each, skip == 1 ? &given.front() : nullptr, call.budget);
    const bool is = test != nullptr ? holds(*test, value, arguments, call.budget) : truthy(value);
    if (is == wanted) kept.push_back(each);
  }
  return list_of(std::move(kept), call.budget);
}

Value batched(C call) {
  const std::int64_t size = call.arguments.whole(0, 0);
  if (size < 1) throw Fault("'batch' needs a size of at least 1");
  std::vector<Value> batches, batch;
  const auto close = [&] {
    call.budget.spend_items(batch.size() + 4);
    batches.push_back(make_list(std::exchange(batch, {})));
  };
  const ListPtr items = iterate(call.input, call.budget);
  for (const Value& each : items->items) {
    batch.push_back(each);
    if (std::ssize(batch) == size) close();
  }
  if (!batch.empty()) {
    while (call.arguments[1] != nullptr && !call.arguments[1]->is<None>() && std::ssize(batch) < size) {
      call.budget.spend_items(1);
      batch.push_back(*call.arguments[1]);
    }
    close();
  }
  return make_list(std::move(batches));
}

constexpr std::array kFilters{
    Filter{"join", "d attribute", joined},
    Filter{"list", "", as_list},
    Filter{"first", "", [](C c) { return edge(c, true); }},
    Filter{"last", "", [](C c) { return edge(c, false); }},
    Filter{"reverse", "", reversed},
    Filter{"sort", "reverse case_sensitive attribute", sorted},
    Filter{"items", "", entries},
    Filter{"dictsort", "case_sensitive by reverse", dict_sorted},
    Filter{"unique", "case_sensitive attribute", unique},
    Filter{"min", "case_sensitive attribute", [](C c) { return extreme(c, -1); }},
    Filter{"max", "case_sensitive attribute", [](C c) { return extreme(c, 1); }},
    Filter{"sum", "attribute start", sum},
    Filter{"batch", "linecount fill_with", batched},
    Filter{"map", "*", mapped},
    Filter{"select", "*", [](C c) { return selected(c, true, 0); }},
    Filter{"reject", "*", [](C c) { return selected(c, false, 0); }},
    Filter{"selectattr", "*", [](C c) { return selected(c, true, 1); }},
    Filter{"rejectattr", "*", [](C c) { return selected(c, false, 1); }},
};

}  // namespace

std::span<const Filter> sequence_filters() {
  return kFilters;
}

}  // namespace lazytrain::jinja
