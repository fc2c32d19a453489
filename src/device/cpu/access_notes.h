// Tells the sanitizers what code that they cannot see (oneDNN's generated kernels) reads and writes:
// ThreadSanitizer then finds a missing event, AddressSanitizer a buffer that an operation must not touch.
// Nothing in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_read_range(void* address, unsigned long size);
extern "C" void __tsan_write_range(void* address, unsigned long size);
#elif defined(__SANITIZE_ADDRESS__)
extern "C" void* __asan_region_is_poisoned(void* address, std::size_t size);
#endif

namespace lazytrain::cpu {

inline void note_read([[maybe_unused]] const void* address, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_THREAD__)
  __tsan_read_range(const_cast<void*>(address), size);
#elif defined(__SANITIZE_ADDRESS__)
  // An ordinary read of the first forbidden byte makes the sanitizer report it in its own words.
  if (void* bad = __asan_region_is_poisoned(const_cast<void*>(address), size)) {
    static_cast<void>(*static_cast<volatile std::byte*>(bad));
  }
#endif
}

inline void note_write([[maybe_unused]] void* address, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_THREAD__)
  __tsan_write_range(address, size);
#else
  note_read(address, size);
#endif
}

}  // namespace lazytrain::cpu
