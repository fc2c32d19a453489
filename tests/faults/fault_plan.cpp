// When a fault comes, and what the injector knows of files.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "fault_injector.h"

namespace faults {
namespace {

struct Watched {
  std::string path;
  bool writable = false;
};

struct Plan {
  std::vector<std::string> folders;
  long at = 0;
  FaultKind kind = FaultKind::kill_before;
  int trace = -1;
  std::mutex mutex;
  std::atomic<long> count = 0;
  std::map<int, Watched> open;
  std::map<std::pair<dev_t, ino_t>, int> unflushed;  // a descriptor of the injector's own
};

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

FaultKind kind_named(const std::string& name) {
  const std::map<std::string, FaultKind> kinds{
      {"no_space", FaultKind::no_space},       {"stays_full", FaultKind::stays_full},
      {"io_error", FaultKind::io_error},       {"interrupted", FaultKind::interrupted},
      {"short_write", FaultKind::short_write}, {"kill_before", FaultKind::kill_before},
      {"kill_within", FaultKind::kill_within}, {"kill_after", FaultKind::kill_after},
      {"power_cut", FaultKind::power_cut}};
  const auto found = kinds.find(name);
  if (found == kinds.end()) abort();
  return found->second;
}

// Never destroyed: files are closed until the very end of the process.
Plan& plan() {
  static Plan* const made = [] {
    auto* fresh = new Plan;
    std::string folders = environment("LAZYTRAIN_FAULT_FOLDERS");
    for (std::size_t begin = 0; begin < folders.size();) {
      const std::size_t end = std::min(folders.find(':', begin), folders.size());
      fresh->folders.push_back(folders.substr(begin, end - begin));
      begin = end + 1;
    }
    fresh->at = std::atol(environment("LAZYTRAIN_FAULT_AT"));
    if (fresh->at > 0) fresh->kind = kind_named(environment("LAZYTRAIN_FAULT_KIND"));
    const char* trace = environment("LAZYTRAIN_FAULT_TRACE");
    if (*trace != '\0')
      fresh->trace = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    return fresh;
  }();
  return *made;
}

bool is_watched(const std::string& path) {
  for (const std::string& folder : plan().folders)
    if (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/')) return true;
  return false;
}

}  // namespace

Verdict arrived(const char* call, const std::string& path, bool takes_space) {
  if (path.empty() || !is_watched(path)) return {};
  Plan& now = plan();
  const long number = ++now.count;
  if (now.trace >= 0) {
    const std::string line = std::to_string(number) + " " + call + " " + path + "\n";
    syscall(SYS_write, now.trace, line.data(), line.size());
  }
  if (now.at == 0 || number < now.at) return {};
  if (now.kind == FaultKind::stays_full) return {.error = takes_space ? ENOSPC : 0};
  if (number != now.at) return {};
  switch (now.kind) {
    case FaultKind::no_space:
      return {.error = ENOSPC};
    case FaultKind::io_error:
      return {.error = EIO};
    case FaultKind::interrupted:
      return {.error = EINTR};
    case FaultKind::short_write:
      return {.half = true};
    case FaultKind::kill_within:
      return {.half = true, .die_after = true};
    case FaultKind::kill_after:
    case FaultKind::power_cut:
      return {.die_after = true};
    default:
      return {.die_before = true};
  }
}

void die() {
  Plan& now = plan();
  if (now.kind == FaultKind::power_cut) {
    const std::scoped_lock lock(now.mutex);
    for (const auto& [file, descriptor] : now.unflushed) {
      struct stat status {};
      if (fstat(descriptor, &status) == 0) syscall(SYS_ftruncate, descriptor, status.st_size / 2);
    }
  }
  syscall(SYS_kill, getpid(), SIGKILL);
  for (;;) pause();
}

void remember(int descriptor, const std::string& path, bool writable) {
  if (descriptor < 0 || !is_watched(path)) return;
  const std::scoped_lock lock(plan().mutex);
  plan().open[descriptor] = {.path = path, .writable = writable};
}

void forget(int descriptor) {
  const std::scoped_lock lock(plan().mutex);
  plan().open.erase(descriptor);
}

std::string path_of(int descriptor) {
  const std::scoped_lock lock(plan().mutex);
  const auto found = plan().open.find(descriptor);
  return found == plan().open.end() ? "" : found->second.path;
}

bool is_writable(int descriptor) {
  const std::scoped_lock lock(plan().mutex);
  const auto found = plan().open.find(descriptor);
  return found != plan().open.end() && found->second.writable;
}

void written(int descriptor) {
  Plan& now = plan();
  struct stat status {};
  if (now.kind != FaultKind::power_cut || now.at == 0 || path_of(descriptor).empty() ||
      fstat(descriptor, &status) != 0)
    return;
  const std::scoped_lock lock(now.mutex);
  const auto [place, fresh] = now.unflushed.try_emplace({status.st_dev, status.st_ino}, -1);
  if (fresh) place->second = static_cast<int>(syscall(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, 500));
}

void flushed(int descriptor) {
  Plan& now = plan();
  struct stat status {};
  if (now.kind != FaultKind::power_cut || fstat(descriptor, &status) != 0) return;
  const std::scoped_lock lock(now.mutex);
  const auto found = now.unflushed.find({status.st_dev, status.st_ino});
  if (found == now.unflushed.end()) return;
  syscall(SYS_close, found->second);
  now.unflushed.erase(found);
}

}  // namespace faults
