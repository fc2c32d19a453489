// The tests that stand behind `is`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja_filters.h"
#include "text/jinja_strings.h"

namespace lazytrain::jinja {
namespace {

using C = const FilterCall&;

bool is_whole(const Value& value) {
  return value.is<std::int64_t>();
}
bool is_number(const Value& value) {
  return is_whole(value) || value.is<double>() || value.is<bool>();
}

std::int64_t remainder_by(C call, std::int64_t divisor) {
  const Value result = binary(Operator::remainder, call.input, divisor, call.budget);
  return result.is<std::int64_t>() ? *result.get<std::int64_t>() : -1;
}

// A text in which some letter has a case, and all that have one have this one.
bool in_case(C call, bool is_upper) {
  const Value text = Value::text(to_text(call.input, call.budget));
  return truthy(call_method(text, is_upper ? "isupper" : "islower", {}, call.budget));
}

bool same(C call) {
  const Value& other = call.arguments.need(0);
  if (const MarkedText* text = call.input.as_text())
    return other.as_text() != nullptr && text->bytes() == other.as_text()->bytes();
  if (const List* list = call.input.as_list()) return list == other.as_list();
  if (const Dict* dict = call.input.as_dict()) return dict == other.as_dict();
  return call.input.data().index() == other.data().index() && equal(call.input, other, call.budget);
}

bool ordered(C call, bool (*holds)(int)) {
  return holds(compare(call.input, call.arguments.need(0), call.budget));
}
constexpr auto kEqual = [](C c) { return equal(c.input, c.arguments.need(0), c.budget); };
constexpr auto kNotEqual = [](C c) { return !equal(c.input, c.arguments.need(0), c.budget); };
constexpr auto kLess = [](C c) { return ordered(c, [](int o) { return o < 0; }); };
constexpr auto kLessEqual = [](C c) { return ordered(c, [](int o) { return o <= 0; }); };
constexpr auto kGreater = [](C c) { return ordered(c, [](int o) { return o > 0; }); };
constexpr auto kGreaterEqual = [](C c) { return ordered(c, [](int o) { return o >= 0; }); };

constexpr std::array kTests{
    Test{"defined", "", [](C c) { return !c.input.is<Undefined>(); }},
    Test{"undefined", "", [](C c) { return c.input.is<Undefined>(); }},
    Test{"none", "", [](C c) { return c.input.is<None>(); }},
    Test{"string", "", [](C c) { return c.input.as_text() != nullptr; }},
    Test{"number", "", [](C c) { return is_number(c.input); }},
    Test{"integer", "", [](C c) { return is_whole(c.input); }},
    Test{"float", "", [](C c) { return c.input.is<double>(); }},
    Test{"boolean", "", [](C c) { return c.input.is<bool>(); }},
    Test{"true", "", [](C c) { return c.input.is<bool>() && truthy(c.input); }},
    Test{"false", "", [](C c) { return c.input.is<bool>() && !truthy(c.input); }},
    Test{"mapping", "", [](C c) { return c.input.as_dict() != nullptr; }},
    Test{"sequence", "",
         [](C c) {
           return c.input.as_list() != nullptr || c.input.as_text() != nullptr ||
                  c.input.as_dict() != nullptr || c.input.is<Undefined>();
         }},
    Test{"iterable", "",
         [](C c) {
           return c.input.as_list() != nullptr || c.input.as_text() != nullptr ||
                  c.input.as_dict() != nullptr || c.input.is<Undefined>();
         }},
    Test{"callable", "", [](C c) { return c.input.is<Function>() || c.input.is<const Statement*>(); }},
    Test{"odd", "", [](C c) { return remainder_by(c, 2) == 1; }},
    Test{"even", "", [](C c) { return remainder_by(c, 2) == 0; }},
    Test{"divisibleby", "num", [](C c) { return remainder_by(c, c.arguments.whole(0, 0)) == 0; }},
    Test{"in", "seq", [](C c) { return contains(c.arguments.need(0), c.input, c.budget); }},
    Test{"sameas", "other", same},
    Test{"upper", "", [](C c) { return in_case(c, true); }},
    Test{"lower", "", [](C c) { return in_case(c, false); }},
    Test{"eq", "other", kEqual},
    Test{"equalto", "other", kEqual},
    Test{"==", "other", kEqual},
    Test{"ne", "other", kNotEqual},
    Test{"!=", "other", kNotEqual},
    Test{"lt", "other", kLess},
    Test{"lessthan", "other", kLess},
    Test{"<", "other", kLess},
    Test{"le", "other", kLessEqual},
    Test{"<=", "other", kLessEqual},
    Test{"gt", "other", kGreater},
    Test{"greaterthan", "other", kGreater},
    Test{">", "other", kGreater},
    Test{"ge", "other", kGreaterEqual},
    Test{">=", "other", kGreaterEqual},
    Test{"filter", "",
         [](C c) {
           return c.input.as_text() != nullptr && find_filter(c.input.as_text()->bytes()) != nullptr;
         }},
    Test{
        "test", "",
        [](C c) { return c.input.as_text() != nullptr && find_test(c.input.as_text()->bytes()) != nullptr; }},
};

}  // namespace

const Test* find_test(std::string_view name) {
  const auto* found =
      std::find_if(kTests.begin(), kTests.end(), [&](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : found;
}

bool holds(const Test& test, const Value& input, const Arguments& arguments, Budget& budget) {
  return test.holds({input, Bound(arguments, test.parameters, test.name), arguments, budget});
}

}  // namespace lazytrain::jinja
