#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/disk_advice.h"
#include "core/error.h"

namespace lazytrain {
namespace {

constexpr std::size_t kWritePiece = std::size_t{64} << 20;

[[noreturn]] void fail_disk(const std::filesystem::path& path, const char* action, int error) {
  fail(ExitCode::disk, "{}: cannot {}: {}{}", path.string(), action, std::strerror(error),
       disk_advice(error));
}

// What stat() says of a path that it cannot look at.
[[noreturn]] void fail_lookup(const std::filesystem::path& path, const char* kind, int error, ExitCode code) {
  if (error == ENOENT || error == ENOTDIR) fail(code, "{}: no such {}; check the path", path.string(), kind);
  if (error == EACCES)
    fail(code,
         "{}: permission denied: this user may not look into the folder that it is in; change its rights",
         path.string());
  fail(code, "{}: cannot be read: {}; check the disk", path.string(), std::strerror(error));
}

void require_right(const std::filesystem::path& path, int right, ExitCode code) {
  if (faccessat(AT_FDCWD, path.c_str(), right, AT_EACCESS) == 0) return;
  if (errno == EACCES)
    fail(code, "{}: permission denied: this user may not read it; change its rights", path.string());
  fail(code, "{}: cannot be read: {}; check the disk", path.string(), std::strerror(errno));
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISREG(mode)) return "a file";
  return "a device";
}

}  // namespace

bool is_missing(const std::filesystem::path& path) {
  struct stat status {};
  return stat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

void require_file(const std::filesystem::path& path, ExitCode code) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) fail_lookup(path, "file", errno, code);
  if (!S_ISREG(status.st_mode))
    fail(code, "{}: {}, where a file is needed; check the path", path.string(), kind_of(status.st_mode));
  require_right(path, R_OK, code);
}

void require_folder(const std::filesystem::path& path, ExitCode code) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) fail_lookup(path, "folder", errno, code);
  if (!S_ISDIR(status.st_mode))
    fail(code, "{}: {}, where a folder is needed; check the path", path.string(), kind_of(status.st_mode));
  require_right(path, R_OK | X_OK, code);
}

std::string read_stream(const std::filesystem::path& path, std::size_t most, ExitCode code) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    fail(code, "{}: cannot open it: {}; check the path", path.string(), std::strerror(errno));
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while (text.size() <= most && (got = read(descriptor, piece.data(), piece.size())) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  const int error = errno;
  close(descriptor);
  if (got < 0) fail(code, "{}: cannot read it: {}; give a file instead", path.string(), std::strerror(error));
  if (text.size() > most)
    fail(code, "{}: it gives more than {} bytes; give a file instead", path.string(), most);
  return text;
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_disk(path, "open it", errno);
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    fail(ExitCode::disk, "{}: not a regular file; check the path", path.string());
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int error = errno;
    close(descriptor);
    if (mapped == MAP_FAILED) fail_disk(path, "map it", error);
    data_ = static_cast<const std::byte*>(mapped);
  } else {
    close(descriptor);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void MappedFile::release(std::size_t begin, std::size_t end) const {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = std::min(end, size_) == size_ ? size_ : end / page * page;
  if (begin < end) madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::expect_random_reads() const {
  if (data_ != nullptr) madvise(const_cast<std::byte*>(data_), size_, MADV_RANDOM);
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // The rename would put a file in the place of a device or a pipe.
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored))
    fail(ExitCode::disk, "{}: not a regular file; choose another name", path_.string());
  temporary_ = path_;
  temporary_ += ".tmp-" + std::to_string(getpid());
  descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_disk(temporary_, "create it", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t size) {
  const auto* position = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(descriptor_, position, std::min(size, kWritePiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_disk(path_, "write it", errno);
    }
    position += written;
    size -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_disk(path_, "flush it", errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail_disk(path_, "close it", errno);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_disk(path_, "rename it into place", errno);
  committed_ = true;
  sync_directory(path_.has_parent_path() ? path_.parent_path() : std::filesystem::path("."));
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

std::string read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return std::string(file.text());
}

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::filesystem::path(cache) / "lazytrain";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::filesystem::path(home) / ".cache" / "lazytrain";
  return std::filesystem::temp_directory_path() / "lazytrain";
}

void sync_directory(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_disk(folder, "open the folder", errno);
  const int result = fsync(descriptor);
  const int error = errno;
  close(descriptor);
  if (result != 0 && error != EINVAL) fail_disk(folder, "flush the folder", error);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

Checksum::Checksum() : state_(XXH3_createState()) {
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}
Checksum::~Checksum() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}
void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}
std::uint64_t Checksum::value() const {
  return XXH3_64bits_digest(static_cast<XXH3_state_t*>(state_));
}

}  // namespace lazytrain
