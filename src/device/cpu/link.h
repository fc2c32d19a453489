// Pacing of copies to the rate of an emulated link.
//
// Time on a link is reserved, not measured: a piece of n bytes occupies [start, start + n / rate], where
// start is the end of the piece before it or, where it could not begin then, the moment at which its work
// was asked for and its events had fired. The copying thread then sleeps up to the reserved end. What a
// sleep overshoots, or a busy core delays, the next piece makes up: errors do not add up, and no copy is
// faster than its link.
//
// A joint cap on two directions is a second reservation on a shared clock. It may run behind its users by
// one piece: without that slack the cap would lose the gaps between pieces and be tighter than its rate.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>

#include "core/units.h"

namespace lazytrain::cpu {

using SteadyTime = std::chrono::steady_clock::time_point;

// Copies move in pieces of at most this many bytes: the grain in which two directions share a cap.
inline constexpr Bytes kLinkPiece{512 * 1024};

// Rate of a link or of a joint cap. Shared by the streams that use it.
class RateClock {
 public:
  RateClock(double gigabytes_per_second, Bytes slack);  // 0 GB/s: no limit
  [[nodiscard]] bool limited() const { return nanoseconds_per_byte_ > 0; }
  // Another rate, while no stream uses the clock.
  void set(double gigabytes_per_second);
  // Reserves `size` from `earliest` on; the end of the reservation.
  SteadyTime reserve(Bytes size, SteadyTime earliest);

 private:
  Bytes slack_bytes_;
  double nanoseconds_per_byte_ = 0;
  std::chrono::nanoseconds slack_{};
  std::mutex mutex_;
  SteadyTime free_{};
};

// One stream's view of its link. Not thread-safe: owned by the stream's thread.
class LinkSchedule {
 public:
  LinkSchedule() = default;  // not paced
  LinkSchedule(RateClock* link, RateClock* joint_cap) : link_(link), joint_cap_(joint_cap) {}

  [[nodiscard]] bool paced() const { return link_ != nullptr && (link_->limited() || joint_cap_->limited()); }
  // The next piece cannot start before this: its work was put into the stream, or an event fired, only then.
  void not_before(SteadyTime time) { ready_ = std::max(ready_, time); }
  // The stream did work that is not the link's.
  void other_work_done() {
    if (paced()) not_before(std::chrono::steady_clock::now());
  }
  // Reserves the next piece, directly behind the last one; until when the link is busy with it.
  SteadyTime reserve(Bytes size);

 private:
  RateClock* link_ = nullptr;
  RateClock* joint_cap_ = nullptr;
  SteadyTime ready_{};
};

// Sleeps until `time`. A sleep ends tens of microseconds late; `exact` sleeps less and spins for the rest
// (60 us at most), for threads that do not share their core with the compute stream.
void sleep_until(SteadyTime time, bool exact);

}  // namespace lazytrain::cpu
