#include "core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

// A limit of version 1 that means "none": the largest multiple of a page.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 62;

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or no such file
}

std::int64_t value_of(const fs::path& path, std::string_view wanted) {
  std::ifstream file(path);
  std::string key;
  std::int64_t value = 0;
  while (file >> key >> value)
    if (key == wanted) return value;
  return 0;
}

// The folder of `path` below `mount` and all above it. In a container the path may be the host's and not be
// there: then only the mount itself is.
void add_folders(const fs::path& mount, const std::string& path, std::vector<fs::path>& folders) {
  std::error_code ignored;
  for (fs::path relative = fs::path(path).relative_path(); !relative.empty();
       relative = relative.parent_path()) {
    if (fs::is_directory(mount / relative, ignored)) folders.push_back(mount / relative);
  }
  if (fs::is_directory(mount, ignored)) folders.push_back(mount);
}

struct Folders {
  std::vector<fs::path> version1, version2;
};

// Lines are "number:controllers:path"; version 2 has no controllers.
Folders folders_of(std::string_view controller, const CgroupFiles& files) {
  Folders folders;
  std::ifstream membership(files.membership);
  std::string line;
  while (std::getline(membership, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      add_folders(files.mount, path, folders.version2);
      add_folders(files.mount / "unified", path, folders.version2);
    } else if (controllers.find("," + std::string(controller) + ",") != std::string::npos) {
      add_folders(files.mount / controller, path, folders.version1);
    }
  }
  return folders;
}

}  // namespace

std::optional<Bytes> cgroup_memory_left(const CgroupFiles& files) {
  std::optional<Bytes> left;
  const auto take = [&](std::optional<std::int64_t> limit, std::optional<std::int64_t> used,
                        std::int64_t cache) {
    if (!limit || !used || *limit >= kNoLimit) return;
    const Bytes here{std::max<std::int64_t>(0, *limit - *used + cache)};
    left = left ? std::min(*left, here) : here;
  };
  const Folders folders = folders_of("memory", files);
  for (const fs::path& folder : folders.version2)
    take(number_in(folder / "memory.max"), number_in(folder / "memory.current"),
         value_of(folder / "memory.stat", "inactive_file"));
  for (const fs::path& folder : folders.version1)
    take(number_in(folder / "memory.limit_in_bytes"), number_in(folder / "memory.usage_in_bytes"),
         value_of(folder / "memory.stat", "total_inactive_file"));
  return left;
}

std::optional<double> cgroup_cpu_quota(const CgroupFiles& files) {
  std::optional<double> quota;
  const auto take = [&](double time, double period) {
    if (time > 0 && period > 0) quota = quota ? std::min(*quota, time / period) : time / period;
  };
  const Folders folders = folders_of("cpu", files);
  for (const fs::path& folder : folders.version2) {
    std::ifstream file(folder / "cpu.max");
    double time = 0, period = 0;
    if (file >> time >> period) take(time, period);
  }
  for (const fs::path& folder : folders.version1)
    take(static_cast<double>(number_in(folder / "cpu.cfs_quota_us").value_or(0)),
         static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0)));
  return quota;
}

}  // namespace lazytrain
