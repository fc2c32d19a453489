// Copies between host and device memory outside of steps. Each is made when the call returns.
#pragma once

#include <cstddef>
#include <span>

#include "device/device.h"

namespace lazytrain {

class DeviceCopies {
 public:
  // All must outlive it; the streams have nothing else to do while it is used.
  DeviceCopies(Device& device, Stream& h2d, Stream& d2h) : device_(&device), h2d_(&h2d), d2h_(&d2h) {}

  void to_host(std::span<std::byte> to, const std::byte* from) const {
    device_->copy(*d2h_, to.data(), from, Bytes{std::ssize(to)});
    device_->synchronize(*d2h_);
  }
  void to_device(std::byte* to, std::span<const std::byte> from) const {
    device_->copy(*h2d_, to, from.data(), Bytes{std::ssize(from)});
    device_->synchronize(*h2d_);
  }
  void zero(std::span<std::byte> on_device) const {
    device_->zero(*h2d_, on_device.data(), Bytes{std::ssize(on_device)});
    device_->synchronize(*h2d_);
  }

 private:
  Device* device_;
  Stream *h2d_, *d2h_;
};

}  // namespace lazytrain
