// Anonymous memory straight from the system: aligned, on huge pages where there are any, and real.
#pragma once

#include <cstddef>
#include <string>

#include "core/units.h"

namespace lazytrain::cpu {

// An owned mapping. 4096-aligned (2 MiB-aligned from 2 MiB on, so that huge pages fit), zero-filled.
class MemoryRegion {
 public:
  // touched: every page exists when the constructor returns, so that no page fault falls into a step.
  // lazily:  pages appear at first use; for scratch whose final size is not known.
  enum class Pages { touched, lazily };

  MemoryRegion() = default;
  // Throws Error(device) naming `purpose` where the system does not give the memory. `most`: addresses up to
  // there are kept free for grow(), if the system gives them.
  MemoryRegion(Bytes size, Pages pages, const std::string& purpose, Bytes most = {});
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;

  // Touches the pages up to `size`, at most what it was made for.
  void grow(Bytes size);

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Bytes size() const { return size_; }
  [[nodiscard]] Bytes most() const { return most_; }

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  Bytes size_, most_;
};

}  // namespace lazytrain::cpu
