// What Python's operators, attributes and methods do with the values of a template. All throw Fault where
// Python would raise; a missing attribute, key or place is undefined, as Jinja has it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace lazytrain::jinja {

struct Arguments {
  std::vector<Value> by_position;
  std::vector<std::pair<std::string, Value>> by_name;
};

// The values of named parameters, each null where it was not given. `parameters` is a list with spaces
// between; Fault where an argument fits none.
class Bound {
 public:
  Bound(const Arguments& arguments, std::string_view parameters, std::string_view callee);
  Bound(Arguments&&, std::string_view, std::string_view) = delete;  // it points into them
  [[nodiscard]] const Value* operator[](std::size_t index) const {
    return index < values_.size() ? values_[index] : nullptr;
  }
  [[nodiscard]] const Value& need(std::size_t index) const;
  // Whole numbers, texts and truth of a parameter, or what counts where it was not given (or is none).
  [[nodiscard]] std::int64_t whole(std::size_t index, std::int64_t otherwise) const;
  [[nodiscard]] const MarkedText* text(std::size_t index) const;  // null where it was not given or is none
  [[nodiscard]] const MarkedText& need_text(std::size_t index) const;
  [[nodiscard]] bool truth(std::size_t index, bool otherwise) const;

 private:
  std::string_view callee_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

Value binary(Operator operation, const Value& left, const Value& right, Budget& budget);
Value negate(const Value& value);

Value attribute(const Value& object, std::string_view name, Budget& budget);
Value item(const Value& object, const Value& key, Budget& budget);
// Of "a.b.0": keys, attributes and places. `absent`, where given, stands for what is undefined on the way.
Value attribute_path(const Value& object, std::string_view path, Budget& budget,
                     const Value* absent = nullptr);
// Null pointers: not given.
Value slice(const Value& object, const Value* begin, const Value* end, const Value* step, Budget& budget);

// Whether attribute() is to give the method rather than a key of that name.
bool is_dict_method(std::string_view name);
// Faults name methods that exist in Python but not here, and those that would change their object.
Value call_method(const Value& object, std::string_view name, const Arguments& arguments, Budget& budget);

// Fault with the sentence for an undefined value that is used.
[[noreturn]] void refuse_undefined(const Value& value);

}  // namespace lazytrain::jinja
