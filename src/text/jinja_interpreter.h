// Runs a parsed template. For jinja.cpp and the jinja_interpreter*.cpp files alone.
#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_operators.h"
#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace lazytrain::jinja {

// A fault with its place.
struct PlacedFault {
  std::size_t offset = 0;
  std::string message;
  Fault::Kind kind = Fault::Kind::conversation;
};

class Interpreter {
 public:
  Interpreter(const ParsedTemplate& parsed, std::int64_t budget, std::time_t now)
      : parsed_(parsed), budget_(budget), now_(now) {}

  // `value` of a name that the template finds at its start.
  void define(std::string_view name, Value value) {
    frames_.front().variables.emplace_back(name, std::move(value));
  }
  // Throws PlacedFault.
  MarkedText run();

 private:
  enum class Flow : std::uint8_t { on, leave, next };
  struct Frame {
    std::vector<std::pair<std::string_view, Value>> variables;
    bool closed = false;  // of a macro: behind it only the template's own variables are seen
  };
  class Scope;
  class Deeper;

  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow loop(const Statement& statement);
  Flow condition(const Statement& statement);
  void assign(const Statement& statement, Value value);
  void bind(const std::vector<std::string>& names, const Value& value);
  MarkedText capture(const Block& block, Flow& flow);
  void write(const MarkedText& text);

  Value evaluate(const Expression& node);
  Value evaluate_unplaced(const Expression& node);
  Value compare_chain(const Expression& node);
  Value make_mapping(const Expression& node);
  Value call(const Expression& node);
  Value call_function(Function function, const Arguments& arguments);
  Value call_macro(const Statement& macro, const Arguments& arguments);
  Value filtered(const Expression& node, const Value* block_text);
  Arguments arguments(const Expression& node);

  [[nodiscard]] const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);

  const ParsedTemplate& parsed_;
  Budget budget_;
  std::time_t now_;
  std::vector<Frame> frames_{1};
  MarkedText* output_ = nullptr;
  const Value* block_text_ = nullptr;  // the input of filters that have none
  std::int32_t turn_ = -1;             // the message that a for block is at
  bool generating_ = false;
  int depth_ = 0;
};

}  // namespace lazytrain::jinja
