// Single-threaded matrix products by oneDNN, compiled once per shape and kept.
//
// Who calls from several threads gets parallelism from tiles; a product itself never uses more than the
// calling thread, so its bits do not depend on how many threads there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "device/operations.h"

namespace lazytrain::cpu {

// c[m, n] = a[m, k] * b[k, n] (+ bias[n]) (+ c where accumulate); sums in fp32, one rounding.
// Strides in elements; one of a's and one of b's is 1. c is row-major with leading dimension c_row.
struct GemmShape {
  DataType operand;  // of a, b and bias
  DataType result;   // of c: `operand`, or f32
  std::int64_t m, n, k;
  std::int64_t a_row, a_column;
  std::int64_t b_row, b_column;
  std::int64_t c_row;
  bool bias = false;
  bool accumulate = false;

  bool operator==(const GemmShape&) const = default;
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  // On the calling thread; any number of threads at a time. `bias` may be null where the shape has none.
  virtual void run(const std::byte* a, const std::byte* b, const void* bias, std::byte* c) const = 0;
};

// Compiled products by shape. Thread-safe; what it hands out lives as long as it does.
class GemmCache {
 public:
  // Compiling takes milliseconds, once a shape. Throws Error(device) where oneDNN cannot.
  const Gemm& find(const GemmShape& shape);

 private:
  struct Hash {
    std::size_t operator()(const GemmShape& shape) const;
  };
  std::mutex mutex_;
  std::unordered_map<GemmShape, std::unique_ptr<Gemm>, Hash> products_;
};

}  // namespace lazytrain::cpu
