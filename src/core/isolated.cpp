#include "core/isolated.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::byte kComplete{0x5a};  // the last byte that a child writes

// In the child; never returns.
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
    result.push_back(kComplete);
    _exit(write_all(descriptor, result) ? 0 : 1);
  } catch (...) {
    _exit(1);
  }
}

// Everything that comes through until the other end is closed; false at the deadline.
bool read_all(int descriptor, std::chrono::steady_clock::time_point deadline,
              std::vector<std::byte>& result) {
  std::array<std::byte, 1 << 16> piece{};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{.fd = descriptor, .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
    if (count == 0 || (count < 0 && errno == EINTR)) continue;
    const ssize_t size = count < 0 ? -1 : read(descriptor, piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size == 0;
    result.insert(result.end(), piece.begin(), piece.begin() + size);
  }
}

// The child, and the end of the pipe that it writes to; both are gone when this is.
class Child {
 public:
  Child(pid_t pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      (void)wait();
    }
    close(descriptor_);
  }
  // Whether it ended by itself and well.
  bool wait() {
    int status = 0;
    pid_t waited = -1;
    do waited = waitpid(pid_, &status, 0);
    while (waited < 0 && errno == EINTR);
    const bool known = waited == pid_ || errno == ECHILD;  // a caller that ignores SIGCHLD learns no status
    const bool well = waited == pid_ ? WIFEXITED(status) && WEXITSTATUS(status) == 0 : known;
    pid_ = -1;
    return well;
  }

 private:
  pid_t pid_;
  int descriptor_;
};

}  // namespace

IsolatedResult run_isolated(const std::function<std::vector<std::byte>()>& work, IsolationLimits limits) {
  using End = IsolatedResult::End;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {.end = End::not_started, .bytes = {}};
  const pid_t parent = getpid(), pid = fork();
  if (pid == 0) {
    close(ends[0]);
    work_and_exit(work, ends[1], limits.processor_time, parent);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return {.end = End::not_started, .bytes = {}};
  }
  Child child(pid, ends[0]);
  IsolatedResult result;
  const bool complete =
      read_all(ends[0], std::chrono::steady_clock::now() + limits.wall_time, result.bytes) && child.wait() &&
      !result.bytes.empty() && result.bytes.back() == kComplete;
  if (!complete) return {.end = End::died, .bytes = {}};
  result.bytes.pop_back();
  result.end = End::done;
  return result;
}

}  // namespace lazytrain
