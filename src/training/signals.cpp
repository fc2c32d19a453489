#include "training/signals.h"

#include <unistd.h>

#include <atomic>
#include <string_view>

#include "core/error.h"

namespace lazytrain {
namespace {

// A handler has no other way to reach the program than a variable of static lifetime.
std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler must not take a lock");
std::atomic<bool> installed{false};
std::atomic<bool> saves{true};
static_assert(std::atomic<bool>::is_always_lock_free);

void say(std::string_view text) {
  // Nothing can be done in a handler about a message that cannot be written.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void handle(int signal) {
  int none = 0;
  // Of a terminal that closes, kernel and shell may each send one.
  if (signal == SIGHUP && received == SIGHUP) return;
  if (received.compare_exchange_strong(none, signal)) {
    say(saves ? "\nstopping after this step and saving; a second signal stops at once without saving\n"
              : "\nstopping; a second signal stops at once\n");
    return;
  }
  say(saves ? "\nstopped at once; the last complete checkpoint is untouched\n" : "\nstopped at once\n");
  _exit(static_cast<int>(ExitCode::interrupted));
}

}  // namespace

StopSignals::StopSignals(OnSignal purpose) {
  check(!installed.exchange(true), "one StopSignals at a time");
  received = 0;
  saves = purpose == OnSignal::save;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
  sigaction(SIGHUP, nullptr, &hang_up_);
  if (hang_up_.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
  sigaction(SIGHUP, &hang_up_, nullptr);
  installed = false;
}

bool StopSignals::requested() const {
  return received != 0;
}
int StopSignals::signal() const {
  return received;
}

}  // namespace lazytrain
