// The C library's calls that change files, each counted, and one of them spoiled. See fault_injector.h.
//
// Not seen: what the C library calls inside itself (the program writes no file through stdio), and memory
// that is mapped and written (the program maps files for reading only). Not made: a power cut that takes back
// a rename whose folder was not flushed yet.
#include "fault_injector.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace faults {
namespace {

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string absolute(const char* path) {
  if (path == nullptr || *path == '/') return path == nullptr ? "" : path;
  char here[4096];
  return getcwd(here, sizeof(here)) == nullptr ? path : std::string(here) + "/" + path;
}

// Does the call as the verdict on it says.
template <typename Call>
auto judged(const Verdict& verdict, Call call) -> decltype(call()) {
  if (verdict.die_before) die();
  if (verdict.error != 0) {
    errno = verdict.error;
    return -1;
  }
  const auto result = call();
  if (verdict.die_after) {
    const int reason = errno;
    die();
    errno = reason;
  }
  return result;
}

// Half of a write, in whole blocks where it has some: O_DIRECT takes nothing else, and never cuts a block.
std::size_t half(std::size_t size) {
  constexpr std::size_t kBlock = 4096;
  if (size % kBlock == 0) return std::max(kBlock, size / 2 / kBlock * kBlock);
  return std::max<std::size_t>(1, size / 2);
}

template <typename Call>
ssize_t judged_write(const char* name, int descriptor, std::size_t size, Call call) {
  const std::string path = path_of(descriptor);
  if (path.empty()) return call(size);
  const Verdict verdict = arrived(name, path, true);
  return judged(verdict, [&] {
    const ssize_t result = call(verdict.half ? half(size) : size);
    written(descriptor);
    return result;
  });
}

int opened(const char* path, int flags, int descriptor) {
  if (descriptor >= 0) remember(descriptor, absolute(path), (flags & O_ACCMODE) != O_RDONLY);
  return descriptor;
}

// Only an open() that may make or empty a file is counted.
template <typename Call>
int judged_open(const char* path, int flags, Call call) {
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  if (!changes) return opened(path, flags, call());
  return judged(arrived("open", absolute(path), true), [&] { return opened(path, flags, call()); });
}

mode_t mode_of(int flags, va_list& arguments) {
  const bool given = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return given ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

// What the kernel says of requests of io_uring is changed after the fact.
struct Ring {
  unsigned seen = 0;
  int descriptor = -1;
};

}  // namespace
}  // namespace faults

using namespace faults;  // NOLINT: the calls below stand outside of all namespaces

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return judged_open(path, flags, [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open64");
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return judged_open(path, flags, [&] { return real(path, flags, mode); });
}

int mkostemp(char* path, int flags) {
  static auto* const real = next<int(char*, int)>("mkostemp");
  return judged(arrived("open", absolute(path), true),
                [&] { return opened(path, O_RDWR, real(path, flags)); });
}

ssize_t write(int descriptor, const void* data, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  return judged_write("write", descriptor, size, [&](size_t part) { return real(descriptor, data, part); });
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return judged_write("pwrite", descriptor, size,
                      [&](size_t part) { return real(descriptor, data, part, offset); });
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  return judged_write("pwrite", descriptor, size,
                      [&](size_t part) { return real(descriptor, data, part, offset); });
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  static auto* const real = next<ssize_t(int, const iovec*, int)>("writev");
  static auto* const plain = next<ssize_t(int, const void*, size_t)>("write");
  return judged_write("writev", descriptor, 1 << 20, [&](size_t part) {
    return part == 1 << 20 ? real(descriptor, parts, count)
                           : plain(descriptor, parts->iov_base, parts->iov_len);
  });
}

ssize_t sendfile(int to, int from, off_t* offset, size_t size) noexcept {
  static auto* const real = next<ssize_t(int, int, off_t*, size_t)>("sendfile");
  return judged_write("sendfile", to, size, [&](size_t part) { return real(to, from, offset, part); });
}

ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at, size_t size, unsigned flags) {
  static auto* const real = next<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  return judged_write("copy_file_range", to, size,
                      [&](size_t part) { return real(from, from_at, to, to_at, part, flags); });
}

ssize_t pread(int descriptor, void* data, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  const std::string path = is_writable(descriptor) ? path_of(descriptor) : "";
  return judged(arrived("pread", path, false), [&] { return real(descriptor, data, size, offset); });
}

int fsync(int descriptor) {
  static auto* const real = next<int(int)>("fsync");
  return judged(arrived("fsync", path_of(descriptor), true), [&] {
    flushed(descriptor);
    return real(descriptor);
  });
}

int fdatasync(int descriptor) {
  static auto* const real = next<int(int)>("fdatasync");
  return judged(arrived("fdatasync", path_of(descriptor), true), [&] {
    flushed(descriptor);
    return real(descriptor);
  });
}

int sync_file_range(int descriptor, off64_t offset, off64_t size, unsigned flags) {
  static auto* const real = next<int(int, off64_t, off64_t, unsigned)>("sync_file_range");
  return judged(arrived("sync_file_range", path_of(descriptor), true),
                [&] { return real(descriptor, offset, size, flags); });
}

int ftruncate(int descriptor, off_t size) noexcept {
  static auto* const real = next<int(int, off_t)>("ftruncate");
  return judged(arrived("ftruncate", path_of(descriptor), true), [&] { return real(descriptor, size); });
}

int fallocate(int descriptor, int mode, off_t offset, off_t size) {
  static auto* const real = next<int(int, int, off_t, off_t)>("fallocate");
  return judged(arrived("fallocate", path_of(descriptor), true),
                [&] { return real(descriptor, mode, offset, size); });
}

int close(int descriptor) {
  static auto* const real = next<int(int)>("close");
  const std::string path = is_writable(descriptor) ? path_of(descriptor) : "";
  forget(descriptor);
  // A descriptor is free after close() whatever it returns.
  const Verdict verdict = arrived("close", path, false);
  if (verdict.die_before) die();
  const int result = real(descriptor);
  return judged(verdict, [&] { return result; });
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return judged(arrived("rename", absolute(to), true), [&] { return real(from, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static auto* const real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return judged(arrived("renameat2", absolute(to), true),
                [&] { return real(from_folder, from, to_folder, to, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return judged(arrived("mkdir", absolute(path), true), [&] { return real(path, mode); });
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("link");
  return judged(arrived("link", absolute(to), true), [&] { return real(from, to); });
}

int symlink(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("symlink");
  return judged(arrived("symlink", absolute(to), true), [&] { return real(from, to); });
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  return judged(arrived("unlink", absolute(path), false), [&] { return real(path); });
}

int remove(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("remove");
  return judged(arrived("unlink", absolute(path), false), [&] { return real(path); });
}

int rmdir(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("rmdir");
  return judged(arrived("rmdir", absolute(path), false), [&] { return real(path); });
}

int io_uring_submit_and_wait(io_uring* ring, unsigned count) {
  static auto* const real = next<int(io_uring*, unsigned)>("io_uring_submit_and_wait");
  static std::mutex mutex;
  static auto* const rings = new std::map<io_uring*, Ring>;
  int descriptor = -1;
  bool writes = false;
  if (ring->sq.sqe_head != ring->sq.sqe_tail) {
    const io_uring_sqe& request = ring->sq.sqes[ring->sq.sqe_head & *ring->sq.kring_mask];
    descriptor = request.fd;
    writes = request.opcode == IORING_OP_WRITE;
  }
  const std::scoped_lock lock(mutex);
  Ring& state = (*rings)[ring];
  if (descriptor >= 0) state.descriptor = descriptor;
  const int result = real(ring, count);
  const unsigned head = *ring->cq.khead, tail = __atomic_load_n(ring->cq.ktail, __ATOMIC_ACQUIRE);
  if (state.seen - head > *ring->cq.kring_entries) state.seen = head;  // another ring at the same place
  for (; state.seen != tail; ++state.seen) {
    io_uring_cqe& done = ring->cq.cqes[state.seen & *ring->cq.kring_mask];
    const Verdict verdict = arrived(writes ? "uring_write" : "uring_read", path_of(state.descriptor), writes);
    if (verdict.die_before || verdict.die_after) die();
    if (verdict.error != 0)
      done.res = -verdict.error;
    else if (verdict.half && done.res > 0)
      done.res = static_cast<int>(half(static_cast<size_t>(done.res)));
  }
  return result;
}

}  // extern "C"
