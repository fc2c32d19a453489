#include "runtime/state_window.h"

#include <utility>

#include "core/error.h"

namespace lazytrain {

StateWindow::StateWindow(std::vector<std::vector<Home>> pieces, const Ways& ways)
    : pieces_(std::move(pieces)), ways_(ways) {}

std::span<std::byte> StateWindow::buffer_of(const Home& home) const {
  const std::span<std::byte> buffer = home.on_device ? ways_.device_buffer : ways_.disk_buffer;
  const auto size = static_cast<std::size_t>(home.bytes.value);
  check(size <= buffer.size() && (home.on_device ? ways_.device.has_value() : ways_.disk != nullptr),
        "there is a buffer for pieces that are not on the host");
  return buffer.first(size);
}

std::span<std::byte> StateWindow::piece(std::size_t group, std::size_t index, bool change) {
  const Home& home = pieces_.at(group).at(index);
  if ((!home.memory.empty() && !home.on_device) || home.bytes.value == 0) return home.memory;
  const std::span<std::byte> buffer = buffer_of(home);
  if (loaded_ != &home) {
    release();
    if (home.on_device)
      ways_.device->to_host(buffer, home.memory.data());
    else
      ways_.disk->read(home.offset, buffer);
    loaded_ = &home;
  }
  changed_ = changed_ || change;
  return buffer;
}

void StateWindow::release() {
  if (loaded_ != nullptr && changed_) {
    const std::span<std::byte> buffer = buffer_of(*loaded_);
    if (loaded_->on_device)
      ways_.device->to_device(loaded_->memory.data(), buffer);
    else
      ways_.disk->write(loaded_->offset, buffer);
  }
  loaded_ = nullptr;
  changed_ = false;
}

}  // namespace lazytrain
