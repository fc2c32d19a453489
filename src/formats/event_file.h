// TensorBoard's event files, as far as curves of scalars need them: records of a length, its masked CRC-32C,
// a payload, and the payload's masked CRC-32C; the payload is a protobuf message `Event`. Records are made as
// bytes; whoever has a file appends them.
//
// The formats are those of TensorFlow's record_writer.h, event.proto and summary.proto: field numbers and
// framing are fixed for ever, since files of all ages have to be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lazytrain {

struct EventScalar {
  std::string tag;  // "train/loss"
  float value = 0;
};

// The first record of every file. Times are seconds since 1970.
[[nodiscard]] std::string event_file_head(double wall_time);
// Says to readers that a run goes on here: of this step and of later ones, what files before this one have is
// dropped.
[[nodiscard]] std::string restart_event(double wall_time, std::int64_t step);
[[nodiscard]] std::string scalars_event(double wall_time, std::int64_t step,
                                        std::span<const EventScalar> scalars);

// The bytes at the beginning of a file that are whole, undamaged records of steps up to `last_step`.
[[nodiscard]] std::size_t events_up_to(std::string_view file, std::int64_t last_step);

// CRC-32C (Castagnoli), not masked.
[[nodiscard]] std::uint32_t crc32c(std::string_view bytes);

}  // namespace lazytrain
