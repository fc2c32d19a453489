// Typed look-ups in a config.json: every value of the wrong kind or out of range is one sentence that names
// the file and the key. A key that is null counts as absent, as in transformers.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace lazytrain {

class ConfigReader {
 public:
  // `document` must outlive the reader; `where` names the file, `prefix` the object inside it
  // ("rope_scaling."). Throws Error(model_file) where the document is not an object.
  ConfigReader(const nlohmann::json& document, std::string where, std::string prefix = "");

  // The value, or nullptr where the key is absent or null.
  [[nodiscard]] const nlohmann::json* find(const std::string& key) const;
  // An integer in [1, largest].
  [[nodiscard]] std::optional<std::int64_t> size(const std::string& key, std::int64_t largest) const;
  [[nodiscard]] std::int64_t required_size(const std::string& key, std::int64_t largest) const;
  // A finite number in [smallest, largest].
  [[nodiscard]] std::optional<double> number(const std::string& key, double smallest, double largest) const;
  [[nodiscard]] double required_number(const std::string& key, double smallest, double largest) const;
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const;
  [[nodiscard]] std::optional<std::string> text(const std::string& key) const;

  [[nodiscard]] const std::string& where() const { return where_; }
  // "rope_scaling.factor": how messages name a key.
  [[nodiscard]] std::string name(const std::string& key) const { return prefix_ + key; }

 private:
  [[noreturn]] void missing(const std::string& key) const;

  const nlohmann::json& document_;
  std::string where_, prefix_;
};

// A value as an error message shows it: its JSON text, cut to 60 bytes.
std::string shown(const nlohmann::json& value);

}  // namespace lazytrain
