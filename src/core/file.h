// Files: read-only memory maps, and writes that either happen whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain {

// A whole file mapped read-only. Empty files map to an empty span. Throws Error(code) naming the path.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  // Gives the memory of the pages that lie whole in [begin, end) back; they are read again when they are
  // looked at. For readers that pass through a file larger than memory.
  void release(std::size_t begin, std::size_t end) const;
  // Tells the system that this part is read from here and there, so that it reads no more than is asked for.
  void expect_random_reads() const;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// True where the system says that nothing is there; false also where it does not let this process look.
[[nodiscard]] bool is_missing(const std::filesystem::path& path);
// Throws Error(code) unless `path` is a file that can be read: it names what is there instead (nothing, a
// folder, a pipe...) or which right is lacking, and what to do.
void require_file(const std::filesystem::path& path, ExitCode code);
// The same for a folder that can be looked into.
void require_folder(const std::filesystem::path& path, ExitCode code);

// Writes to `path` + ".tmp-<pid>", and on commit() flushes to the disk (fsync of file and folder) and
// renames. Destroyed without commit: the temporary is removed and the old file, if any, is untouched. Every
// failure is Error(disk) with the path and the system's reason; on a full disk it says how much was needed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();
  // The file as it is so far, to be read before commit().
  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }

 private:
  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

// One AtomicFile with this content.
void write_file(const std::filesystem::path& path, std::string_view content);
// Throws Error(code) where the file cannot be read.
std::string read_file(const std::filesystem::path& path);
// All that comes out of a pipe, a terminal or another stream that is no regular file, e.g. /dev/stdin.
// Error(code) where it cannot be read or gives more than `most` bytes.
std::string read_stream(const std::filesystem::path& path, std::size_t most, ExitCode code);
// Where the program keeps what it would otherwise work out again: $XDG_CACHE_HOME/lazytrain, else
// ~/.cache/lazytrain, else a folder among the temporary files. It need not exist.
[[nodiscard]] std::filesystem::path cache_folder();
// fsync of a folder, so that renames inside it survive a crash.
void sync_directory(const std::filesystem::path& folder);

// XXH3-64 of the bytes; incremental with the same result in Checksum.
std::uint64_t checksum(std::span<const std::byte> bytes);

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t value() const;

 private:
  void* state_;
};

}  // namespace lazytrain
