// What both halves of the parser ask of the tokens.
#include <fmt/format.h>

#include "formats/text_checks.h"
#include "text/jinja_parser.h"

namespace lazytrain::jinja {
namespace {

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the template";
    case Token::Kind::data:
      return "text";
    case Token::Kind::print_begin:
      return "'{{'";
    case Token::Kind::print_end:
      return "'}}'";
    case Token::Kind::block_begin:
      return "'{%'";
    case Token::Kind::block_end:
      return "'%}'";
    case Token::Kind::text:
      return "the text " + in_quotes(token.text);
    default:
      return in_quotes(token.text);
  }
}

}  // namespace

bool Tokens::skip_sign(std::string_view text) {
  if (!is_sign(text)) return false;
  take();
  return true;
}
bool Tokens::skip_name(std::string_view text) {
  if (!is_name(text)) return false;
  take();
  return true;
}
void Tokens::expect_sign(std::string_view text) {
  if (!skip_sign(text)) fail(fmt::format("'{}'", text));
}
std::string Tokens::expect_name(std::string_view what) {
  if (!is(Token::Kind::name)) fail(std::string(what));
  return take().text;
}
void Tokens::fail(const std::string& expected) const {
  throw SyntaxFault{now().offset, fmt::format("{} stands where {} should be", shown(now()), expected)};
}

}  // namespace lazytrain::jinja
