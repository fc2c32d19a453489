// Shared by the tests of this room: throw-away folders, configs with one key changed, errors as values.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/error.h"

namespace lazytrain {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(LAZYTRAIN_TESTS_DIR) / "data" / "goldens" / name;
}

// A folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file in it and returns its path.
  std::filesystem::path write(const std::string& name, const std::string& content) const;

 private:
  std::filesystem::path path_;
};

// config.json of a small llama, correct in every respect.
nlohmann::json small_config();

struct Failure {
  ExitCode code;
  std::string message;
};
// What `action` throws; nothing where it does not.
std::optional<Failure> failure_of(const std::function<void()>& action);

}  // namespace lazytrain
