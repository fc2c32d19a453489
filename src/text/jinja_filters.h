// The filters and tests of chat templates, by name.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja_operators.h"
#include "text/jinja_value.h"

namespace lazytrain::jinja {

struct FilterCall {
  const Value& input;
  const Bound& arguments;
  const Arguments& all;  // also those that `parameters` leaves open
  Budget& budget;
};

struct Filter {
  std::string_view name;
  std::string_view parameters;  // "*": any
  Value (*apply)(const FilterCall&);
};

struct Test {
  std::string_view name;
  std::string_view parameters;
  bool (*holds)(const FilterCall&);
};

// Null where there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

Value apply(const Filter& filter, const Value& input, const Arguments& arguments, Budget& budget);
bool holds(const Test& test, const Value& input, const Arguments& arguments, Budget& budget);

// Those that go over sequences; in jinja_sequences.cpp.
std::span<const Filter> sequence_filters();

}  // namespace lazytrain::jinja
