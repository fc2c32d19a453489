// Optimizer states and weights between steps, piece by piece, wherever they live: in the host arena as they
// are; from disk or from the device through one buffer of the host each, which holds a piece at a time and
// brings it back when another is asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "core/units.h"
#include "runtime/device_copies.h"
#include "runtime/scratch_file.h"

namespace lazytrain {

class StateWindow {
 public:
  // Where one piece is: in memory, of the host or of the device, or on disk from `offset` on.
  struct Home {
    std::span<std::byte> memory = {};
    bool on_device = false;  // `memory` is the device's
    Bytes offset = {};
    Bytes bytes = {};
  };
  // How pieces that are not on the host come there and go back. Each buffer is as large as the largest piece
  // that passes through it, and may be used otherwise after release().
  struct Ways {
    ScratchFile* disk = nullptr;  // only where some piece is on disk
    std::span<std::byte> disk_buffer = {};
    std::optional<DeviceCopies> device = std::nullopt;  // only where some piece is on the device
    std::span<std::byte> device_buffer = {};
  };

  StateWindow() = default;
  // `pieces`: by group. What `ways` names must outlive the window.
  StateWindow(std::vector<std::vector<Home>> pieces, const Ways& ways);

  [[nodiscard]] std::size_t pieces(std::size_t group) const { return pieces_.at(group).size(); }
  // The bytes of a piece, until the next call. `change`: what is written into them is kept.
  // Error(disk) where the disk fails.
  std::span<std::byte> piece(std::size_t group, std::size_t index, bool change);
  // Brings back what changed, and forgets the piece: disk, device and buffers are the steps' again.
  void release();

 private:
  [[nodiscard]] std::span<std::byte> buffer_of(const Home& home) const;

  std::vector<std::vector<Home>> pieces_;
  Ways ways_;
  const Home* loaded_ = nullptr;
  bool changed_ = false;
};

}  // namespace lazytrain
