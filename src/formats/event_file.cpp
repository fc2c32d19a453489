#include "formats/event_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace lazytrain {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// A checksum of data that holds checksums would be weak; so those that are stored are turned and shifted.
std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

template <typename Number>
void put(std::string& out, Number number) {
  char bytes[sizeof(Number)];
  std::memcpy(bytes, &number, sizeof(Number));
  out.append(bytes, sizeof(Number));
}

template <typename Number>
Number take(std::string_view bytes, std::size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

// ---- Protobuf: a key (field number, kind of value), then the value ----

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
enum EventField : std::uint32_t { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint32_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint32_t>(wire));
}

void put_bytes(std::string& out, std::uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time, std::int64_t step) {
  std::string out;
  put_key(out, kWallTime, Wire::fixed64);
  put(out, wall_time);
  put_key(out, kStep, Wire::varint);
  put_varint(out, static_cast<std::uint64_t>(step));
  return out;
}

std::optional<std::uint64_t> take_varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The step of an Event, 0 where it has none; nothing where it is not one.
std::optional<std::int64_t> step_of(std::string_view message) {
  std::int64_t step = 0;
  for (std::size_t at = 0; at < message.size();) {
    const auto key = take_varint(message, at);
    if (!key) return std::nullopt;
    std::uint64_t skipped = 0;
    switch (static_cast<Wire>(*key & 7)) {
      case Wire::varint: {
        const auto value = take_varint(message, at);
        if (!value) return std::nullopt;
        if (*key >> 3 == kStep) step = static_cast<std::int64_t>(*value);
        break;
      }
      case Wire::fixed64:
        skipped = 8;
        break;
      case Wire::fixed32:
        skipped = 4;
        break;
      case Wire::bytes: {
        const auto size = take_varint(message, at);
        if (!size) return std::nullopt;
        skipped = *size;
        break;
      }
      default:
        return std::nullopt;
    }
    if (skipped > message.size() - at) return std::nullopt;
    at += skipped;
  }
  return step;
}

std::string record(std::string_view payload) {
  std::string out;
  put(out, static_cast<std::uint64_t>(payload.size()));
  put(out, masked_crc(out));
  out += payload;
  put(out, masked_crc(payload));
  return out;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

std::string event_file_head(double wall_time) {
  std::string message = event(wall_time, 0);
  put_bytes(message, kFileVersion, "brain.Event:2");
  return record(message);
}

std::string restart_event(double wall_time, std::int64_t step) {
  std::string message = event(wall_time, step);
  std::string session_log;
  put_key(session_log, 1, Wire::varint);  // status
  put_varint(session_log, 1);             // START
  put_bytes(message, kSessionLog, session_log);
  return record(message);
}

std::string scalars_event(double wall_time, std::int64_t step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::fixed32);  // simple_value
    put(value, scalar.value);
    put_bytes(summary, 1, value);
  }
  std::string message = event(wall_time, step);
  put_bytes(message, kSummary, summary);
  return record(message);
}

std::size_t events_up_to(std::string_view file, std::int64_t last_step) {
  constexpr std::size_t kHead = 12, kTail = 4;
  std::size_t good = 0;
  while (file.size() - good >= kHead + kTail) {
    const std::string_view rest = file.substr(good);
    const auto size = take<std::uint64_t>(rest, 0);
    if (take<std::uint32_t>(rest, 8) != masked_crc(rest.substr(0, 8))) break;
    if (size > rest.size() - kHead - kTail) break;
    const std::string_view payload = rest.substr(kHead, size);
    if (take<std::uint32_t>(rest, kHead + size) != masked_crc(payload)) break;
    const std::optional<std::int64_t> step = step_of(payload);
    if (!step || *step > last_step) break;
    good += kHead + size + kTail;
  }
  return good;
}

}  // namespace lazytrain
