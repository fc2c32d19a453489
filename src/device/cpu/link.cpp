#include "device/cpu/link.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "core/error.h"
#include "device/cpu/spin.h"

namespace lazytrain::cpu {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

RateClock::RateClock(double gigabytes_per_second, Bytes slack) : slack_bytes_(slack) {
  set(gigabytes_per_second);
}

void RateClock::set(double gigabytes_per_second) {
  // 1 GB/s is one byte a nanosecond.
  nanoseconds_per_byte_ = gigabytes_per_second > 0 ? 1.0 / gigabytes_per_second : 0.0;
  slack_ = nanoseconds(std::llround(nanoseconds_per_byte_ * static_cast<double>(slack_bytes_.value)));
}

SteadyTime RateClock::reserve(Bytes size, SteadyTime earliest) {
  if (!limited()) return earliest;
  const nanoseconds duration(std::llround(nanoseconds_per_byte_ * static_cast<double>(size.value)));
  const std::lock_guard lock(mutex_);
  free_ = std::max(free_, earliest - slack_) + duration;
  return free_;
}

SteadyTime LinkSchedule::reserve(Bytes size) {
  check(paced(), "only a paced link is reserved");
  ready_ = std::max(link_->reserve(size, ready_), joint_cap_->reserve(size, ready_));
  return ready_;
}

void sleep_until(SteadyTime time, bool exact) {
  constexpr auto kSpin = std::chrono::microseconds(60);
  const SteadyTime wake = exact ? time - kSpin : time;
  if (wake > steady_clock::now()) {
    // steady_clock is CLOCK_MONOTONIC; an absolute sleep does not drift when a signal cuts it short.
    const auto since_epoch = std::chrono::duration_cast<nanoseconds>(wake.time_since_epoch()).count();
    const timespec when{.tv_sec = since_epoch / 1'000'000'000, .tv_nsec = since_epoch % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
    }
  }
  while (steady_clock::now() < time) {
    if (exact) relax_core();
  }
}

}  // namespace lazytrain::cpu
