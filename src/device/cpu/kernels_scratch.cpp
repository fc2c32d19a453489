#include "device/cpu/kernels_scratch.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace lazytrain::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

struct Buffer {
  float* data;
  std::int64_t floats;
};

Buffer make_buffer(std::int64_t floats) {
  return {static_cast<float*>(::operator new(static_cast<std::size_t>(floats) * sizeof(float), kAlignment)),
          floats};
}

// The idle buffers of the process.
struct Shelf {
  std::mutex mutex;
  std::vector<Buffer> idle;
  ~Shelf() {
    for (const Buffer& buffer : idle) ::operator delete(buffer.data, kAlignment);
  }
};

Shelf& shelf() {
  static Shelf one;
  return one;
}

}  // namespace

void reserve_scratch(int count, std::int64_t floats) {
  Shelf& s = shelf();
  const std::lock_guard lock(s.mutex);
  auto fits = [&](const Buffer& buffer) { return buffer.floats >= floats; };
  auto missing = count - std::count_if(s.idle.begin(), s.idle.end(), fits);
  for (Buffer& buffer : s.idle) {  // the small ones grow first
    if (missing <= 0) break;
    if (fits(buffer)) continue;
    ::operator delete(buffer.data, kAlignment);
    buffer = {nullptr, 0};
    buffer = make_buffer(floats);
    --missing;
  }
  for (; missing > 0; --missing) s.idle.push_back(make_buffer(floats));
}

Scratch::Scratch(std::int64_t floats) : data_(nullptr), floats_(floats) {
  Shelf& s = shelf();
  {
    const std::lock_guard lock(s.mutex);
    // The smallest that is large enough.
    auto best = s.idle.end();
    for (auto it = s.idle.begin(); it != s.idle.end(); ++it) {
      if (it->floats >= floats && (best == s.idle.end() || it->floats < best->floats)) best = it;
    }
    if (best != s.idle.end()) {
      data_ = best->data;
      floats_ = best->floats;
      s.idle.erase(best);
      return;
    }
  }
  data_ = make_buffer(floats).data;
}

Scratch::~Scratch() {
  Shelf& s = shelf();
  const std::lock_guard lock(s.mutex);
  s.idle.push_back({data_, floats_});
}

}  // namespace lazytrain::cpu
