// The table behind RunConfig: for each key its group, member, range, and meaning; and the keys of other
// programs. Shared by the run_config*.cpp files. Not for use outside.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "formats/yaml.h"
#include "training/run_config.h"

namespace lazytrain {

// What a key's value is: the member says the type.
using ConfigMember =
    std::variant<std::string RunConfig::*, std::optional<std::string> RunConfig::*,
                 std::vector<std::string> RunConfig::*, bool RunConfig::*, std::int64_t RunConfig::*,
                 std::optional<std::int64_t> RunConfig::*, std::optional<bool> RunConfig::*,
                 std::uint64_t RunConfig::*, double RunConfig::*, std::optional<Bytes> RunConfig::*>;

struct ConfigField {
  std::string_view name;
  std::string_view group;
  ConfigMember member;
  std::string_view help;
  // Of numbers: `lowest` itself is allowed unless `above`.
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  bool above = false;
  // Of texts: what is allowed (empty: anything), and what to say of anything else.
  std::vector<std::string_view> choices = {};
  std::string_view otherwise = {};
  std::string_view unset = "null";  // how "not set" is written: null or auto
};

[[nodiscard]] std::span<const ConfigField> config_fields();
[[nodiscard]] const ConfigField* find_field(std::string_view name);

// One value with the place it comes from, "run.yaml:7:3" or "command line".
struct ConfigValue {
  std::string key;
  YamlNode node;
  std::string where;
};

// Sets the field's member. Error(usage) as "where: key: what is wrong".
void set_field(RunConfig& config, const ConfigField& field, const ConfigValue& value);
// The member as YAML text ("5.0e-05", "null", "[a, b]").
[[nodiscard]] std::string field_text(const RunConfig& config, const ConfigField& field);

// A key of other programs: a notice where it changes nothing, Error(usage) where it would; nullopt where
// nobody knows it.
[[nodiscard]] std::optional<std::string> foreign_key_notice(const ConfigValue& value);
// The known key that is closest to a misspelt one, empty where none is close.
[[nodiscard]] std::string nearest_key(std::string_view key);

}  // namespace lazytrain
