#include "device/cpu/affinity.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <thread>

namespace lazytrain::cpu {

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) cores.push_back(core);
    }
  }
  if (cores.empty()) {  // more cores than the mask holds
    const int count = static_cast<int>(std::thread::hardware_concurrency());
    for (int core = 0; core < (count > 0 ? count : 1); ++core) cores.push_back(core);
  }
  return cores;
}

void set_up_thread(const std::string& name, const std::vector<int>& cores) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
  prctl(PR_SET_TIMERSLACK, 1UL);  // ns; the default of 50 us would be added to every paced sleep
  if (cores.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &mask);
  }
  sched_setaffinity(0, sizeof(mask), &mask);
}

}  // namespace lazytrain::cpu
