// The reference of all keys, for --help, `lazytrain keys` and the manual: made from the table that reads
// them.
#include <fmt/core.h>

#include <cmath>
#include <type_traits>

#include "core/error.h"
#include "training/run_config.h"
#include "training/run_config_fields.h"

namespace lazytrain {
namespace {

std::string joined(const std::vector<std::string_view>& words, std::string_view between) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += between;
    text += word;
  }
  return text;
}

template <typename Member>
std::string_view type_of(Member RunConfig::*) {
  if constexpr (std::is_same_v<Member, bool> || std::is_same_v<Member, std::optional<bool>>)
    return "true or false";
  if constexpr (std::is_same_v<Member, double>) return "number";
  if constexpr (std::is_same_v<Member, std::optional<Bytes>>) return "size (240MB, 1.5GiB)";
  if constexpr (std::is_same_v<Member, std::vector<std::string>>) return "list";
  if constexpr (std::is_same_v<Member, std::string> || std::is_same_v<Member, std::optional<std::string>>)
    return "text";
  return "whole number";
}

std::string bound(double value) {
  return std::abs(value) < 1e15 ? fmt::format("{}", value) : std::string();
}

// "a or b" for choices, "number above 0", "whole number, 1 to 1024".
std::string values_of(const ConfigField& field) {
  if (!field.choices.empty()) return joined(field.choices, ", ");
  std::string text(std::visit([](auto member) { return type_of(member); }, field.member));
  const std::string low = bound(field.lowest), high = bound(field.highest);
  if (!low.empty() && !high.empty())
    return fmt::format("{}, {}{} to {}", text, field.above ? "above " : "", low, high);
  if (!low.empty()) return fmt::format("{}, {} {}", text, field.above ? "above" : "at least", low);
  if (!high.empty()) return fmt::format("{}, at most {}", text, high);
  return text;
}

std::string default_of(const ConfigField& field) {
  std::string text = field_text(RunConfig{}, field);
  return text == "null" ? "" : text;
}

}  // namespace

std::string run_config_help() {
  std::string text;
  std::string_view group;
  for (const ConfigField& field : config_fields()) {
    if (field.group != group) text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", field.group);
    group = field.group;
    const std::string choices = field.choices.empty() ? "" : " (" + joined(field.choices, " | ") + ")";
    text += fmt::format("  {:<28} {:<13} {}{}\n", field.name, field_text(RunConfig{}, field), field.help,
                        choices);
  }
  return text;
}

std::string run_config_markdown() {
  std::string text;
  std::string_view group;
  for (const ConfigField& field : config_fields()) {
    if (field.group != group)
      text += fmt::format("{}## {}\n\n| key | default | values | meaning |\n|---|---|---|---|\n",
                          text.empty() ? "" : "\n", field.group);
    group = field.group;
    const std::string start = default_of(field);
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name, start.empty() ? "" : "`" + start + "`",
                        values_of(field), field.help);
  }
  return text;
}

std::string describe_key(std::string_view name) {
  const ConfigField* field = find_field(name);
  if (field == nullptr) {
    const std::string near = nearest_key(name);
    fail(ExitCode::usage, "unknown key '{}'; {}", name,
         near.empty() ? "`lazytrain keys` lists all" : fmt::format("did you mean {}?", near));
  }
  const std::string start = default_of(*field);
  return fmt::format("{}: {}\n  values:  {}\n  default: {}\n  group:   {}\n", field->name, field->help,
                     values_of(*field), start.empty() ? "none" : start, field->group);
}

}  // namespace lazytrain
