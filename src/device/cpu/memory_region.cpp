#include "device/cpu/memory_region.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "device/cpu/numa.h"

namespace lazytrain::cpu {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
constexpr std::int64_t kAddressSpace = std::int64_t{1} << 47;

[[noreturn]] void refuse(Bytes size, const std::string& purpose) {
  fail(ExitCode::device, "the system does not give {} of memory for {} ({}); free memory or lower the budget",
       format_bytes(size), purpose, std::strerror(errno));
}

void touch(std::byte* data, std::size_t size) {
#if defined(MADV_POPULATE_WRITE)
  if (madvise(data, size, MADV_POPULATE_WRITE) == 0) return;  // Linux 5.14; older kernels take the loop
#endif
  for (std::size_t offset = 0; offset < size; offset += kPage) {
    *const_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
}

}  // namespace

MemoryRegion::MemoryRegion(Bytes size, Pages pages, const std::string& purpose, Bytes most)
    : size_(size), most_(std::max(size, most)) {
  check(size.value >= 0, "a memory region has no negative size");
  if (most_.value == 0) return;
  if (most_.value > kAddressSpace) {
    errno = ENOMEM;
    refuse(most_, purpose);
  }
  const bool huge = most_.value >= kHugePage;
  mapped_ = static_cast<std::size_t>(align_up(most_, kPage).value + (huge ? kHugePage : 0));
  const int reserve = pages == Pages::lazily || most_ > size ? MAP_NORESERVE : 0;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | reserve, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    if (most_ == size) refuse(size, purpose);
    *this = MemoryRegion(size, pages, purpose);  // a process may have a limit of addresses
    return;
  }
  // A child process (the planner's solver) needs none of it, and copying its page tables would take long.
  madvise(mapping_, mapped_, MADV_DONTFORK);
  const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::uintptr_t alignment = huge ? kHugePage : kPage;
  data_ = static_cast<std::byte*>(mapping_) + ((start + alignment - 1) / alignment * alignment - start);
  if (pages == Pages::lazily) return;
  size_ = Bytes{0};
  grow(size);
}

void MemoryRegion::grow(Bytes size) {
  check(size <= most_, "a memory region grows into its own addresses");
  if (size <= size_) return;
  const Bytes begin = align_up(size_, kPage), end = align_up(size, kPage);
  std::byte* const data = data_ + begin.value;
  const auto bytes = static_cast<std::size_t>((end - begin).value);
  size_ = size;
  if (bytes == 0) return;
  interleave_over_nodes(data, bytes);
  // Refused on kernels without huge pages: then small ones serve.
  if (most_.value >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  touch(data, bytes);
}

MemoryRegion::~MemoryRegion() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept {
  *this = std::move(other);
}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(most_, other.most_);
  return *this;
}

}  // namespace lazytrain::cpu
