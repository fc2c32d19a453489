// Runs every file of the folders and files that are named through the target: the kept inputs as a test, in
// any build.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include "core/file.h"
#include "fuzz.h"

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const fs::path& path) {
  std::vector<fs::path> files;
  if (fs::is_regular_file(path)) return {path};
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace

int main(int count, char** words) {
  constexpr double kMostSeconds = 10;
  std::size_t read = 0, wrong = 0;
  for (int i = 1; i < count; ++i) {
    for (const fs::path& path : files_of(words[i])) {
      const lazytrain::MappedFile content(path);
      const auto begin = std::chrono::steady_clock::now();
      try {
        lazytrain::fuzz::fuzz_one(content.bytes());
      } catch (const std::exception& error) {
        std::printf("%s: %s\n", path.c_str(), error.what());
        ++wrong;
      }
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (took.count() > kMostSeconds) {
        std::printf("%s: %.1f s\n", path.c_str(), took.count());
        ++wrong;
      }
      ++read;
    }
  }
  std::printf("%zu inputs, %zu wrong\n", read, wrong);
  return wrong == 0 && read > 0 ? 0 : 1;
}
