// The CPU backend of Device.
//
// unified:  one tier. Everything computes in place on all threads; copies are plain memory copies.
// emulated: a stand-in for an accelerator that runs the whole tier machinery anywhere: the device arena
//           is capped hard, copies are paced to the given rates. Reports always call it emulated.
// Streams are threads with queues, so a missing event is a data race that ThreadSanitizer sees.
#pragma once

#include <memory>

#include "core/threads.h"
#include "device/device.h"

namespace lazytrain {

// Rates of an emulated machine, GB/s (1e9 bytes). 0 = not paced.
struct LinkRates {
  double h2d = 0;
  double d2h = 0;
  double duplex = 0;  // cap on h2d + d2h together
  double disk_read = 0;
  double disk_write = 0;
};

struct CpuDeviceOptions {
  MemoryModel memory_model = MemoryModel::unified;
  int compute_threads = 1;  // the compute stream's pool
  int host_threads = 1;     // the pool of host work (optimizer, embedding), see host_pool()
  // Emulated, for timing: compute threads are bound to the first cores and everything else to the rest, so
  // that overlap is physically real. Off: all threads use all cores (a mere memory cap).
  bool split_cores = false;
  Bytes device_capacity = {};  // emulated: the hard cap of the device arena
  LinkRates links = {};        // emulated
};

// A Device whose host work can use a thread pool of its own, and whose compute threads take other work than
// the Device's operations.
class CpuDevice : public Device {
 public:
  // Work on the compute stream (and only it) may run loops on this pool: updates of what lives on the device.
  virtual ThreadPool& compute_pool() = 0;
  // Work on the host stream (and only it) may run loops on this pool.
  virtual ThreadPool& host_pool() = 0;
  // Other rates for an emulated device's links, between steps.
  virtual void set_links(const LinkRates& rates) = 0;
};

// Throws Error(device) where the options make no sense on this machine (split cores with one core...).
std::unique_ptr<CpuDevice> make_cpu_device(const CpuDeviceOptions& options);

// The instruction set in use: "AVX-512 bf16", "AVX-512", "AVX2", "baseline x86-64". The environment variable
// LAZYTRAIN_ISA (avx512 | avx2 | baseline) lowers it, for tests.
std::string cpu_instruction_set();

}  // namespace lazytrain
