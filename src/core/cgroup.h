// What the control groups of this process allow: memory and processor time. Both versions are read, and every
// group from the process's own up to the root: a limit of any of them holds for it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/units.h"

namespace lazytrain {

struct CgroupFiles {
  std::filesystem::path membership = "/proc/self/cgroup";
  std::filesystem::path mount = "/sys/fs/cgroup";
};

// What the tightest memory limit leaves: limit less usage without reclaimable page cache, at least 0. None
// where no group has a limit.
[[nodiscard]] std::optional<Bytes> cgroup_memory_left(const CgroupFiles& files = {});

// Processors' worth of time that the tightest quota gives, e.g. 1.5. None without a quota.
[[nodiscard]] std::optional<double> cgroup_cpu_quota(const CgroupFiles& files = {});

}  // namespace lazytrain
