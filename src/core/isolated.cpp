#include "core/isolated.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <span>

namespace lazytrain {
namespace {

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

// In the child; never returns. The last byte that is written says that all of the others are there.
[[noreturn]] void work_and_exit(const std::function<std::vector<std::byte>()>& work, int descriptor,
                                std::chrono::seconds most, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before that was set
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);  // the parent's to handle
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGXCPU}) std::signal(signal, SIG_DFL);
  const auto seconds = static_cast<rlim_t>(most.count());
  const rlimit time{.rlim_cur = seconds, .rlim_max = seconds + 1}, no_core{};
  setrlimit(RLIMIT_CPU, &time);
  setrlimit(RLIMIT_CORE, &no_core);
  if (const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) {
    dup2(nowhere, STDOUT_FILENO);
    dup2(nowhere, STDERR_FILENO);
  }
  try {
    std::vector<std::byte> result = work();
    result.push_back(std::byte{1});
    _exit(write_all(descriptor, result) ? 0 : 1);
  } catch (...) {
    _exit(1);
  }
}

}  // namespace

std::optional<std::vector<std::byte>> run_isolated(const std::function<std::vector<std::byte>()>& work,
                                                   std::chrono::seconds most_processor_time) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    close(ends[0]);
    work_and_exit(work, ends[1], most_processor_time, parent);
  }
  close(ends[1]);
  std::vector<std::byte> result;
  std::array<std::byte, 1 << 16> piece{};
  while (child > 0) {
    const ssize_t size = read(ends[0], piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    result.insert(result.end(), piece.begin(), piece.begin() + size);
  }
  close(ends[0]);
  if (child < 0) return std::nullopt;
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || result.empty()) return std::nullopt;
  result.pop_back();
  return result;
}

}  // namespace lazytrain
