// Strong types for quantities that must not be mixed: bytes, layer and boundary indices, tiers.
// All sizes are 64-bit; sums and products of bytes that leave them are an Error. GB = 1e9 bytes, GiB = 2^30
// bytes, rates in GB/s, times in seconds (double).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace lazytrain {

using Seconds = double;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Throws Error(does_not_fit): no machine holds that many bytes.
[[noreturn]] void fail_bytes_overflow();

// A number of bytes (signed, so that differences are representable).
struct Bytes {
  std::int64_t value = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    if (__builtin_add_overflow(value, other.value, &value)) fail_bytes_overflow();
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    if (__builtin_sub_overflow(value, other.value, &value)) fail_bytes_overflow();
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return a += b; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) {
    if (__builtin_mul_overflow(a.value, n, &a.value)) fail_bytes_overflow();
    return a;
  }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  [[nodiscard]] constexpr double gigabytes() const { return static_cast<double>(value) / 1e9; }
};

// The smallest multiple of `alignment` that is not below `size`.
constexpr Bytes align_up(Bytes size, std::int64_t alignment) {
  return {(size + Bytes{alignment - 1}).value / alignment * alignment};
}

// Every buffer starts on a cache line, which is also the widest vector register.
inline constexpr std::int64_t kBufferAlignment = 64;

// Bytes that are moved to and from a disk past the page cache begin and end on multiples of this, in the file
// and in memory.
inline constexpr std::int64_t kDiskAlignment = 4096;

// Decoder layer 0..L-1.
struct LayerIndex {
  std::int32_t value = 0;
  constexpr auto operator<=>(const LayerIndex&) const = default;
};

// Boundary b = the activation that enters layer b; L = the last hidden state.
struct BoundaryIndex {
  std::int32_t value = 0;
  constexpr auto operator<=>(const BoundaryIndex&) const = default;
};

// Where bytes live. On the `unified` memory model device and host are one tier: `device`.
enum class Tier : std::uint8_t { device, host, disk };

[[nodiscard]] const char* to_string(Tier tier);

// "239.7 MB", "12.0 GB": decimal units, one digit after the point; plain "512 B" below a kilobyte.
[[nodiscard]] std::string format_bytes(Bytes bytes);

// Reads "240MB", "1.5 GB", "2GiB", "123456"; throws Error(usage) with `key` named otherwise.
[[nodiscard]] Bytes parse_bytes(const std::string& text, const std::string& key);

// "3.2 s", "4 min 05 s", "2 h 03 min".
[[nodiscard]] std::string format_duration(Seconds seconds);

}  // namespace lazytrain
