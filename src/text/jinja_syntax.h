// A parsed chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/jinja_value.h"

namespace lazytrain::jinja {

struct Filter;
struct Test;

enum class Operator : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  remainder,
  power,
  join,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in
};

struct Expression {
  enum class Kind : std::uint8_t {
    literal,
    name,
    list,         // operands
    tuple,        // operands
    dict,         // operands: key, value, key, value...
    negate,       // operand
    positive,     // operand
    logical_not,  // operand
    logical_and,  // two
    logical_or,   // two
    conditional,  // condition, then, and else if it is there
    binary,       // two, operators[0]
    compare,      // n + 1, n operators
    attribute,    // object; text: the name
    item,         // object, key
    slice,        // object, begin, end, step; each of the last three may be null
    call,         // callee, arguments
    filter,       // input (null: the text of a filter block), arguments; text: the name
    test          // input, arguments; text: the name
  };
  Kind kind = Kind::literal;
  std::size_t offset = 0;  // in the source
  int depth = 1;           // of the tree
  std::string text;
  Value literal;
  std::vector<std::unique_ptr<Expression>> operands;
  std::vector<Operator> operators;
  // Of calls, filters and tests: names of the last operands; those before them are given by position.
  std::vector<std::string> names;
  const Filter* filter = nullptr;
  const Test* test = nullptr;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind : std::uint8_t {
    data,       // literal
    print,      // expressions[0]
    condition,  // expressions: one a branch; blocks: one a branch, and the else if it is there
    loop,      // names: targets; expressions: what it goes over, and the filter if it is there; blocks: body,
               // else
    assign,    // names: targets; expressions[0]; text: the attribute, of a namespace
    capture,   // names[0] = the text of blocks[0], filtered by expressions[0] if it is there; text as above
    macro,     // text: name; names: parameters; expressions: defaults of the last ones; blocks[0]
    scope,     // with: names and expressions; blocks[0]
    filtered,  // expressions[0], over the text of blocks[0]
    generation,  // blocks[0]
    leave,       // break
    next         // continue
  };
  Kind kind = Kind::data;
  std::size_t offset = 0;
  std::string text;
  MarkedText literal;
  std::vector<std::string> names;
  std::vector<ExpressionPtr> expressions;
  std::vector<Block> blocks;
};

struct ParsedTemplate {
  std::string source;  // what offsets refer to
  Block body;
  bool has_generation = false;  // {% generation %} occurs
};

// Throws SyntaxFault, also for filters and tests that are not known.
ParsedTemplate parse(std::string_view source);

}  // namespace lazytrain::jinja
