// Expressions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja_filters.h"
#include "text/jinja_interpreter.h"

namespace lazytrain::jinja {
namespace {

constexpr std::array<std::pair<std::string_view, Function>, 5> kFunctions{
    {{"range", Function::range},
     {"namespace", Function::make_namespace},
     {"dict", Function::dict},
     {"raise_exception", Function::raise_exception},
     {"strftime_now", Function::strftime_now}}};

Value range(const Arguments& arguments, Budget& budget) {
  const std::size_t count = arguments.by_position.size();
  const Bound bound(arguments, count < 2 ? "stop" : "start stop step", "range");
  const std::int64_t begin = count < 2 ? 0 : bound.whole(0, 0);
  static_cast<void>(bound.need(count < 2 ? 0 : 1));
  const std::int64_t end = bound.whole(count < 2 ? 0 : 1, 0), step = count < 3 ? 1 : bound.whole(2, 1);
  if (step == 0) throw Fault("the step of 'range' is zero");
  std::vector<Value> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    budget.spend_items(1);
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return make_list(std::move(items));
}

std::string formatted_time(std::time_t now, const std::string& format) {
  constexpr std::size_t kLongest = 256;
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 4 * kLongest> buffer{};
  if (format.size() > kLongest || format.find('\0') != std::string::npos)
    throw Fault("'strftime_now' is given an unlikely format");
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
  return {buffer.data(), size};
}

}  // namespace

Value Interpreter::evaluate(const Expression& node) {
  try {
    return evaluate_unplaced(node);
  } catch (const Fault& fault) {
    throw PlacedFault{node.offset, fault.what(), fault.kind()};
  }
}

Value Interpreter::evaluate_unplaced(const Expression& node) {
  using Kind = Expression::Kind;
  constexpr int kDeepest = 800;
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  };
  if (depth_ >= kDeepest) throw Fault("the template calls itself too deeply", Fault::Kind::template_text);
  ++depth_;
  const Leave leave{depth_};
  budget_.spend(1);
  const auto operand = [&](std::size_t i) { return evaluate(*node.operands[i]); };
  switch (node.kind) {
    case Kind::literal:
      return node.literal;
    case Kind::name: {
      if (const Value* value = find(node.text)) return *value;
      const auto* function = std::find_if(kFunctions.begin(), kFunctions.end(),
                                          [&](const auto& entry) { return entry.first == node.text; });
      if (function != kFunctions.end()) return function->second;
      return Value::undefined(fmt::format("'{}'", node.text));
    }
    case Kind::list:
    case Kind::tuple: {
      std::vector<Value> items;
      for (const ExpressionPtr& part : node.operands) {
        budget_.spend_items(1);
        items.push_back(evaluate(*part));
      }
      return make_list(std::move(items), node.kind == Kind::tuple);
    }
    case Kind::dict:
      return make_mapping(node);
    case Kind::negate:
      return negate(operand(0));
    case Kind::positive:
      return negate(negate(operand(0)));
    case Kind::logical_not:
      return !truthy(operand(0));
    case Kind::logical_and: {
      Value left = operand(0);
      return truthy(left) ? operand(1) : left;
    }
    case Kind::logical_or: {
      Value left = operand(0);
      return truthy(left) ? left : operand(1);
    }
    case Kind::conditional:
      if (truthy(operand(0))) return operand(1);
      return node.operands.size() > 2 ? operand(2) : Value::undefined("the value of an `if` without `else`");
    case Kind::binary: {
      const Value left = operand(0);
      return binary(node.operators.front(), left, operand(1), budget_);
    }
    case Kind::compare:
      return compare_chain(node);
    case Kind::attribute:
      return attribute(operand(0), node.text, budget_);
    case Kind::item: {
      const Value object = operand(0);
      return item(object, operand(1), budget_);
    }
    case Kind::slice: {
      const Value object = operand(0);
      std::array<Value, 3> bounds;
      std::array<const Value*, 3> given{};
      for (std::size_t i = 0; i < 3; ++i) {
        if (!node.operands[i + 1]) continue;
        bounds[i] = operand(i + 1);
        given[i] = &bounds[i];
      }
      return slice(object, given[0], given[1], given[2], budget_);
    }
    case Kind::call:
      return call(node);
    case Kind::filter:
      return filtered(node, nullptr);
    case Kind::test: {
      const Value input = operand(0);
      return holds(*node.test, input, arguments(node), budget_);
    }
  }
  return {};
}

Value Interpreter::make_mapping(const Expression& node) {
  std::vector<std::pair<Text, Value>> entries;
  for (std::size_t i = 0; i + 1 < node.operands.size(); i += 2) {
    budget_.spend_items(2);
    const Value key = evaluate(*node.operands[i]);
    const Text* name = key.get<Text>();
    if (name == nullptr) throw Fault(fmt::format("the key of a mapping is {}, not a text", type_name(key)));
    entries.emplace_back(*name, evaluate(*node.operands[i + 1]));
  }
  return make_dict(std::move(entries));
}

Value Interpreter::compare_chain(const Expression& node) {
  Value left = evaluate(*node.operands[0]);
  for (std::size_t i = 0; i < node.operators.size(); ++i) {
    Value right = evaluate(*node.operands[i + 1]);
    const Operator operation = node.operators[i];
    bool holds = false;
    if (operation == Operator::equal || operation == Operator::not_equal) {
      holds = equal(left, right, budget_) == (operation == Operator::equal);
    } else if (operation == Operator::in || operation == Operator::not_in) {
      holds = contains(right, left, budget_) == (operation == Operator::in);
    } else {
      for (const Value* value : {&left, &right})
        if (value->is<Undefined>()) refuse_undefined(*value);
      const int order = compare(left, right, budget_);
      holds = operation == Operator::less         ? order < 0
              : operation == Operator::less_equal ? order <= 0
              : operation == Operator::greater    ? order > 0
                                                  : order >= 0;
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

Arguments Interpreter::arguments(const Expression& node) {
  Arguments result;
  const std::size_t count = node.operands.size() - 1, named = node.names.size();
  for (std::size_t i = 0; i < count; ++i) {
    budget_.spend_items(1);
    Value value = evaluate(*node.operands[i + 1]);
    if (i + named < count) {
      result.by_position.push_back(std::move(value));
    } else {
      result.by_name.emplace_back(node.names[i + named - count], std::move(value));
    }
  }
  return result;
}

Value Interpreter::filtered(const Expression& node, const Value* block_text) {
  // The innermost filter of a block has no input of its own.
  const Value* outer = block_text_;
  if (block_text != nullptr) block_text_ = block_text;
  const ExpressionPtr& input = node.operands.front();
  const Value value = input ? evaluate(*input) : *block_text_;
  block_text_ = outer;
  return apply(*node.filter, value, arguments(node), budget_);
}

Value Interpreter::call(const Expression& node) {
  const Expression& callee = *node.operands.front();
  if (callee.kind == Expression::Kind::attribute) {
    const Value object = evaluate(*callee.operands.front());
    if (object.is<Undefined>()) refuse_undefined(object);
    Value value;
    if (!object.as_text() && !object.as_list()) value = attribute(object, callee.text, budget_);
    if (value.is<Undefined>() || value.is<Function>())
      return call_method(object, callee.text, arguments(node), budget_);
    if (const auto* macro = value.get<const Statement*>()) return call_macro(**macro, arguments(node));
    throw Fault(fmt::format("'{}' is {} and cannot be called", callee.text, type_name(value)));
  }
  const Value value = evaluate(callee);
  if (const auto* macro = value.get<const Statement*>()) return call_macro(**macro, arguments(node));
  if (const auto* function = value.get<Function>()) return call_function(*function, arguments(node));
  if (value.is<Undefined>()) refuse_undefined(value);
  throw Fault(fmt::format("{} cannot be called", type_name(value)));
}

Value Interpreter::call_function(Function function, const Arguments& arguments) {
  switch (function) {
    case Function::range:
      return range(arguments, budget_);
    case Function::make_namespace:
    case Function::dict: {
      std::vector<std::pair<Text, Value>> entries;
      const Arguments first{arguments.by_position, {}};
      const Bound bound(first, "mapping", "dict");
      if (bound[0] != nullptr) {
        const Dict* dict = bound[0]->as_dict();
        if (dict == nullptr) throw Fault(fmt::format("{} cannot become a mapping", type_name(*bound[0])));
        budget_.spend_items(dict->entries.size() * 2);
        entries = dict->entries;
      }
      for (const auto& [name, value] : arguments.by_name)
        entries.emplace_back(std::make_shared<const MarkedText>(name), value);
      if (function == Function::dict) return make_dict(std::move(entries));
      auto space = std::make_shared<Namespace>();
      for (auto& [name, value] : entries) space->set(name->bytes(), std::move(value));
      return space;
    }
    case Function::raise_exception: {
      const Bound bound(arguments, "message", "raise_exception");
      throw Fault(
          fmt::format("the template refuses the conversation: {}", to_text(bound.need(0), budget_).bytes()));
    }
    case Function::strftime_now: {
      const Bound bound(arguments, "format", "strftime_now");
      return Value::text(formatted_time(now_, bound.need_text(0).bytes()));
    }
    case Function::method:
      break;
  }
  throw Fault("a method can only be called where it is named");
}

}  // namespace lazytrain::jinja
