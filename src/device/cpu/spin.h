// Waiting without sleeping, for waits that are shorter than putting a thread to sleep and waking it.
#pragma once

#include <chrono>

namespace lazytrain::cpu {

// Tells the core that the thread is spinning.
inline void relax_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins until ready() or until `longest` is over; what ready() said last.
template <typename Ready>
bool spin_for(std::chrono::nanoseconds longest, Ready ready) {
  if (ready()) return true;
  if (longest.count() <= 0) return false;
  const auto end = std::chrono::steady_clock::now() + longest;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      relax_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace lazytrain::cpu
