// Counts what a stretch of code allocates, from any library of the process: malloc and its relatives, and
// anonymous mappings. Only in builds without a sanitizer, whose own allocator must stay in place.
#pragma once

#include <cstddef>
#include <string>

namespace lazytrain::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanWatchAllocations = false;
#else
inline constexpr bool kCanWatchAllocations = true;
#endif

struct AllocationCount {
  std::size_t all = 0;      // allocations of any size, in all threads
  std::size_t bytes = 0;    // their sum
  std::size_t largest = 0;  // bytes
  std::size_t large = 0;    // of at least `threshold` bytes
  std::string first_large;  // call stack of the first of them, for the failure message
};

class AllocationWatch {
 public:
  explicit AllocationWatch(std::size_t threshold);
  ~AllocationWatch();
  AllocationWatch(const AllocationWatch&) = delete;
  AllocationWatch& operator=(const AllocationWatch&) = delete;
  // Ends the watch.
  AllocationCount stop();
};

}  // namespace lazytrain::test
