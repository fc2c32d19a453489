#include "device/cpu/memory_region.h"

#include <sys/mman.h>

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

MemoryRegion::MemoryRegion(Bytes size, Pages pages, const std::string& purpose) : size_(size) {
  check(size.value >= 0, "a memory region has no negative size");
  if (size.value == 0) return;
  if (size.value > kAddressSpace) {
    errno = ENOMEM;
    refuse(size, purpose);
  }
  const bool huge = size.value >= kHugePage;
  const Bytes whole_pages = align_up(size, kPage);
  mapped_ = static_cast<std::size_t>(whole_pages.value + (huge ? kHugePage : 0));
  const int reserve = pages == Pages::lazily ? MAP_NORESERVE : 0;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | reserve, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    refuse(size, purpose);
  }
  const auto start = reinterpret_cast<std::uintptr_t>(mapping_);
  const std::uintptr_t alignment = huge ? kHugePage : kPage;
  data_ = static_cast<std::byte*>(mapping_) + ((start + alignment - 1) / alignment * alignment - start);
  if (pages == Pages::lazily) return;
  interleave_over_nodes(data_, static_cast<std::size_t>(whole_pages.value));
  // Refused on kernels without huge pages: then small ones serve.
  if (huge) madvise(data_, static_cast<std::size_t>(whole_pages.value), MADV_HUGEPAGE);
  touch(data_, static_cast<std::size_t>(whole_pages.value));
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
  return *this;
}

}  // namespace lazytrain::cpu
