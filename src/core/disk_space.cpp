#include "core/disk_space.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "core/error.h"

namespace lazytrain {
namespace fs = std::filesystem;

fs::path nearest_existing(const fs::path& folder) {
  fs::path existing = fs::absolute(folder);
  std::error_code ignored;
  while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
  return existing;
}

bool same_file_system(const fs::path& a, const fs::path& b) {
  struct stat first {
  }, second{};
  return stat(nearest_existing(a).c_str(), &first) == 0 && stat(nearest_existing(b).c_str(), &second) == 0 &&
         first.st_dev == second.st_dev;
}

Bytes free_space(const fs::path& folder) {
  const fs::path existing = nearest_existing(folder);
  struct statvfs status {};
  if (statvfs(existing.c_str(), &status) != 0) {
    fail(ExitCode::disk, "{}: cannot ask for its free space: {}", existing.string(), std::strerror(errno));
  }
  const auto blocks = static_cast<std::uint64_t>(status.f_bavail);
  const auto block = static_cast<std::uint64_t>(status.f_frsize);
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return {static_cast<std::int64_t>(block != 0 && blocks > kMost / block ? kMost : blocks * block)};
}

}  // namespace lazytrain
