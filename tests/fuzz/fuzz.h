// A fuzz target: what one reader of untrusted input does with any bytes. Each *_fuzz.cpp defines fuzz_one();
// libFuzzer calls it with what it makes up (preset `fuzz`), and the corpus tests with what is kept in
// corpus/.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain::fuzz {

// Reads `input` as a user's file. A crash, a hang, or an exception that is not for users is a finding.
void fuzz_one(std::span<const std::byte> input);

inline std::string_view text_of(std::span<const std::byte> input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// A refusal is as good as success, but it has to be one sentence that can be printed.
inline void read_or_refuse(const std::function<void()>& read) {
  try {
    read();
  } catch (const Error& error) {
    check(!std::string_view(error.what()).empty(), "a refusal says something");
    check(std::string_view(error.what()).find('\n') == std::string_view::npos, "a refusal is one line");
  }
}

// A folder of this process, in memory where the system has such a place; removed at the end.
inline const std::filesystem::path& folder() {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      const char* memory = "/dev/shm";
      path = (access(memory, W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
             std::filesystem::path("lazytrain-fuzz-" + std::to_string(getpid()));
      std::filesystem::create_directories(path);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder made;
  return made.path;
}

// A file with these bytes, for readers that map files.
inline std::filesystem::path file(const std::string& name, std::span<const std::byte> content) {
  std::filesystem::path path = folder() / name;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
  return path;
}

}  // namespace lazytrain::fuzz
