// Helpers of the format tests: temporary folders, hand-made files, expected errors, mutated files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace lazytrain {

// A fresh folder, removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  // Writes a file into the folder and gives its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The bytes of a little-endian number.
template <typename Number>
std::string little_endian(Number number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// Runs `action`, which must throw Error with this exit code and a message that contains `words`.
void expect_error(ExitCode code, const std::string& words, const std::function<void()>& action);

// A damaged copy of `original`: bits flipped, bytes cut, doubled, moved or replaced by extreme numbers and by
// `tokens` of the format. A pure function of (original, tokens, number).
std::string mutate(const std::string& original, const std::vector<std::string>& tokens, std::uint64_t number);

// Feeds 5,000 mutations of the originals to `read` as files; Error is the only exception allowed. Returns how
// many were accepted, so that a test can see that not everything is refused at the door.
int read_mutations(const std::vector<std::string>& originals, const std::vector<std::string>& tokens,
                   const std::function<void(const std::filesystem::path&)>& read);

}  // namespace lazytrain
