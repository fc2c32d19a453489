// What a run keeps on disk between uses lives in one scratch file: unlinked from the start, so that a killed
// run leaves nothing behind, and of full size from the start, so that a full disk is met before training and
// not in its middle. It goes around the page cache where the file system allows it, because what comes back a
// step later gains nothing from a cache and would take the memory that the host tier counts on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "core/units.h"

namespace lazytrain {

// The folder is a tmpfs or ramfs: what is kept there takes memory, not disk.
[[nodiscard]] bool lies_in_memory(const std::filesystem::path& folder);

// Ways to reach the disk, best first.
enum class ScratchMethod : std::uint8_t { uring, direct, cached };

// Chosen from `disk_bench`: a byte costs less processor time the larger the requests are, and eight of them
// keep a disk of several GB/s busy.
struct ScratchOptions {
  Bytes chunk = {std::int64_t{4} << 20};      // one request of io_uring; a multiple of kDiskAlignment
  int depth = 8;                              // requests of one direction under way at once
  ScratchMethod best = ScratchMethod::uring;  // the first one that is tried
};

// Offsets, sizes and addresses of transfers are multiples of kDiskAlignment: enough for O_DIRECT on any
// common disk. Transfers block and allocate nothing. One thread may read while another writes; each direction
// is used by one thread at a time. Failures are Error(disk) with the folder, what was done and the system's
// reason; misaligned use is a std::logic_error.
class ScratchFile {
 public:
  // In `folder`, which is made where it is missing. `size` (more than 0) is rounded up to kDiskAlignment.
  // Error(disk) where the folder cannot be used, or has no room: it names the needed and the free bytes.
  // Methods that the kernel or the file system refuses are passed over; so is io_uring where the environment
  // says LAZYTRAIN_IO=pread.
  ScratchFile(const std::filesystem::path& folder, Bytes size, const ScratchOptions& options = {});
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void read(Bytes offset, std::span<std::byte> out);
  void write(Bytes offset, std::span<const std::byte> bytes);

  // "io_uring, O_DIRECT", "pread/pwrite, O_DIRECT" or "pread/pwrite through the page cache".
  [[nodiscard]] std::string method() const;
  // Why a better method was passed over ("io_uring: Operation not permitted"), "" where none was.
  [[nodiscard]] const std::string& passed_over() const { return passed_over_; }
  // The folder is a tmpfs or ramfs: what is kept there takes memory, not disk.
  [[nodiscard]] bool in_memory() const { return in_memory_; }
  [[nodiscard]] Bytes size() const { return size_; }

 private:
  class Ring;
  void open_unlinked();
  void make_room();
  void settle_method(const ScratchOptions& options);
  bool set_direct(bool on);
  // A transfer gives 0 or the system's error number.
  int transfer(bool writing, std::int64_t offset, std::byte* data, std::size_t size);
  int plain_transfer(bool writing, std::int64_t offset, std::byte* data, std::size_t size);
  // Keeps the page cache short: hands written pages to the disk, drops those that have arrived there.
  int write_behind(std::int64_t offset, std::size_t size);
  void check_range(Bytes offset, const std::byte* data, std::size_t size) const;
  [[noreturn]] void fail_transfer(bool writing, int error) const;

  std::filesystem::path folder_;
  Bytes size_;
  int descriptor_ = -1;
  bool in_memory_ = false;
  ScratchMethod method_ = ScratchMethod::cached;
  std::string passed_over_;
  std::unique_ptr<Ring> reading_, writing_;
  std::int64_t behind_offset_ = 0, behind_size_ = 0;  // written through the cache, not dropped yet
};

}  // namespace lazytrain
