#include "core/system_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

namespace lazytrain {
namespace {

// Sum of the lines "Key:  123 kB" of a /proc file.
Bytes proc_kilobytes(const char* path, std::initializer_list<const char*> keys) {
  std::ifstream file(path);
  Bytes sum;
  std::string key;
  std::int64_t value = 0;
  std::string rest;
  while (file >> key) {
    if (std::any_of(keys.begin(), keys.end(), [&](const char* wanted) { return key == wanted; }) &&
        file >> value)
      sum += Bytes{value * 1024};
    std::getline(file, rest);
  }
  return sum;
}

std::optional<std::int64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or no such file
}

std::int64_t page_cache(const char* path) {
  std::ifstream file(path);
  std::string key;
  std::int64_t value = 0;
  while (file >> key >> value)
    if (key == "inactive_file") return value;
  return 0;
}

}  // namespace

MemoryLimits memory_limits() {
  MemoryLimits limits{.available = proc_kilobytes("/proc/meminfo", {"MemAvailable:"}), .cgroup = {}};
  const auto limit = number_in("/sys/fs/cgroup/memory.max");
  const auto used = number_in("/sys/fs/cgroup/memory.current");
  if (limit && used)
    limits.cgroup =
        Bytes{std::max<std::int64_t>(0, *limit - *used + page_cache("/sys/fs/cgroup/memory.stat"))};
  return limits;
}

Bytes resident_memory() {
  return proc_kilobytes("/proc/self/status", {"RssAnon:", "RssShmem:"});
}

}  // namespace lazytrain
