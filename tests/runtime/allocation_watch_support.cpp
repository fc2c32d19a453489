#include "runtime/allocation_watch.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

namespace lazytrain::test {
namespace {

std::atomic<bool> watching{false};
std::atomic<std::size_t> threshold{0}, count{0}, total{0}, largest{0}, large{0};
std::atomic<int> frames{0};
std::array<void*, 24> stack;
thread_local bool inside = false;  // backtrace() may allocate

[[maybe_unused]] void note(std::size_t size) {
  if (!watching.load(std::memory_order_relaxed) || inside) return;
  count.fetch_add(1);
  total.fetch_add(size);
  std::size_t seen = largest.load();
  while (size > seen && !largest.compare_exchange_weak(seen, size)) {
  }
  if (size < threshold.load()) return;
  if (large.fetch_add(1) == 0) {
    inside = true;
    frames.store(backtrace(stack.data(), static_cast<int>(stack.size())));
    inside = false;
  }
}

}  // namespace

AllocationWatch::AllocationWatch(std::size_t bytes) {
  std::array<void*, 2> warm;  // the first backtrace() loads a library
  backtrace(warm.data(), 2);
  threshold = bytes;
  count = total = largest = large = 0;
  frames = 0;
  watching = true;
}

AllocationWatch::~AllocationWatch() {
  watching = false;
}

AllocationCount AllocationWatch::stop() {
  watching = false;
  AllocationCount result{.all = count, .bytes = total, .largest = largest, .large = large, .first_large = {}};
  if (char** lines = backtrace_symbols(stack.data(), frames)) {
    for (int i = 0; i < frames; ++i) result.first_large += std::string("\n    ") + lines[i];
    std::free(lines);
  }
  return result;
}

}  // namespace lazytrain::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

// The C library's own entry points stand behind ours. Definitions in the program come first for every library
// it loads.
extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) {
  lazytrain::test::note(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t number, std::size_t size) {
  lazytrain::test::note(number * size);
  return __libc_calloc(number, size);
}

void* realloc(void* old, std::size_t size) {
  lazytrain::test::note(size);
  return __libc_realloc(old, size);
}

void* memalign(std::size_t alignment, std::size_t size) {
  lazytrain::test::note(size);
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  void* memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}

void* mmap(void* address, std::size_t length, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_ANONYMOUS) != 0) lazytrain::test::note(length);
  const long result = syscall(SYS_mmap, address, length, protection, flags, file, offset);
  return reinterpret_cast<void*>(result);  // -1 is MAP_FAILED
}

void* mmap64(void* address, std::size_t length, int protection, int flags, int file, off_t offset) {
  return mmap(address, length, protection, flags, file, offset);
}

}  // extern "C"

#endif
