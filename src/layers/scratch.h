// A bump allocator over a workspace whose size was fixed before the first step. The same code that takes
// buffers while running takes them from a null base to find out how much it needs: sizes cannot disagree with
// use.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/units.h"

namespace lazytrain {

class Scratch {
 public:
  // base == nullptr: only measures.
  explicit Scratch(std::byte* base, Bytes capacity = {INT64_MAX}) : base_(base), capacity_(capacity) {}

  void* take(std::int64_t bytes) {
    void* result = base_ == nullptr ? nullptr : base_ + used_.value;
    used_ += align_up(Bytes{bytes}, kBufferAlignment);
    peak_ = std::max(peak_, used_);
    check(used_ <= capacity_, "a layer stays inside its planned workspace");
    return result;
  }
  // Gives back everything taken after the mark.
  [[nodiscard]] Bytes mark() const { return used_; }
  void release_to(Bytes mark) { used_ = mark; }
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  std::byte* base_;
  Bytes capacity_, used_, peak_;
};

}  // namespace lazytrain
