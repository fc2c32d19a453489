// Jinja templates as chat models publish them: expressions, filters, tests, for, if, set, macro, namespace,
// {% generation %}, white space control. A template comes from a downloaded folder and is not trusted: depth,
// steps and the size of all text are bounded, it reaches no file and no clock but the one it is given.
//
// Not there: include, import, extends, call, do, recursive loops, arguments with * and **.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/marked_text.h"

namespace lazytrain::jinja {

class Value;
struct ParsedTemplate;

class Template {
 public:
  // `where` names the template in errors. Error(model_file) with line and column where it cannot be read or
  // uses what is not there.
  static Template parse(std::string_view source, std::string where);

  using Variables = std::vector<std::pair<std::string, Value>>;
  // What the template writes. Bytes of an assistant's turn are marked with it wherever they are written while
  // a for block goes over its message. `now` is what strftime_now() says, local time. Error(data) where the
  // template refuses the conversation or cannot handle it, Error(model_file) where it runs out of bounds.
  [[nodiscard]] MarkedText render(const Variables& variables, std::time_t now) const;

  // It marks what is to be learned itself.
  [[nodiscard]] bool has_generation_blocks() const;
  // The source names this variable: a hint, not a proof that it matters.
  [[nodiscard]] bool mentions(std::string_view name) const;

 private:
  Template(std::shared_ptr<const ParsedTemplate> parsed, std::string where);
  std::shared_ptr<const ParsedTemplate> parsed_;
  std::string where_;
};

}  // namespace lazytrain::jinja
