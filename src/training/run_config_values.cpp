// Between the text of a value and the member it belongs to, both ways.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "formats/text_checks.h"
#include "training/run_config_fields.h"

namespace lazytrain {
namespace {

[[noreturn]] void refuse(const ConfigValue& value, const std::string& what) {
  fail(ExitCode::usage, "{}: {}: {}", value.where, value.key, what);
}

const std::string& scalar(const ConfigValue& value, const char* wanted) {
  if (value.node.kind != YamlNode::Kind::scalar) {
    refuse(value, fmt::format("{} where {} belongs", describe(value.node.kind), wanted));
  }
  return value.node.text;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool read_bool(const ConfigValue& value) {
  const std::string text = lower(scalar(value, "true or false"));
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  refuse(value, fmt::format("{} is neither true nor false; write one of them", in_quotes(value.node.text)));
}

std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  // Readers of YAML 1.1 take 1e-05 for text, but 1.0e-05 for a number.
  const std::size_t e = text.find('e');
  if (e != std::string::npos && text.find('.') == std::string::npos) text.insert(e, ".0");
  return text;
}

void check_range(const ConfigValue& value, const ConfigField& field, double number) {
  const bool low = field.above ? number <= field.lowest : number < field.lowest;
  if (!low && number <= field.highest) return;
  if (low) {
    refuse(value, fmt::format("{} is too small; it must be {} {}", value.node.text,
                              field.above ? "above" : "at least", number_text(field.lowest)));
  }
  refuse(value,
         fmt::format("{} is too large; it must be at most {}", value.node.text, number_text(field.highest)));
}

template <typename Integer>
Integer read_integer(const ConfigValue& value, const ConfigField& field) {
  const std::string& text = scalar(value, "a whole number");
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  Integer number = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range)
    refuse(value, fmt::format("{} is out of range; it must be a whole number of 64 bits", in_quotes(text)));
  if (error != std::errc() || end != text.data() + text.size()) {
    refuse(value, fmt::format("{} is not a whole number; write one", in_quotes(text)));
  }
  check_range(value, field, static_cast<double>(number));
  return number;
}

double read_number(const ConfigValue& value, const ConfigField& field) {
  const std::string& text = scalar(value, "a number");
  const char* begin = text.data() + (text.starts_with('+') ? 1 : 0);
  double number = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    refuse(value, fmt::format("{} is not a number; write one", in_quotes(text)));
  }
  check_range(value, field, number);
  return number;
}

void check_choice(const ConfigValue& value, const ConfigField& field, const std::string& text) {
  if (std::find(field.choices.begin(), field.choices.end(), text) != field.choices.end()) return;
  if (!field.otherwise.empty()) refuse(value, fmt::format("{}: {}", in_quotes(text), field.otherwise));
  std::string choices;
  for (const std::string_view choice : field.choices) {
    choices += choices.empty() ? "" : choice == field.choices.back() ? " or " : ", ";
    choices += choice;
  }
  refuse(value, fmt::format("{} is not known; use {}", in_quotes(text), choices));
}

std::string read_text(const ConfigValue& value, const ConfigField& field) {
  const std::string& text = scalar(value, "a text");
  if (!field.choices.empty()) {
    check_choice(value, field, text);
  } else if (text.find('\0') != std::string::npos) {
    refuse(value, "a text with a zero byte; remove it");
  }
  return text;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") - begin + 1));
}

std::vector<std::string> read_list(const ConfigValue& value, const ConfigField& field) {
  std::vector<std::string> list;
  if (value.node.kind == YamlNode::Kind::sequence) {
    for (const YamlNode& item : value.node.items) {
      if (item.kind != YamlNode::Kind::scalar) refuse(value, "a list of texts belongs here");
      list.push_back(item.text);
    }
  } else {
    std::string_view rest = scalar(value, "a text or a list of texts");
    for (;;) {
      const std::size_t comma = rest.find(',');
      list.push_back(trimmed(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  for (const std::string& item : list) {
    if (item.empty()) refuse(value, "an empty name in the list; remove a comma");
    if (!field.choices.empty()) check_choice(value, field, item);
  }
  return list;
}

// In double quotes where a plain scalar would be read as something else.
std::string yaml_text(const std::string& text, bool in_list) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
  static constexpr std::array<std::string_view, 9> kWords{"null", "~",  "true", "false", "yes",
                                                          "no",   "on", "off",  "auto"};
  const bool word = std::find(kWords.begin(), kWords.end(), lower(text)) != kWords.end();
  const bool plain = !text.empty() && text.find_first_not_of(kPlain) == std::string::npos &&
                     text.front() != '-' && (!word || !in_list);
  if (plain && lower(text) != "null") return text;
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      result += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string bytes_text(Bytes bytes) {
  struct Unit {
    std::int64_t size;
    const char* name;
  };
  static constexpr std::array<Unit, 5> kUnits{
      {{1'000'000'000, "GB"}, {1LL << 30, "GiB"}, {1'000'000, "MB"}, {1LL << 20, "MiB"}, {1, "B"}}};
  for (const Unit& unit : kUnits) {
    // Sizes are read as floating-point numbers: only as many digits as those keep.
    if (bytes.value != 0 && bytes.value % unit.size == 0)
      return fmt::format("{}{}", bytes.value / unit.size, unit.name);
  }
  return "0B";
}

// "Not set": a null, or the word that stands for it.
bool is_unset(const ConfigValue& value, const ConfigField& field) {
  if (value.node.kind == YamlNode::Kind::null) return true;
  return field.unset == "auto" && value.node.kind == YamlNode::Kind::scalar && value.node.text == "auto";
}

}  // namespace

void set_field(RunConfig& config, const ConfigField& field, const ConfigValue& value) {
  const RunConfig defaults;
  std::visit(
      [&](auto member) {
        using Type = std::remove_reference_t<decltype(config.*member)>;
        if (is_unset(value, field)) {
          config.*member = defaults.*member;
        } else if constexpr (std::is_same_v<Type, bool> || std::is_same_v<Type, std::optional<bool>>) {
          config.*member = read_bool(value);
        } else if constexpr (std::is_same_v<Type, double>) {
          config.*member = read_number(value, field);
        } else if constexpr (std::is_same_v<Type, std::uint64_t>) {
          config.*member = read_integer<std::uint64_t>(value, field);
        } else if constexpr (std::is_same_v<Type, std::int64_t> ||
                             std::is_same_v<Type, std::optional<std::int64_t>>) {
          config.*member = read_integer<std::int64_t>(value, field);
        } else if constexpr (std::is_same_v<Type, std::optional<Bytes>>) {
          config.*member =
              parse_bytes(scalar(value, "a size"), fmt::format("{}: {}", value.where, value.key));
        } else if constexpr (std::is_same_v<Type, std::vector<std::string>>) {
          config.*member = read_list(value, field);
        } else {
          config.*member = read_text(value, field);
        }
      },
      field.member);
}

std::string field_text(const RunConfig& config, const ConfigField& field) {
  const RunConfig defaults;
  return std::visit(
      [&](auto member) -> std::string {
        const auto& value = config.*member;
        [[maybe_unused]] const auto& otherwise = defaults.*member;  // what "null" is read as
        using Type = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Type, bool>) {
          return value ? "true" : "false";
        } else if constexpr (std::is_same_v<Type, std::optional<bool>>) {
          return !value ? std::string(field.unset) : *value ? "true" : "false";
        } else if constexpr (std::is_same_v<Type, double>) {
          return number_text(value);
        } else if constexpr (std::is_same_v<Type, std::int64_t> || std::is_same_v<Type, std::uint64_t>) {
          return std::to_string(value);
        } else if constexpr (std::is_same_v<Type, std::optional<std::int64_t>>) {
          return value ? std::to_string(*value) : std::string(field.unset);
        } else if constexpr (std::is_same_v<Type, std::optional<Bytes>>) {
          return value ? bytes_text(*value) : std::string(field.unset);
        } else if constexpr (std::is_same_v<Type, std::vector<std::string>>) {
          std::string list;
          for (const std::string& item : value) list += (list.empty() ? "" : ", ") + yaml_text(item, true);
          return value.empty() && otherwise.empty() ? "null" : "[" + list + "]";
        } else if constexpr (std::is_same_v<Type, std::optional<std::string>>) {
          return value ? yaml_text(*value, false) : std::string(field.unset);
        } else {
          return value.empty() && otherwise.empty() ? "null" : yaml_text(value, false);
        }
      },
      field.member);
}

}  // namespace lazytrain
