// How much memory this process may still take: the cgroup's limit and MemAvailable, never MemTotal.
#pragma once

#include <optional>

#include "core/units.h"

namespace lazytrain {

struct MemoryLimits {
  Bytes available;              // MemAvailable of /proc/meminfo
  std::optional<Bytes> cgroup;  // what the cgroup leaves: its limit less what it uses without page cache
  [[nodiscard]] Bytes free() const { return cgroup && *cgroup < available ? *cgroup : available; }
};
MemoryLimits memory_limits();

// Anonymous and shared memory of this process (RssAnon + RssShmem of /proc/self/status): what cannot be
// dropped.
Bytes resident_memory();

}  // namespace lazytrain
