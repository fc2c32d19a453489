// Typed look-ups in tokenizer files, with errors that name file and key.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"

namespace lazytrain::json_field {

inline const nlohmann::json& need(const nlohmann::json& object, const char* key, const std::string& where) {
  if (!object.is_object())
    fail(ExitCode::model_file, "{}: should be an object with the key '{}'", where, key);
  const auto found = object.find(key);
  if (found == object.end())
    fail(ExitCode::model_file, "{}: the key '{}' is missing; add it, or get the file again", where, key);
  return *found;
}

// The value of a key that may be absent or null.
inline const nlohmann::json* find(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

inline bool boolean(const nlohmann::json& object, const char* key, bool otherwise, const std::string& where) {
  const nlohmann::json* value = find(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(ExitCode::model_file, "{}: '{}' should be true or false", where, key);
  return value->get<bool>();
}

inline const std::string& text(const nlohmann::json& object, const char* key, const std::string& where) {
  const nlohmann::json& value = need(object, key, where);
  if (!value.is_string()) fail(ExitCode::model_file, "{}: '{}' should be a string", where, key);
  return value.get_ref<const std::string&>();
}

// The `type` of a component such as a normalizer.
inline const std::string& type(const nlohmann::json& object, const std::string& where) {
  return text(object, "type", where);
}

}  // namespace lazytrain::json_field
