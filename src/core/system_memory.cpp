#include "core/system_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/cgroup.h"

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

}  // namespace

MemoryLimits memory_limits() {
  return {.available = proc_kilobytes("/proc/meminfo", {"MemAvailable:"}), .cgroup = cgroup_memory_left()};
}

Bytes resident_memory() {
  return proc_kilobytes("/proc/self/status", {"RssAnon:", "RssShmem:"});
}

}  // namespace lazytrain
