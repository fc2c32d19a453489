#include "text/jinja.h"

#include <algorithm>

#include "core/error.h"
#include "core/printable.h"
#include "formats/text_checks.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_syntax.h"

namespace lazytrain::jinja {
namespace {

// Steps and bytes: enough for every published template, and for long conversations in proportion.
constexpr std::int64_t kBudget = std::int64_t{1} << 24;
constexpr std::int64_t kBudgetPerByte = 64;
// Longer ones are no templates.
constexpr std::size_t kLongestSource = std::size_t{1} << 20;

std::int64_t text_in(const Value& value) {
  if (const MarkedText* text = value.as_text()) return static_cast<std::int64_t>(text->size());
  std::int64_t size = 0;
  if (const List* list = value.as_list())
    for (const Value& item : list->items) size += 8 + text_in(item);
  if (const Dict* dict = value.as_dict())
    for (const auto& [key, item] : dict->entries)
      size += 8 + static_cast<std::int64_t>(key->size()) + text_in(item);
  return size;
}

[[noreturn]] void fail_at(ExitCode code, const std::string& where, std::string_view source,
                          std::size_t offset, const std::string& message) {
  const TextPosition position = position_of(source, offset);
  fail(code, "{}:{}:{}: {}", where, position.line, position.column, printable_line(message));
}

}  // namespace

Template::Template(std::shared_ptr<const ParsedTemplate> parsed, std::string where)
    : parsed_(std::move(parsed)), where_(std::move(where)) {}

Template Template::parse(std::string_view source, std::string where) {
  if (source.size() > kLongestSource)
    fail(ExitCode::model_file, "{}: a template of {} bytes is too long", where, source.size());
  if (const std::size_t bad = first_invalid_utf8(source); bad != std::string_view::npos)
    fail_at(ExitCode::model_file, where, source, bad, "the template is not UTF-8 text");
  try {
    return {std::make_shared<const ParsedTemplate>(jinja::parse(source)), std::move(where)};
  } catch (const SyntaxFault& fault) {
    fail_at(ExitCode::model_file, where, normal_source(source), fault.offset, fault.message);
  }
}

MarkedText Template::render(const Variables& variables, std::time_t now) const {
  std::int64_t budget = kBudget;
  for (const auto& [name, value] : variables) budget += kBudgetPerByte * text_in(value);
  Interpreter interpreter(*parsed_, budget, now);
  for (const auto& [name, value] : variables) interpreter.define(name, value);
  try {
    return interpreter.run();
  } catch (const PlacedFault& fault) {
    const bool bounds = fault.kind == Fault::Kind::template_text;
    fail_at(bounds ? ExitCode::model_file : ExitCode::data, where_, parsed_->source, fault.offset,
            fault.message);
  }
}

bool Template::has_generation_blocks() const {
  return parsed_->has_generation;
}

bool Template::mentions(std::string_view name) const {
  return parsed_->source.find(name) != std::string::npos;
}

}  // namespace lazytrain::jinja
