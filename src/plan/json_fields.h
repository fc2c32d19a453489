// Reads the fields of one JSON object with range checks; every complaint is one sentence that names the file
// and the key.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/error.h"

namespace lazytrain {

class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where, ExitCode code)
      : object_(object), where_(std::move(where)), code_(code) {
    if (!object_.is_object()) fail(code_, "{}: a JSON object is expected here; write the file anew", where_);
  }

  [[nodiscard]] const nlohmann::json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end())
      fail(code_, "{}: key '{}' is missing; add it or write the file anew", where_, key);
    return *found;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t lowest, std::int64_t highest) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number_integer()) fail(code_, "{}: '{}' must be a whole number", where_, key);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)
      fail(code_, "{}: '{}' must be at most {}", where_, key, highest);
    const auto number = value.get<std::int64_t>();
    if (number < lowest || number > highest)
      fail(code_, "{}: '{}' is {}; it must lie between {} and {}", where_, key, number, lowest, highest);
    return number;
  }
  [[nodiscard]] double number(const char* key, double lowest, double highest) const {
    const nlohmann::json& value = at(key);
    if (!value.is_number()) fail(code_, "{}: '{}' must be a number", where_, key);
    const double result = value.get<double>();
    if (!std::isfinite(result) || result < lowest || result > highest)
      fail(code_, "{}: '{}' is {}; it must lie between {} and {}", where_, key, result, lowest, highest);
    return result;
  }
  [[nodiscard]] bool boolean(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_boolean()) fail(code_, "{}: '{}' must be true or false", where_, key);
    return value.get<bool>();
  }
  [[nodiscard]] bool boolean(const char* key, bool otherwise) const {
    return object_.contains(key) ? boolean(key) : otherwise;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_string()) fail(code_, "{}: '{}' must be a text", where_, key);
    return value.get<std::string>();
  }
  [[nodiscard]] const nlohmann::json& array(const char* key) const {
    const nlohmann::json& value = at(key);
    if (!value.is_array()) fail(code_, "{}: '{}' must be a list", where_, key);
    return value;
  }

 private:
  const nlohmann::json& object_;
  std::string where_;
  ExitCode code_;
};

}  // namespace lazytrain
