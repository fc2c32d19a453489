// Working memory of the kernels: a few buffers that are made once and lent to tasks, so that no step
// allocates.
#pragma once

#include <cstdint>

namespace lazytrain::cpu {

// Makes sure that `count` buffers of at least `floats` numbers exist. Called with the size of the pool before
// a loop starts; allocates only when a larger operation than ever before arrives.
void reserve_scratch(int count, std::int64_t floats);

// One of the buffers, 64-byte aligned, until the end of the scope. Its content is arbitrary.
class Scratch {
 public:
  explicit Scratch(std::int64_t floats);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] float* data() const { return data_; }

 private:
  float* data_;
  std::int64_t floats_;
};

}  // namespace lazytrain::cpu
