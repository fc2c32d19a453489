// Stopping on request: Ctrl-C, SIGTERM and SIGHUP (a terminal or connection that closes; ignored under nohup)
// ask the trainer to finish the step, save and end; a second signal
// ends the process at once. Commands that save nothing end as soon as they can. The exit code is always 130.
#pragma once

#include <csignal>

namespace lazytrain {

// What a first signal leads to, for the message to the user.
enum class OnSignal { save, end };

// While one of these lives, SIGINT, SIGTERM and SIGHUP set a flag instead of ending the process; afterwards
// the earlier handlers are back. At most one at a time.
class StopSignals {
 public:
  explicit StopSignals(OnSignal purpose = OnSignal::save);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // True from the first signal on. Cheap: ask at every step, and wherever waiting is long.
  [[nodiscard]] bool requested() const;
  // The signal that asked, 0 before.
  [[nodiscard]] int signal() const;

 private:
  struct sigaction interrupt_ {};
  struct sigaction terminate_ {};
  struct sigaction hang_up_ {};
};

}  // namespace lazytrain
