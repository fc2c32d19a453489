// The values that a chat template computes with: those of Python, as far as templates need them. Texts carry
// marks (text/marked_text.h). Values are immutable except namespaces and loops; how deep they nest is
// bounded, so that functions over them may recurse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja_budget.h"
#include "text/marked_text.h"

namespace lazytrain::jinja {

struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Statement;

struct Undefined {
  std::shared_ptr<const std::string> what;  // "'x'", for messages; may be null
};
struct None {};
// Callables that are no macros.
enum class Function : std::uint8_t { range, make_namespace, dict, raise_exception, strftime_now, method };

using Text = std::shared_ptr<const MarkedText>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;

class Value {
 public:
  using Data =
      std::variant<Undefined, None, bool, std::int64_t, double, Text, ListPtr, DictPtr,
                   std::shared_ptr<Namespace>, std::shared_ptr<const Loop>, Function, const Statement*>;

  Value() = default;  // undefined
  template <typename T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, Value> && std::is_constructible_v<Data, T&&>)
      Value(T&& data)
      : data_(std::forward<T>(data)) {}  // NOLINT: a value is any of these
  static Value undefined(std::string what);
  static Value text(std::string bytes, Mark mark = {});
  static Value text(MarkedText text);

  template <typename T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(data_);
  }
  // Null where the value is something else.
  template <typename T>
  [[nodiscard]] const T* get() const {
    return std::get_if<T>(&data_);
  }
  [[nodiscard]] const MarkedText* as_text() const;
  [[nodiscard]] const List* as_list() const;
  [[nodiscard]] const Dict* as_dict() const;
  [[nodiscard]] const Data& data() const { return data_; }

  [[nodiscard]] int depth() const;        // of lists and dicts; 0: neither
  [[nodiscard]] bool can_change() const;  // it is or holds a namespace or a loop

 private:
  Data data_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
  bool can_change = false;
};

struct Dict {
  std::vector<std::pair<Text, Value>> entries;  // in the order of insertion
  std::int32_t turn = -1;                       // a message: its place in the conversation
  int depth = 1;
  bool can_change = false;
  [[nodiscard]] const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> entries;
  [[nodiscard]] const Value* find(std::string_view key) const;
  void set(std::string_view key, Value value);  // Fault where the value could hold a namespace
};

// What `loop` is inside a for block.
struct Loop {
  ListPtr items;
  std::size_t index = 0;
};

// Fault where the result would nest too deep.
Value make_list(std::vector<Value> items, bool tuple = false);
// A later entry replaces an earlier one with the same key.
Value make_dict(std::vector<std::pair<Text, Value>> entries, std::int32_t turn = -1);

// Python's names: "str", "int", "list"...
std::string_view type_name(const Value& value);

bool truthy(const Value& value);
bool equal(const Value& left, const Value& right, Budget& budget);
// -1, 0 or 1; Fault where Python has no order for the two. `fold`: texts without regard to case.
int compare(const Value& left, const Value& right, Budget& budget, bool fold = false);
bool contains(const Value& container, const Value& item, Budget& budget);
// What a for block goes over: items, keys, characters. Fault where the value has none.
ListPtr iterate(const Value& value, Budget& budget);

// Python's str(): texts as they are, None, True, [1, 'a'].
MarkedText to_text(const Value& value, Budget& budget);
std::string number_text(double number);

struct JsonStyle {
  int indent = -1;  // -1: on one line
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false, ascii = false;
};
// Python's json.dumps().
MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget);

}  // namespace lazytrain::jinja
