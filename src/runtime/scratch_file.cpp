#include "runtime/scratch_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "core/disk_space.h"
#include "core/error.h"

namespace lazytrain {
namespace {

// One call of pread or pwrite. The kernel cuts direct ones up and has the parts under way together.
constexpr std::size_t kDirectPiece = std::size_t{32} << 20;
constexpr std::size_t kCachedPiece = std::size_t{8} << 20;

bool aligned(std::int64_t value) {
  return value % kDiskAlignment == 0;
}

bool again(int error) {
  return error == EINTR || error == EAGAIN;
}

// After a transfer of `done` bytes the next one must start aligned, too.
std::size_t whole_blocks(std::size_t done) {
  return done / kDiskAlignment * kDiskAlignment;
}

}  // namespace

// The io_uring of one direction, and the pieces that are under way in it.
class ScratchFile::Ring {
 public:
  explicit Ring(const ScratchOptions& options)
      : chunk_(static_cast<std::size_t>(options.chunk.value)),
        pieces_(static_cast<std::size_t>(options.depth)) {
    error_ = -io_uring_queue_init(static_cast<unsigned>(options.depth), &ring_, 0);
    for (std::size_t i = 0; i < pieces_.size(); ++i) idle_.push_back(i);
    open_ = error_ == 0;
  }
  ~Ring() {
    if (open_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // Why it takes no transfers (any more), 0 where it does.
  [[nodiscard]] int error() const { return error_; }

  // Returns only when the kernel has let go of `data`, after an error as well.
  int transfer(int descriptor, bool writing, std::int64_t offset, std::byte* data, std::size_t size) {
    if (error_ != 0) return error_;
    std::size_t begun = 0;
    int failure = 0;
    while (under_way() > 0 || (begun < size && failure == 0)) {
      while (begun < size && failure == 0 && !idle_.empty()) {
        const std::size_t piece = idle_.back(), bytes = std::min(chunk_, size - begun);
        idle_.pop_back();
        pieces_[piece] = {offset + static_cast<std::int64_t>(begun), data + begun, bytes};
        queue(descriptor, writing, piece);
        begun += bytes;
      }
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted == -EAGAIN || submitted == -EBUSY) std::this_thread::yield();
      if (submitted < 0 && submitted != -EBUSY && !again(-submitted)) {
        // Requests that the kernel did not take stay queued, so this ring must never be submitted again.
        error_ = -submitted;
        drain();
        return error_;
      }
      for (io_uring_cqe* done = nullptr; io_uring_peek_cqe(&ring_, &done) == 0;) {
        const auto piece = static_cast<std::size_t>(io_uring_cqe_get_data64(done));
        const int error = arrived(pieces_[piece], done->res);
        io_uring_cqe_seen(&ring_, done);
        if (error != 0 && failure == 0) failure = error;
        if (failure == 0 && pieces_[piece].bytes > 0)
          queue(descriptor, writing, piece);
        else
          idle_.push_back(piece);
      }
    }
    return failure;
  }

 private:
  struct Piece {
    std::int64_t offset;
    std::byte* data;
    std::size_t bytes;  // still to be moved
  };

  [[nodiscard]] std::size_t under_way() const { return pieces_.size() - idle_.size(); }

  void queue(int descriptor, bool writing, std::size_t index) {
    const Piece& piece = pieces_[index];
    io_uring_sqe* request = io_uring_get_sqe(&ring_);  // there is one for each piece
    const auto bytes = static_cast<unsigned>(piece.bytes);
    const auto offset = static_cast<std::uint64_t>(piece.offset);
    if (writing)
      io_uring_prep_write(request, descriptor, piece.data, bytes, offset);
    else
      io_uring_prep_read(request, descriptor, piece.data, bytes, offset);
    io_uring_sqe_set_data64(request, index);
  }

  // Moves the piece on by what a request did; the error that ends the transfer, or 0.
  static int arrived(Piece& piece, int result) {
    if (result < 0) return again(-result) ? 0 : -result;
    const std::size_t moved = std::min(whole_blocks(static_cast<std::size_t>(result)), piece.bytes);
    if (moved == 0) return EIO;
    piece.offset += static_cast<std::int64_t>(moved);
    piece.data += moved;
    piece.bytes -= moved;
    return 0;
  }

  void drain() {
    io_uring_cqe* done = nullptr;
    while (under_way() > io_uring_sq_ready(&ring_)) {
      const int waited = io_uring_wait_cqe(&ring_, &done);
      if (waited == -EINTR || waited == -EAGAIN) continue;
      check(waited >= 0, "the kernel says which requests have ended");
      idle_.push_back(static_cast<std::size_t>(io_uring_cqe_get_data64(done)));
      io_uring_cqe_seen(&ring_, done);
    }
  }

  io_uring ring_{};
  bool open_ = false;
  int error_ = 0;
  std::size_t chunk_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> idle_;
};

ScratchFile::ScratchFile(const std::filesystem::path& folder, Bytes size, const ScratchOptions& options)
    : folder_(folder), size_(align_up(size, kDiskAlignment)) {
  check(size.value > 0, "a scratch file has a size");
  check(options.chunk.value > 0 && aligned(options.chunk.value) && options.chunk.value <= (1 << 30) &&
            options.depth > 0,
        "requests of a scratch file are aligned");
  try {
    open_unlinked();
    make_room();
    settle_method(options);
  } catch (...) {
    if (descriptor_ >= 0) close(descriptor_);
    throw;
  }
}

ScratchFile::~ScratchFile() {
  close(descriptor_);
}

void ScratchFile::open_unlinked() {
  std::error_code made;
  std::filesystem::create_directories(folder_, made);
  if (made)
    fail(ExitCode::disk, "{}: cannot make this folder for the scratch file: {}; choose another folder",
         folder_.string(), made.message());
  descriptor_ = open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  // Where the file system has no O_TMPFILE, or the kernel does not know it and takes it for O_DIRECTORY.
  if (descriptor_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL || errno == ENOENT)) {
    std::string name = (folder_ / ".lazytrain-scratch-XXXXXX").string();
    descriptor_ = mkostemp(name.data(), O_CLOEXEC);
    if (descriptor_ >= 0 && unlink(name.c_str()) != 0)
      fail(ExitCode::disk, "{}: cannot unlink the scratch file: {}; remove it and choose another folder",
           name, std::strerror(errno));
  }
  if (descriptor_ < 0)
    fail(ExitCode::disk, "{}: cannot make a scratch file here: {}; choose another folder", folder_.string(),
         std::strerror(errno));
  in_memory_ = lies_in_memory(folder_);
}

bool lies_in_memory(const std::filesystem::path& folder) {
  struct statfs system {};
  return statfs(folder.c_str(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

void ScratchFile::make_room() {
  const auto no_room = [&](const char* reason) {
    fail(ExitCode::disk,
         "{}: the scratch file needs {}, {} are free{}; free some space or choose another folder",
         folder_.string(), format_bytes(size_), format_bytes(free_space(folder_)), reason);
  };
  // Asked first: allocating until nothing is left would take the disk from everybody for a while.
  if (size_ > free_space(folder_)) no_room("");
  int result = 0;
  do result = fallocate(descriptor_, 0, 0, size_.value);
  while (result != 0 && errno == EINTR);
  // posix_fallocate() would write every block where there is no allocation; a sparse file has to do there.
  if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) result = ftruncate(descriptor_, size_.value);
  if (result == 0) return;
  if (errno == ENOSPC) no_room("");
  if (errno == EDQUOT) no_room(" but not within this user's quota");
  fail(ExitCode::disk, "{}: cannot give the scratch file {}: {}; choose another folder", folder_.string(),
       format_bytes(size_), std::strerror(errno));
}

bool ScratchFile::set_direct(bool on) {
  const int flags = fcntl(descriptor_, F_GETFL);
  return flags >= 0 && fcntl(descriptor_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// Every method is tried with one block: some kernels and file systems accept a mode and refuse its use.
void ScratchFile::settle_method(const ScratchOptions& options) {
  alignas(kDiskAlignment) std::array<std::byte, kDiskAlignment> block{};
  const auto works = [&](const char* name, int error) {
    for (const bool writing : {true, false})
      if (error == 0) error = transfer(writing, 0, block.data(), block.size());
    if (error != 0) passed_over_ = std::string(name) + ": " + std::strerror(error);
    return error == 0;
  };
  const char* wish = std::getenv("LAZYTRAIN_IO");
  const bool no_ring = wish != nullptr && std::strcmp(wish, "pread") == 0;
  method_ = no_ring ? std::max(options.best, ScratchMethod::direct) : options.best;
  if (method_ != ScratchMethod::cached && !set_direct(true)) {
    passed_over_ = std::string("O_DIRECT: ") + std::strerror(errno);
    method_ = ScratchMethod::cached;
  }
  if (method_ == ScratchMethod::uring) {
    reading_ = std::make_unique<Ring>(options);
    writing_ = std::make_unique<Ring>(options);
    if (works("io_uring", std::max(reading_->error(), writing_->error()))) return;
    reading_.reset();
    writing_.reset();
    method_ = ScratchMethod::direct;
  }
  if (method_ == ScratchMethod::direct) {
    if (works("O_DIRECT", 0)) return;
    set_direct(false);
    method_ = ScratchMethod::cached;
  }
}

std::string ScratchFile::method() const {
  if (method_ == ScratchMethod::uring) return "io_uring, O_DIRECT";
  if (method_ == ScratchMethod::direct) return "pread/pwrite, O_DIRECT";
  return "pread/pwrite through the page cache";
}

void ScratchFile::check_range(Bytes offset, const std::byte* data, std::size_t size) const {
  const auto bytes = static_cast<std::int64_t>(size);
  check(
      aligned(offset.value) && aligned(bytes) && reinterpret_cast<std::uintptr_t>(data) % kDiskAlignment == 0,
      "transfers of a scratch file are aligned");
  check(offset.value >= 0 && bytes <= size_.value && offset.value <= size_.value - bytes,
        "transfers of a scratch file stay inside it");
}

void ScratchFile::fail_transfer(bool writing, int error) const {
  fail(ExitCode::disk, "{}: cannot {} the scratch file: {}; check the disk or choose another folder",
       folder_.string(), writing ? "write" : "read", std::strerror(error));
}

void ScratchFile::read(Bytes offset, std::span<std::byte> out) {
  check_range(offset, out.data(), out.size());
  if (const int error = transfer(false, offset.value, out.data(), out.size())) fail_transfer(false, error);
}

void ScratchFile::write(Bytes offset, std::span<const std::byte> bytes) {
  check_range(offset, bytes.data(), bytes.size());
  auto* data = const_cast<std::byte*>(bytes.data());  // one way through the code for both directions
  if (const int error = transfer(true, offset.value, data, bytes.size())) fail_transfer(true, error);
}

int ScratchFile::transfer(bool writing, std::int64_t offset, std::byte* data, std::size_t size) {
  if (method_ == ScratchMethod::uring)
    return (writing ? *writing_ : *reading_).transfer(descriptor_, writing, offset, data, size);
  return plain_transfer(writing, offset, data, size);
}

int ScratchFile::plain_transfer(bool writing, std::int64_t offset, std::byte* data, std::size_t size) {
  const bool cached = method_ == ScratchMethod::cached;
  while (size > 0) {
    const std::size_t piece = std::min(size, cached ? kCachedPiece : kDirectPiece);
    const ssize_t result =
        writing ? pwrite(descriptor_, data, piece, offset) : pread(descriptor_, data, piece, offset);
    if (result < 0 && again(errno)) continue;
    if (result < 0) return errno;
    const std::size_t moved = whole_blocks(static_cast<std::size_t>(result));
    if (moved == 0) return EIO;
    if (cached && writing)
      if (const int error = write_behind(offset, moved)) return error;
    // What the kernel reads ahead past the end stays, clean: without its read-ahead reads are half as fast.
    if (cached && !writing)
      posix_fadvise(descriptor_, offset, static_cast<off_t>(moved), POSIX_FADV_DONTNEED);
    offset += static_cast<std::int64_t>(moved);
    data += moved;
    size -= moved;
  }
  return 0;
}

int ScratchFile::write_behind(std::int64_t offset, std::size_t size) {
  if (in_memory_) return 0;
  sync_file_range(descriptor_, offset, static_cast<off_t>(size), SYNC_FILE_RANGE_WRITE);
  if (behind_size_ > 0) {
    constexpr unsigned kArrive =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    if (sync_file_range(descriptor_, behind_offset_, behind_size_, kArrive) != 0 &&
        (errno == EIO || errno == ENOSPC || errno == EDQUOT))
      return errno;  // others: the file system has no such call
    posix_fadvise(descriptor_, behind_offset_, behind_size_, POSIX_FADV_DONTNEED);
  }
  behind_offset_ = offset;
  behind_size_ = static_cast<std::int64_t>(size);
  return 0;
}

}  // namespace lazytrain
