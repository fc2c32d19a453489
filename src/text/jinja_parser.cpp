// Expressions of chat templates, with Jinja's own precedence: filters and tests bind tightest, then -x, **,
// * / // %, ~, + -, comparisons, not, and, or, if else.
#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "text/jinja_filters.h"

namespace lazytrain::jinja {
namespace {

using Kind = Expression::Kind;

std::vector<ExpressionPtr> operands(ExpressionPtr first, ExpressionPtr second = nullptr) {
  std::vector<ExpressionPtr> list;
  list.push_back(std::move(first));
  if (second) list.push_back(std::move(second));
  return list;
}

}  // namespace

ExpressionPtr ExpressionParser::make(Kind kind, std::size_t offset, std::vector<ExpressionPtr> parts) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->offset = offset;
  node->operands = std::move(parts);
  for (const ExpressionPtr& operand : node->operands)
    if (operand) node->depth = std::max(node->depth, operand->depth + 1);
  if (node->depth > kDeepestSyntax)
    throw SyntaxFault{offset, fmt::format("the expression is nested deeper than {} levels", kDeepestSyntax)};
  return node;
}

ExpressionPtr ExpressionParser::expression(bool conditional) {
  // Brackets and signs nest before there is a node to count.
  if (++depth_ > kDeepestSyntax)
    throw SyntaxFault{tokens_.now().offset,
                      fmt::format("the expression is nested deeper than {} levels", kDeepestSyntax)};
  ExpressionPtr node = logical_or();
  while (conditional && tokens_.is_name("if")) {
    const std::size_t offset = tokens_.take().offset;
    std::vector<ExpressionPtr> parts = operands(logical_or(), std::move(node));
    if (tokens_.skip_name("else")) parts.push_back(expression());
    node = make(Kind::conditional, offset, std::move(parts));
  }
  --depth_;
  return node;
}

ExpressionPtr ExpressionParser::tuple(bool conditional) {
  const std::size_t offset = tokens_.now().offset;
  ExpressionPtr first = expression(conditional);
  if (!tokens_.is_sign(",")) return first;
  std::vector<ExpressionPtr> items = operands(std::move(first));
  const auto ends = [&] {
    return tokens_.is(Token::Kind::print_end) || tokens_.is(Token::Kind::block_end) || tokens_.is_sign(")");
  };
  while (tokens_.skip_sign(",") && !ends()) items.push_back(expression(conditional));
  return make(Kind::tuple, offset, std::move(items));
}

ExpressionPtr ExpressionParser::logical_or() {
  ExpressionPtr left = logical_and();
  while (tokens_.is_name("or")) {
    const std::size_t offset = tokens_.take().offset;
    left = make(Kind::logical_or, offset, operands(std::move(left), logical_and()));
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  ExpressionPtr left = logical_not();
  while (tokens_.is_name("and")) {
    const std::size_t offset = tokens_.take().offset;
    left = make(Kind::logical_and, offset, operands(std::move(left), logical_not()));
  }
  return left;
}

ExpressionPtr ExpressionParser::logical_not() {
  std::vector<std::size_t> offsets;
  while (tokens_.is_name("not")) offsets.push_back(tokens_.take().offset);
  ExpressionPtr node = compare();
  for (; !offsets.empty(); offsets.pop_back())
    node = make(Kind::logical_not, offsets.back(), operands(std::move(node)));
  return node;
}

ExpressionPtr ExpressionParser::compare() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 6> kSigns{
      {{"==", Operator::equal},
       {"!=", Operator::not_equal},
       {"<", Operator::less},
       {"<=", Operator::less_equal},
       {">", Operator::greater},
       {">=", Operator::greater_equal}}};
  const std::size_t offset = tokens_.now().offset;
  std::vector<ExpressionPtr> parts = operands(sum());
  std::vector<Operator> operators;
  for (;;) {
    const auto* sign = std::find_if(kSigns.begin(), kSigns.end(),
                                    [&](const auto& entry) { return tokens_.is_sign(entry.first); });
    if (sign != kSigns.end()) {
      operators.push_back(sign->second);
      tokens_.take();
    } else if (tokens_.skip_name("in")) {
      operators.push_back(Operator::in);
    } else if (tokens_.is_name("not") && tokens_.ahead().kind == Token::Kind::name &&
               tokens_.ahead().text == "in") {
      tokens_.take();
      tokens_.take();
      operators.push_back(Operator::not_in);
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (operators.empty()) return std::move(parts.front());
  ExpressionPtr node = make(Kind::compare, offset, std::move(parts));
  node->operators = std::move(operators);
  return node;
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = join();
  while (tokens_.is_sign("+") || tokens_.is_sign("-")) {
    const Token sign = tokens_.take();
    left = make(Kind::binary, sign.offset, operands(std::move(left), join()));
    left->operators = {sign.text == "+" ? Operator::add : Operator::subtract};
  }
  return left;
}

ExpressionPtr ExpressionParser::join() {
  ExpressionPtr left = product();
  while (tokens_.is_sign("~")) {
    const std::size_t offset = tokens_.take().offset;
    left = make(Kind::binary, offset, operands(std::move(left), product()));
    left->operators = {Operator::join};
  }
  return left;
}

ExpressionPtr ExpressionParser::product() {
  static constexpr std::array<std::pair<std::string_view, Operator>, 4> kSigns{
      {{"*", Operator::multiply},
       {"/", Operator::divide},
       {"//", Operator::floor_divide},
       {"%", Operator::remainder}}};
  ExpressionPtr left = power();
  for (;;) {
    const auto* sign = std::find_if(kSigns.begin(), kSigns.end(),
                                    [&](const auto& entry) { return tokens_.is_sign(entry.first); });
    if (sign == kSigns.end()) return left;
    const std::size_t offset = tokens_.take().offset;
    left = make(Kind::binary, offset, operands(std::move(left), power()));
    left->operators = {sign->second};
  }
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary();
  while (tokens_.is_sign("**")) {
    const std::size_t offset = tokens_.take().offset;
    left = make(Kind::binary, offset, operands(std::move(left), unary()));
    left->operators = {Operator::power};
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  std::vector<Token> signs;
  while (tokens_.is_sign("-") || tokens_.is_sign("+")) signs.push_back(tokens_.take());
  ExpressionPtr node = postfix(primary());
  for (; !signs.empty(); signs.pop_back()) {
    const Kind kind = signs.back().text == "-" ? Kind::negate : Kind::positive;
    node = make(kind, signs.back().offset, operands(std::move(node)));
  }
  return with_filters ? filters(std::move(node)) : std::move(node);
}

ExpressionPtr ExpressionParser::primary() {
  const std::size_t offset = tokens_.now().offset;
  const auto literal = [&](Value value) {
    ExpressionPtr node = make(Kind::literal, offset);
    node->literal = std::move(value);
    return node;
  };
  switch (tokens_.now().kind) {
    case Token::Kind::name: {
      std::string name = tokens_.take().text;
      if (name == "true" || name == "True") return literal(true);
      if (name == "false" || name == "False") return literal(false);
      if (name == "none" || name == "None") return literal(None{});
      ExpressionPtr node = make(Kind::name, offset);
      node->text = std::move(name);
      return node;
    }
    case Token::Kind::text: {
      std::string text;
      while (tokens_.is(Token::Kind::text)) text += tokens_.take().text;
      return literal(Value::text(std::move(text)));
    }
    case Token::Kind::integer: {
      const std::string text = tokens_.take().text;
      std::int64_t number = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
        throw SyntaxFault{offset, "the number is too large"};
      return literal(number);
    }
    case Token::Kind::real: {
      const std::string text = tokens_.take().text;
      double number = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
        throw SyntaxFault{offset, "the number is out of range"};
      return literal(number);
    }
    default:
      break;
  }
  if (tokens_.skip_sign("(")) {
    ExpressionPtr node = tokens_.is_sign(")") ? make(Kind::tuple, offset) : tuple();
    tokens_.expect_sign(")");
    return node;
  }
  if (tokens_.is_sign("[")) return list();
  if (tokens_.is_sign("{")) return dict();
  tokens_.fail("a value");
}

ExpressionPtr ExpressionParser::list() {
  const std::size_t offset = tokens_.take().offset;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_sign("]")) {
    items.push_back(expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("]");
  return make(Kind::list, offset, std::move(items));
}

ExpressionPtr ExpressionParser::dict() {
  const std::size_t offset = tokens_.take().offset;
  std::vector<ExpressionPtr> items;
  while (!tokens_.is_sign("}")) {
    items.push_back(expression());
    tokens_.expect_sign(":");
    items.push_back(expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("}");
  return make(Kind::dict, offset, std::move(items));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr node) {
  for (;;) {
    const std::size_t offset = tokens_.now().offset;
    if (tokens_.skip_sign(".")) {
      if (tokens_.is(Token::Kind::integer)) {  // a.0
        node = subscript(std::move(node), offset);
        continue;
      }
      std::string name = tokens_.expect_name("the name of an attribute");
      node = make(Kind::attribute, offset, operands(std::move(node)));
      node->text = std::move(name);
    } else if (tokens_.skip_sign("[")) {
      node = subscript(std::move(node), offset);
      tokens_.expect_sign("]");
    } else if (tokens_.is_sign("(")) {
      node = make(Kind::call, offset, operands(std::move(node)));
      arguments(*node);
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object, std::size_t offset) {
  std::vector<ExpressionPtr> parts = operands(std::move(object));
  const auto part = [&] {
    const bool absent = tokens_.is_sign(":") || tokens_.is_sign("]");
    parts.push_back(absent ? nullptr : expression());
  };
  if (!tokens_.is_sign(":")) {
    parts.push_back(expression());
    if (!tokens_.is_sign(":")) return make(Kind::item, offset, std::move(parts));
  } else {
    parts.push_back(nullptr);
  }
  tokens_.expect_sign(":");
  part();
  if (tokens_.skip_sign(":")) part();
  parts.resize(4);
  return make(Kind::slice, offset, std::move(parts));
}

void ExpressionParser::arguments(Expression& node) {
  tokens_.expect_sign("(");
  while (!tokens_.is_sign(")")) {
    if (tokens_.is_sign("*") || tokens_.is_sign("**"))
      throw SyntaxFault{tokens_.now().offset, "arguments with * or ** are not supported"};
    const bool named = tokens_.is(Token::Kind::name) && tokens_.ahead().kind == Token::Kind::sign &&
                       tokens_.ahead().text == "=";
    if (named) {
      node.names.push_back(tokens_.take().text);
      tokens_.take();
    } else if (!node.names.empty()) {
      tokens_.fail("a named argument");
    }
    node.operands.push_back(expression());
    node.depth = std::max(node.depth, node.operands.back()->depth + 1);
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(")");
  if (node.depth > kDeepestSyntax)
    throw SyntaxFault{node.offset,
                      fmt::format("the expression is nested deeper than {} levels", kDeepestSyntax)};
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr node) {
  for (;;) {
    if (tokens_.skip_sign("|")) {
      node = filter(std::move(node));
    } else if (tokens_.is_name("is")) {
      node = test(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr ExpressionParser::block_filters() {
  ExpressionPtr node = filter(nullptr);
  while (tokens_.skip_sign("|")) node = filter(std::move(node));
  return node;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  const std::size_t offset = tokens_.now().offset;
  std::string name = tokens_.expect_name("the name of a filter");
  ExpressionPtr node = make(Kind::filter, offset);
  node->operands.push_back(std::move(input));
  if (node->operands.front()) node->depth = node->operands.front()->depth + 1;
  node->filter = find_filter(name);
  if (node->filter == nullptr) throw SyntaxFault{offset, fmt::format("the filter '{}' is not known", name)};
  node->text = std::move(name);
  if (tokens_.is_sign("(")) arguments(*node);
  if (node->depth > kDeepestSyntax)
    throw SyntaxFault{offset, fmt::format("the expression is nested deeper than {} levels", kDeepestSyntax)};
  return node;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const std::size_t offset = tokens_.take().offset;
  const bool negated = tokens_.skip_name("not");
  const std::size_t place = tokens_.now().offset;
  std::string name = tokens_.expect_name("the name of a test");
  ExpressionPtr node = make(Kind::test, place, operands(std::move(input)));
  node->test = find_test(name);
  if (node->test == nullptr) throw SyntaxFault{place, fmt::format("the test '{}' is not known", name)};
  node->text = std::move(name);
  const Token& next = tokens_.now();
  const bool keyword = next.kind == Token::Kind::name &&
                       (next.text == "else" || next.text == "or" || next.text == "and" || next.text == "if" ||
                        next.text == "is" || next.text == "in" || next.text == "not");
  const bool value = next.kind == Token::Kind::name || next.kind == Token::Kind::text ||
                     next.kind == Token::Kind::integer || next.kind == Token::Kind::real ||
                     tokens_.is_sign("[") || tokens_.is_sign("{");
  if (tokens_.is_sign("(")) {
    arguments(*node);
  } else if (value && !keyword) {
    node->operands.push_back(postfix(primary()));
    node->depth = std::max(node->depth, node->operands.back()->depth + 1);
  }
  return negated ? make(Kind::logical_not, offset, operands(std::move(node))) : std::move(node);
}

}  // namespace lazytrain::jinja
