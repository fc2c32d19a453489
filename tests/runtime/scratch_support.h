// What the tests of the scratch file share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "runtime/scratch_file.h"

namespace lazytrain::test {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// A fresh folder for one test, removed with the object.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "lazytrain-scratch-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path); }
  std::filesystem::path path;
};

// Memory that transfers may use.
class Buffer {
 public:
  explicit Buffer(std::int64_t size)
      : size_(static_cast<std::size_t>(size)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kDiskAlignment, size_))) {}
  ~Buffer() { std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::span<std::byte> first(std::int64_t size) {
    return {data_, static_cast<std::size_t>(size)};
  }
  [[nodiscard]] std::span<std::byte> all() { return {data_, size_}; }

 private:
  std::size_t size_;
  std::byte* data_;
};

inline void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
}

// What `work` throws, "" where it does not.
inline std::string disk_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::disk);
    return error.what();
  }
  return "";
}

// A child process that changes what belongs to a process; true where `holds` does.
inline bool in_child(const std::function<bool()>& holds) {
  const pid_t child = fork();
  if (child == 0) {
    bool result = false;
    try {
      result = holds();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    _exit(result ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace lazytrain::test
