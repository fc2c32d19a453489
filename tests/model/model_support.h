// Shared by the tests of this room: throw-away folders, configs with one key changed, errors as values.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/tensor_type.h"

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

// config.json and random weights of that model in `folder`; `type` says how a tensor is stored, `extra`
// tensors come last, with random values, or the embedding's where they have its name in `copies`.
struct ModelFiles {
  std::function<TensorType(const std::string& name)> type = [](const std::string&) {
    return TensorType::f32;
  };
  std::int64_t largest_shard = 5'000'000'000;
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> extra;  // name and shape
  std::string copy_of_embedding;                                         // one of them
  std::vector<std::string> without;                                      // tensors left out
};
void write_model(const std::filesystem::path& folder, const nlohmann::json& config,
                 const ModelFiles& files = {});

std::string content_of(const std::filesystem::path& file);

struct Failure {
  ExitCode code;
  std::string message;
};
// What `action` throws; nothing where it does not.
std::optional<Failure> failure_of(const std::function<void()>& action);

}  // namespace lazytrain
