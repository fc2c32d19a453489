// The halves of the parser; for jinja_parser.cpp, jinja_statements.cpp and jinja_tokens.cpp alone.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja_syntax.h"

namespace lazytrain::jinja {

// Deeper expressions and blocks are refused: evaluating them takes the stack.
inline constexpr int kDeepestSyntax = 200;

class Tokens {
 public:
  explicit Tokens(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  [[nodiscard]] const Token& now() const { return tokens_[at_]; }
  [[nodiscard]] const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return std::move(tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]); }
  [[nodiscard]] bool is(Token::Kind kind) const { return now().kind == kind; }
  [[nodiscard]] bool is(Token::Kind kind, std::string_view text) const {
    return is(kind) && now().text == text;
  }
  [[nodiscard]] bool is_sign(std::string_view text) const { return is(Token::Kind::sign, text); }
  [[nodiscard]] bool is_name(std::string_view text) const { return is(Token::Kind::name, text); }
  bool skip_sign(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_sign(std::string_view text);
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail(const std::string& expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(Tokens& tokens) : tokens_(tokens) {}
  // `conditional` false: an `if` that follows is not part of it.
  ExpressionPtr expression(bool conditional = true);
  // As expression(), but several with commas between them are a tuple.
  ExpressionPtr tuple(bool conditional = true);
  // name(arguments) | name(arguments) ..., applied to the text of a block.
  ExpressionPtr block_filters();

 private:
  ExpressionPtr make(Expression::Kind kind, std::size_t offset, std::vector<ExpressionPtr> operands = {});
  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr logical_not();
  ExpressionPtr compare();
  ExpressionPtr sum();
  ExpressionPtr join();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters = true);
  ExpressionPtr primary();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr object, std::size_t offset);
  ExpressionPtr filters(ExpressionPtr input);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  ExpressionPtr list();
  ExpressionPtr dict();
  void arguments(Expression& node);

  Tokens& tokens_;
  int depth_ = 0;
};

}  // namespace lazytrain::jinja
