// Jinja source -> tokens, with the white space rules that chat templates are written for: trim_blocks and
// lstrip_blocks are on, one line end at the end of the source is dropped, and - and + inside tags change
// that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain::jinja {

// A fault in the source, with its place.
struct SyntaxFault {
  std::size_t offset = 0;
  std::string message;
};

struct Token {
  enum class Kind : std::uint8_t {
    data,         // text outside of tags
    print_begin,  // {{
    print_end,
    block_begin,  // {%
    block_end,
    name,
    text,  // a quoted one, its escapes resolved
    integer,
    real,
    sign,  // an operator or a bracket
    end    // of the source
  };
  Kind kind = Kind::end;
  std::string text;
  std::size_t offset = 0;  // in the source
};

// \r\n and \r become \n, and one at the end is dropped: what the offsets of tokens refer to.
std::string normal_source(std::string_view source);

// `source` is normal. The last token is `end`. Throws SyntaxFault.
std::vector<Token> tokenize(std::string_view source);

}  // namespace lazytrain::jinja
