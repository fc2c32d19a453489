#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "text/jinja_strings.h"

namespace lazytrain::jinja {
namespace {

// JSON documents nest up to 200 levels, and templates wrap them.
constexpr int kDeepest = 256;

bool is_number(const Value& value) {
  return value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
}

double number_of(const Value& value) {
  if (const auto* b = value.get<bool>()) return *b ? 1 : 0;
  if (const auto* i = value.get<std::int64_t>()) return static_cast<double>(*i);
  return *value.get<double>();
}

std::int64_t whole_of(const Value& value) {
  if (const auto* b = value.get<bool>()) return *b ? 1 : 0;
  return *value.get<std::int64_t>();
}

int order(const auto& left, const auto& right) {
  return left < right ? -1 : right < left ? 1 : 0;
}

int compare_numbers(const Value& left, const Value& right) {
  if (left.is<double>() || right.is<double>()) return order(number_of(left), number_of(right));
  return order(whole_of(left), whole_of(right));
}

void add_nesting(int& depth, bool& can_change, const Value& value) {
  depth = std::max(depth, value.depth() + 1);
  can_change = can_change || value.can_change();
}

void require_depth(int depth) {
  if (depth > kDeepest) throw Fault(fmt::format("values are nested deeper than {} levels", kDeepest));
}

}  // namespace

void Budget::spend(std::size_t units) {
  if (units > static_cast<std::size_t>(left_)) {
    left_ = 0;
    throw Fault(
        "the template takes too many steps or makes too much text; name another with the key `template`",
        Fault::Kind::template_text);
  }
  left_ -= static_cast<std::int64_t>(units);
}

void Budget::spend_items(std::size_t count) {
  if (count > (std::size_t{1} << 32)) count = std::size_t{1} << 32;
  spend(count * sizeof(Value));
}

Value Value::undefined(std::string what) {
  return Undefined{std::make_shared<const std::string>(std::move(what))};
}
Value Value::text(std::string bytes, Mark mark) {
  return std::make_shared<const MarkedText>(std::move(bytes), mark);
}
Value Value::text(MarkedText text) {
  return std::make_shared<const MarkedText>(std::move(text));
}
const MarkedText* Value::as_text() const {
  const Text* text = get<Text>();
  return text == nullptr ? nullptr : text->get();
}
const List* Value::as_list() const {
  const ListPtr* list = get<ListPtr>();
  return list == nullptr ? nullptr : list->get();
}
const Dict* Value::as_dict() const {
  const DictPtr* dict = get<DictPtr>();
  return dict == nullptr ? nullptr : dict->get();
}

int Value::depth() const {
  if (const List* list = as_list()) return list->depth;
  if (const Dict* dict = as_dict()) return dict->depth;
  return 0;
}

bool Value::can_change() const {
  if (const List* list = as_list()) return list->can_change;
  if (const Dict* dict = as_dict()) return dict->can_change;
  return is<std::shared_ptr<Namespace>>() || is<std::shared_ptr<const Loop>>();
}

Value make_list(std::vector<Value> items, bool tuple) {
  auto list = std::make_shared<List>();
  list->items = std::move(items);
  list->tuple = tuple;
  for (const Value& item : list->items) add_nesting(list->depth, list->can_change, item);
  require_depth(list->depth);
  return ListPtr(std::move(list));
}

Value make_dict(std::vector<std::pair<Text, Value>> entries, std::int32_t turn) {
  auto dict = std::make_shared<Dict>();
  dict->turn = turn;
  dict->entries.reserve(entries.size());
  std::unordered_map<std::string_view, std::size_t> places;
  for (auto& entry : entries) {
    add_nesting(dict->depth, dict->can_change, entry.second);
    const auto [place, fresh] = places.try_emplace(entry.first->bytes(), dict->entries.size());
    if (fresh) {
      dict->entries.push_back(std::move(entry));
    } else {
      dict->entries[place->second].second = std::move(entry.second);
    }
  }
  require_depth(dict->depth);
  return DictPtr(std::move(dict));
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name->bytes() == key) return &value;
  return nullptr;
}

const Value* Namespace::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

void Namespace::set(std::string_view key, Value value) {
  // One that could reach itself would never be freed.
  if (value.can_change()) throw Fault("a namespace cannot hold a namespace or a loop");
  for (auto& entry : entries) {
    if (entry.first == key) {
      entry.second = std::move(value);
      return;
    }
  }
  entries.emplace_back(key, std::move(value));
}

std::string_view type_name(const Value& value) {
  struct Names {
    std::string_view operator()(const Undefined&) const { return "undefined"; }
    std::string_view operator()(None) const { return "none"; }
    std::string_view operator()(bool) const { return "a bool"; }
    std::string_view operator()(std::int64_t) const { return "a whole number"; }
    std::string_view operator()(double) const { return "a number"; }
    std::string_view operator()(const Text&) const { return "a text"; }
    std::string_view operator()(const ListPtr&) const { return "a list"; }
    std::string_view operator()(const DictPtr&) const { return "a mapping"; }
    std::string_view operator()(const std::shared_ptr<Namespace>&) const { return "a namespace"; }
    std::string_view operator()(const std::shared_ptr<const Loop>&) const { return "a loop"; }
    std::string_view operator()(Function) const { return "a function"; }
    std::string_view operator()(const Statement*) const { return "a macro"; }
  };
  return std::visit(Names{}, value.data());
}

bool truthy(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (is_number(value)) return number_of(value) != 0;
  if (const MarkedText* text = value.as_text()) return !text->empty();
  if (const List* list = value.as_list()) return !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.spend(1);
  if (is_number(left) && is_number(right)) return compare_numbers(left, right) == 0;
  if (left.data().index() != right.data().index()) return false;
  if (const MarkedText* text = left.as_text()) {
    budget.spend(text->size() / 16);
    return text->bytes() == right.as_text()->bytes();
  }
  if (const List* list = left.as_list()) {
    const List* other = right.as_list();
    return list->tuple == other->tuple &&
           std::equal(list->items.begin(), list->items.end(), other->items.begin(), other->items.end(),
                      [&](const Value& a, const Value& b) { return equal(a, b, budget); });
  }
  if (const Dict* dict = left.as_dict()) {
    const Dict* other = right.as_dict();
    if (dict->entries.size() != other->entries.size()) return false;
    for (const auto& [key, value] : dict->entries) {
      budget.spend(other->entries.size());
      const Value* found = other->find(key->bytes());
      if (found == nullptr || !equal(value, *found, budget)) return false;
    }
    return true;
  }
  if (const auto* space = left.get<std::shared_ptr<Namespace>>())
    return *space == *right.get<std::shared_ptr<Namespace>>();
  if (const auto* function = left.get<Function>()) return *function == *right.get<Function>();
  if (const auto* macro = left.get<const Statement*>()) return *macro == *right.get<const Statement*>();
  return !left.is<std::shared_ptr<const Loop>>();  // undefined and none equal themselves
}

int compare(const Value& left, const Value& right, Budget& budget, bool fold) {
  budget.spend(1);
  if (is_number(left) && is_number(right)) return compare_numbers(left, right);
  const MarkedText *a = left.as_text(), *b = right.as_text();
  if (a != nullptr && b != nullptr) {
    budget.spend((std::min(a->size(), b->size()) / 16) + 1);
    // The order of UTF-8 is that of code points.
    return fold ? order(lower(*a).bytes(), lower(*b).bytes()) : order(a->bytes(), b->bytes());
  }
  const List *list = left.as_list(), *other = right.as_list();
  if (list != nullptr && other != nullptr) {
    const std::size_t common = std::min(list->items.size(), other->items.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (!equal(list->items[i], other->items[i], budget))
        return compare(list->items[i], other->items[i], budget, fold);
    }
    return order(list->items.size(), other->items.size());
  }
  throw Fault(fmt::format("{} and {} have no order", type_name(left), type_name(right)));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const MarkedText* text = container.as_text()) {
    const MarkedText* part = item.as_text();
    if (part == nullptr)
      throw Fault(fmt::format("`in` looks for {} in a text; only a text can be there", type_name(item)));
    budget.spend((text->size() / 16) + 1);
    return text->bytes().find(part->bytes()) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) {
    budget.spend(dict->entries.size());
    const MarkedText* key = item.as_text();
    return key != nullptr && dict->find(key->bytes()) != nullptr;
  }
  const ListPtr items = iterate(container, budget);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& each) { return equal(each, item, budget); });
}

ListPtr iterate(const Value& value, Budget& budget) {
  if (const ListPtr* list = value.get<ListPtr>()) return *list;
  auto items = std::make_shared<List>();
  if (value.is<Undefined>()) return items;
  if (const Dict* dict = value.as_dict()) {
    budget.spend_items(dict->entries.size());
    for (const auto& entry : dict->entries) items->items.emplace_back(entry.first);
    return items;
  }
  if (const MarkedText* text = value.as_text()) {
    for (std::size_t at = 0; at < text->size();) {
      const std::size_t next = next_character(text->bytes(), at);
      budget.spend_items(3);
      items->items.push_back(Value::text(text->slice(at, next)));
      at = next;
    }
    return items;
  }
  throw Fault(fmt::format("{} cannot be gone through", type_name(value)));
}

}  // namespace lazytrain::jinja
