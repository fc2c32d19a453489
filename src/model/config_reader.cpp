#include "model/config_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"

namespace lazytrain {

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t longest = 60;
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

ConfigReader::ConfigReader(const nlohmann::json& document, std::string where, std::string prefix)
    : document_(document), where_(std::move(where)), prefix_(std::move(prefix)) {
  if (document_.is_object()) return;
  if (prefix_.empty())
    fail(ExitCode::model_file, "{}: {} where an object of settings was expected; get the file again", where_,
         shown(document_));
  fail(ExitCode::model_file, "{}: {} is {}; it must be an object", where_,
       prefix_.substr(0, prefix_.size() - 1), shown(document_));
}

const nlohmann::json* ConfigReader::find(const std::string& key) const {
  const auto found = document_.find(key);
  return found == document_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::int64_t> ConfigReader::size(const std::string& key, std::int64_t largest) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  // Integers above the signed range are stored unsigned: they are too large for every key.
  const bool fits = value->is_number_unsigned()
                        ? value->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest)
                        : value->is_number_integer() && value->get<std::int64_t>() <= largest;
  if (!fits || value->get<std::int64_t>() < 1) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be a whole number from 1 to {}", where_, name(key),
         shown(*value), largest);
  }
  return value->get<std::int64_t>();
}

std::int64_t ConfigReader::required_size(const std::string& key, std::int64_t largest) const {
  if (const auto value = size(key, largest)) return *value;
  missing(key);
}

std::optional<double> ConfigReader::number(const std::string& key, double smallest, double largest) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= smallest && number <= largest)) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be a number from {} to {}", where_, name(key),
         shown(*value), smallest, largest);
  }
  return number;
}

double ConfigReader::required_number(const std::string& key, double smallest, double largest) const {
  if (const auto value = number(key, smallest, largest)) return *value;
  missing(key);
}

bool ConfigReader::flag(const std::string& key, bool otherwise) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be true or false", where_, name(key), shown(*value));
  }
  return value->get<bool>();
}

std::optional<std::string> ConfigReader::text(const std::string& key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail(ExitCode::model_file, "{}: {} is {}; it must be a text", where_, name(key), shown(*value));
  }
  return value->get<std::string>();
}

void ConfigReader::missing(const std::string& key) const {
  fail(ExitCode::model_file, "{}: the key {} is missing; add it as the model's authors published it", where_,
       name(key));
}

}  // namespace lazytrain
