// Optimizer states and weights between steps, piece by piece, wherever they live: in the host arena as they
// are, from disk through one buffer that holds a piece at a time and writes it back when another is asked
// for.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/units.h"
#include "runtime/scratch_file.h"

namespace lazytrain {

class StateWindow {
 public:
  // Where one piece is: in memory, or on disk from `offset` on.
  struct Home {
    std::span<std::byte> memory = {};
    Bytes offset = {};
    Bytes bytes = {};
  };

  StateWindow() = default;
  // `pieces`: by group. `disk` and `buffer` (as large as the largest piece on disk): only where some piece is
  // on disk; both must outlive the window. The buffer may be used otherwise after release().
  StateWindow(std::vector<std::vector<Home>> pieces, ScratchFile* disk, std::span<std::byte> buffer);

  [[nodiscard]] std::size_t pieces(std::size_t group) const { return pieces_.at(group).size(); }
  // The bytes of a piece, until the next call. `change`: what is written into them is kept.
  // Error(disk) where the disk fails.
  std::span<std::byte> piece(std::size_t group, std::size_t index, bool change);
  // Writes back what changed, and forgets the piece: the disk and the buffer are the steps' again.
  void release();

 private:
  std::vector<std::vector<Home>> pieces_;
  ScratchFile* disk_ = nullptr;
  std::span<std::byte> buffer_;
  const Home* loaded_ = nullptr;
  bool changed_ = false;
};

}  // namespace lazytrain
