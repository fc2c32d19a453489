// Statements of chat templates: what stands between {% and %}, and the blocks they open.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "formats/text_checks.h"
#include "text/jinja_parser.h"

namespace lazytrain::jinja {
namespace {

using Kind = Statement::Kind;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : tokens_(tokenize(source)), expressions_(tokens_) {}

  Block run() { return block({}, 0); }
  [[nodiscard]] bool has_generation() const { return has_generation_; }

 private:
  // Statements up to a tag that begins with one of `ends`, whose name is taken; or up to the end.
  Block block(std::initializer_list<std::string_view> ends, std::size_t opened) {
    if (++depth_ > kDeepestSyntax)
      throw SyntaxFault{opened, fmt::format("blocks are nested deeper than {} levels", kDeepestSyntax)};
    Block statements;
    for (;;) {
      const Token token = tokens_.take();
      if (token.kind == Token::Kind::end) {
        if (ends.size() > 0)
          throw SyntaxFault{opened,
                            fmt::format("the block is never closed with {{% {} %}}", *(ends.end() - 1))};
        break;
      }
      if (token.kind == Token::Kind::data) {
        statements.push_back(make(Kind::data, token.offset));
        statements.back().literal = MarkedText(token.text);
      } else if (token.kind == Token::Kind::print_begin) {
        statements.push_back(make(Kind::print, token.offset));
        statements.back().expressions.push_back(expressions_.tuple());
        if (!tokens_.is(Token::Kind::print_end)) tokens_.fail("'}}'");
        tokens_.take();
      } else {
        const std::string name = tokens_.expect_name("the name of a statement");
        if (std::find(ends.begin(), ends.end(), name) != ends.end()) {
          end_ = name;
          break;
        }
        statements.push_back(statement(name, token.offset));
      }
    }
    --depth_;
    return statements;
  }

  static Statement make(Kind kind, std::size_t offset) {
    Statement statement;
    statement.kind = kind;
    statement.offset = offset;
    return statement;
  }

  void close_tag() {
    if (!tokens_.is(Token::Kind::block_end)) tokens_.fail("'%}'");
    tokens_.take();
  }

  Statement statement(const std::string& name, std::size_t offset) {
    if (name == "if") return condition(offset);
    if (name == "for") return loop(offset);
    if (name == "set") return set(offset);
    if (name == "macro") return macro(offset);
    if (name == "with") return with(offset);
    if (name == "filter") return filtered(offset);
    if (name == "generation") return generation(offset);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) throw SyntaxFault{offset, fmt::format("{} stands outside of a for block", name)};
      close_tag();
      return make(name == "break" ? Kind::leave : Kind::next, offset);
    }
    static constexpr std::array<std::string_view, 9> kOther{
        "include", "import", "from", "extends", "block", "call", "do", "autoescape", "trans"};
    if (std::find(kOther.begin(), kOther.end(), name) != kOther.end())
      throw SyntaxFault{offset, fmt::format("the statement '{}' is not supported", name)};
    throw SyntaxFault{offset, fmt::format("the statement {} is not known here", in_quotes(name))};
  }

  Statement condition(std::size_t offset) {
    Statement node = make(Kind::condition, offset);
    do {
      node.expressions.push_back(expressions_.tuple());
      close_tag();
      node.blocks.push_back(block({"elif", "else", "endif"}, offset));
    } while (end_ == "elif");
    if (end_ == "else") {
      close_tag();
      node.blocks.push_back(block({"endif"}, offset));
    }
    close_tag();
    return node;
  }

  // "a" or "a, b" or "(a, b)".
  std::vector<std::string> targets() {
    const bool bracket = tokens_.skip_sign("(");
    std::vector<std::string> names;
    do {
      if (bracket && tokens_.is_sign(")")) break;
      const std::size_t offset = tokens_.now().offset;
      names.push_back(tokens_.expect_name("the name of a variable"));
      require_assignable(names.back(), offset);
    } while (tokens_.skip_sign(","));
    if (bracket) tokens_.expect_sign(")");
    return names;
  }

  static void require_assignable(const std::string& name, std::size_t offset) {
    static constexpr std::array<std::string_view, 6> kConstants{"true", "false", "none",
                                                                "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), name) != kConstants.end())
      throw SyntaxFault{offset, fmt::format("nothing can be assigned to {}", name)};
  }

  Statement loop(std::size_t offset) {
    Statement node = make(Kind::loop, offset);
    node.names = targets();
    if (!tokens_.skip_name("in")) tokens_.fail("'in'");
    node.expressions.push_back(expressions_.tuple(false));
    if (tokens_.skip_name("if")) node.expressions.push_back(expressions_.expression());
    if (tokens_.is_name("recursive"))
      throw SyntaxFault{tokens_.now().offset, "recursive for blocks are not supported"};
    close_tag();
    ++loops_;
    ++scopes_;
    node.blocks.push_back(block({"else", "endfor"}, offset));
    --loops_;
    if (end_ == "else") {
      close_tag();
      node.blocks.push_back(block({"endfor"}, offset));
    }
    --scopes_;
    close_tag();
    return node;
  }

  Statement set(std::size_t offset) {
    Statement node = make(Kind::assign, offset);
    node.names = targets();
    if (node.names.size() == 1 && tokens_.skip_sign("."))
      node.text = tokens_.expect_name("the name of an attribute");
    if (tokens_.skip_sign("=")) {
      node.expressions.push_back(expressions_.tuple());
      close_tag();
      return node;
    }
    if (node.names.size() != 1) tokens_.fail("'='");
    node.kind = Kind::capture;
    if (tokens_.skip_sign("|")) node.expressions.push_back(expressions_.block_filters());
    close_tag();
    ++scopes_;
    node.blocks.push_back(block({"endset"}, offset));
    --scopes_;
    close_tag();
    return node;
  }

  Statement macro(std::size_t offset) {
    // It sees the variables of the template, not those of a block around it.
    if (scopes_ > 0)
      throw SyntaxFault{offset, "a macro inside of a for, set, with, filter or macro block is not supported"};
    Statement node = make(Kind::macro, offset);
    node.text = tokens_.expect_name("the name of the macro");
    tokens_.expect_sign("(");
    while (!tokens_.is_sign(")")) {
      const std::size_t place = tokens_.now().offset;
      node.names.push_back(tokens_.expect_name("the name of a parameter"));
      require_assignable(node.names.back(), place);
      if (tokens_.skip_sign("=")) {
        node.expressions.push_back(expressions_.expression());
      } else if (!node.expressions.empty()) {
        tokens_.fail("'=' and a default, as before");
      }
      if (!tokens_.skip_sign(",")) break;
    }
    tokens_.expect_sign(")");
    close_tag();
    const int loops = std::exchange(loops_, 0);
    ++scopes_;
    node.blocks.push_back(block({"endmacro"}, offset));
    --scopes_;
    loops_ = loops;
    if (tokens_.is_name(node.text)) tokens_.take();
    close_tag();
    return node;
  }

  Statement with(std::size_t offset) {
    Statement node = make(Kind::scope, offset);
    while (!tokens_.is(Token::Kind::block_end)) {
      node.names.push_back(tokens_.expect_name("the name of a variable"));
      tokens_.expect_sign("=");
      node.expressions.push_back(expressions_.expression());
      if (!tokens_.skip_sign(",")) break;
    }
    close_tag();
    ++scopes_;
    node.blocks.push_back(block({"endwith"}, offset));
    --scopes_;
    close_tag();
    return node;
  }

  Statement filtered(std::size_t offset) {
    Statement node = make(Kind::filtered, offset);
    node.expressions.push_back(expressions_.block_filters());
    close_tag();
    ++scopes_;
    node.blocks.push_back(block({"endfilter"}, offset));
    --scopes_;
    close_tag();
    return node;
  }

  Statement generation(std::size_t offset) {
    Statement node = make(Kind::generation, offset);
    close_tag();
    node.blocks.push_back(block({"endgeneration"}, offset));
    close_tag();
    has_generation_ = true;
    return node;
  }

  Tokens tokens_;
  ExpressionParser expressions_;
  std::string end_;  // the name that ended the last block
  int depth_ = 0, loops_ = 0, scopes_ = 0;
  bool has_generation_ = false;
};

}  // namespace

ParsedTemplate parse(std::string_view source) {
  ParsedTemplate result;
  result.source = normal_source(source);
  StatementParser parser(result.source);
  result.body = parser.run();
  result.has_generation = parser.has_generation();
  return result;
}

}  // namespace lazytrain::jinja
