// Statements.
#include "text/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_filters.h"

namespace lazytrain::jinja {

// Of nested statements, expressions and macro calls: what the stack must hold.
constexpr int kDeepestCalls = 800;

class Interpreter::Deeper {
 public:
  explicit Deeper(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= kDeepestCalls)
      throw Fault("the template calls itself too deeply", Fault::Kind::template_text);
    ++interpreter.depth_;
    interpreter.budget_.spend(1);
  }
  ~Deeper() { --interpreter_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Interpreter& interpreter_;
};

class Interpreter::Scope {
 public:
  explicit Scope(Interpreter& interpreter, bool closed = false) : interpreter_(interpreter) {
    interpreter.frames_.emplace_back();
    interpreter.frames_.back().closed = closed;
  }
  ~Scope() { interpreter_.frames_.pop_back(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Interpreter& interpreter_;
};

const Value* Interpreter::find(std::string_view name) const {
  const auto in = [&](const Frame& frame) -> const Value* {
    for (const auto& [key, value] : frame.variables)
      if (key == name) return &value;
    return nullptr;
  };
  for (std::size_t i = frames_.size(); i-- > 0;) {
    if (const Value* value = in(frames_[i])) return value;
    if (frames_[i].closed) i = std::min<std::size_t>(i, 1);
  }
  return nullptr;
}

void Interpreter::set(std::string_view name, Value value) {
  auto& variables = frames_.back().variables;
  for (auto& entry : variables) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  budget_.spend_items(1);
  variables.emplace_back(name, std::move(value));
}

void Interpreter::write(const MarkedText& text) {
  budget_.spend_text(text);
  std::size_t begin = 0;
  for (const MarkRun& run : text.runs()) {
    Mark mark = run.mark;
    if (mark.turn < 0) mark.turn = turn_;
    mark.generated = mark.generated || generating_;
    output_->append(std::string_view(text.bytes()).substr(begin, run.end - begin), mark);
    begin = run.end;
  }
}

MarkedText Interpreter::run() {
  MarkedText result;
  output_ = &result;
  execute(parsed_.body);
  return result;
}

MarkedText Interpreter::capture(const Block& block, Flow& flow) {
  MarkedText text;
  MarkedText* outer = std::exchange(output_, &text);
  flow = execute(block);
  output_ = outer;
  return text;
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const Statement& statement : block) {
    Flow flow = Flow::on;
    try {
      flow = execute(statement);
    } catch (const Fault& fault) {
      throw PlacedFault{statement.offset, fault.what(), fault.kind()};
    }
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Deeper deeper(*this);
  Flow flow = Flow::on;
  switch (statement.kind) {
    case Statement::Kind::data:
      write(statement.literal);
      break;
    case Statement::Kind::print:
      write(to_text(evaluate(*statement.expressions.front()), budget_));
      break;
    case Statement::Kind::condition:
      return condition(statement);
    case Statement::Kind::loop:
      return loop(statement);
    case Statement::Kind::assign:
      assign(statement, evaluate(*statement.expressions.front()));
      break;
    case Statement::Kind::capture: {
      Value text;
      {
        const Scope scope(*this);
        text = Value::text(capture(statement.blocks.front(), flow));
      }
      if (!statement.expressions.empty()) text = filtered(*statement.expressions.front(), &text);
      assign(statement, std::move(text));
      break;
    }
    case Statement::Kind::macro:
      set(statement.text, &statement);
      break;
    case Statement::Kind::scope: {
      std::vector<Value> values;
      for (const ExpressionPtr& expression : statement.expressions) values.push_back(evaluate(*expression));
      const Scope scope(*this);
      for (std::size_t i = 0; i < values.size(); ++i) set(statement.names[i], std::move(values[i]));
      return execute(statement.blocks.front());
    }
    case Statement::Kind::filtered: {
      Value text;
      {
        const Scope scope(*this);
        text = Value::text(capture(statement.blocks.front(), flow));
      }
      write(to_text(filtered(*statement.expressions.front(), &text), budget_));
      break;
    }
    case Statement::Kind::generation: {
      const bool outer = std::exchange(generating_, true);
      flow = execute(statement.blocks.front());
      generating_ = outer;
      break;
    }
    case Statement::Kind::leave:
      return Flow::leave;
    case Statement::Kind::next:
      return Flow::next;
  }
  return flow;
}

Interpreter::Flow Interpreter::condition(const Statement& statement) {
  for (std::size_t i = 0; i < statement.expressions.size(); ++i)
    if (truthy(evaluate(*statement.expressions[i]))) return execute(statement.blocks[i]);
  return statement.blocks.size() > statement.expressions.size() ? execute(statement.blocks.back()) : Flow::on;
}

void Interpreter::bind(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) return set(names.front(), value);
  if (value.is<Undefined>()) refuse_undefined(value);
  const ListPtr items = iterate(value, budget_);
  if (items->items.size() != names.size())
    throw Fault(fmt::format("{} values are given to {} variables", items->items.size(), names.size()));
  for (std::size_t i = 0; i < names.size(); ++i) set(names[i], items->items[i]);
}

void Interpreter::assign(const Statement& statement, Value value) {
  if (statement.text.empty()) return bind(statement.names, value);
  const Value* object = find(statement.names.front());
  const auto* space = object != nullptr ? object->get<std::shared_ptr<Namespace>>() : nullptr;
  if (space == nullptr)
    throw Fault(fmt::format("'{}' is no namespace, so it has no attributes to set", statement.names.front()));
  budget_.spend_items(1);
  (*space)->set(statement.text, std::move(value));
}

Interpreter::Flow Interpreter::loop(const Statement& statement) {
  ListPtr items = iterate(evaluate(*statement.expressions.front()), budget_);
  if (statement.expressions.size() > 1) {
    std::vector<Value> kept;
    for (const Value& each : items->items) {
      const Scope scope(*this);
      bind(statement.names, each);
      if (truthy(evaluate(*statement.expressions[1]))) kept.push_back(each);
    }
    budget_.spend_items(kept.size());
    items = *make_list(std::move(kept)).get<ListPtr>();
  }
  if (items->items.empty()) {
    if (statement.blocks.size() < 2) return Flow::on;
    const Scope scope(*this);
    return execute(statement.blocks[1]);
  }
  const std::int32_t turn = turn_;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Value& each = items->items[i];
    const Scope scope(*this);
    budget_.spend_items(4);
    set("loop", std::shared_ptr<const Loop>(std::make_shared<Loop>(Loop{items, i})));
    bind(statement.names, each);
    if (const Dict* message = each.as_dict(); message != nullptr && message->turn >= 0) turn_ = message->turn;
    const Flow flow = execute(statement.blocks.front());
    turn_ = turn;
    if (flow == Flow::leave) break;
  }
  return Flow::on;
}

Value Interpreter::call_macro(const Statement& macro, const Arguments& arguments) {
  const Deeper deeper(*this);
  const std::size_t count = macro.names.size(), defaults = macro.expressions.size();
  if (arguments.by_position.size() > count)
    throw Fault(fmt::format("the macro '{}' takes at most {} arguments", macro.text, count));
  for (const auto& [name, value] : arguments.by_name) {
    if (std::find(macro.names.begin(), macro.names.end(), name) == macro.names.end())
      throw Fault(fmt::format("the macro '{}' has no argument named '{}'", macro.text, name));
  }
  const Scope scope(*this, true);
  for (std::size_t i = 0; i < count; ++i) {
    const auto named = std::find_if(arguments.by_name.begin(), arguments.by_name.end(),
                                    [&](const auto& argument) { return argument.first == macro.names[i]; });
    if (i < arguments.by_position.size()) {
      set(macro.names[i], arguments.by_position[i]);
    } else if (named != arguments.by_name.end()) {
      set(macro.names[i], named->second);
    } else if (i + defaults >= count) {
      set(macro.names[i], evaluate(*macro.expressions[i + defaults - count]));
    } else {
      set(macro.names[i], Value::undefined(fmt::format("'{}'", macro.names[i])));
    }
  }
  Flow flow = Flow::on;
  return Value::text(capture(macro.blocks.front(), flow));
}

}  // namespace lazytrain::jinja
