#include "runtime/state_window.h"

#include <utility>

#include "core/error.h"

namespace lazytrain {

StateWindow::StateWindow(std::vector<std::vector<Home>> pieces, ScratchFile* disk,
                         std::span<std::byte> buffer)
    : pieces_(std::move(pieces)), disk_(disk), buffer_(buffer) {}

std::span<std::byte> StateWindow::piece(std::size_t group, std::size_t index, bool change) {
  const Home& home = pieces_.at(group).at(index);
  if (!home.memory.empty() || home.bytes.value == 0) return home.memory;
  const auto size = static_cast<std::size_t>(home.bytes.value);
  check(disk_ != nullptr && size <= buffer_.size(), "there is a buffer for pieces of states on disk");
  if (loaded_ != &home) {
    release();
    disk_->read(home.offset, buffer_.first(size));
    loaded_ = &home;
  }
  changed_ = changed_ || change;
  return buffer_.first(size);
}

void StateWindow::release() {
  if (loaded_ != nullptr && changed_)
    disk_->write(loaded_->offset, buffer_.first(static_cast<std::size_t>(loaded_->bytes.value)));
  loaded_ = nullptr;
  changed_ = false;
}

}  // namespace lazytrain
