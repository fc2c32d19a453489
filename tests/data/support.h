// What the tests of this room share: temporary files and a tokenizer whose ids are bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "text/tokenizer.h"

namespace lazytrain::test {

// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  // Writes a file of this name and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view content) const;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Id b = byte b; 256 <|endoftext|>, 257 <|im_start|>, 258 <|im_end|>. So a text has as many tokens as bytes.
Tokenizer byte_tokenizer();

// The message of the Error that `action` throws, after a check of its exit code; "" where none is thrown.
std::string error_of(ExitCode expected, const std::function<void()>& action);

}  // namespace lazytrain::test
