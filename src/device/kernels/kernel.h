// What every kernel body needs: the function annotation and the conversions between storage and arithmetic.
// Kernel bodies are templates that a C++ compiler and a CUDA compiler both accept: no containers, no
// intrinsics, no calls into the standard library.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"

#if defined(__CUDACC__)
#define LAZYTRAIN_KERNEL __device__ __forceinline__
#else
// Always inlined: sources that are compiled once per instruction set must not leave shared out-of-line
// copies behind, of which the linker would keep one for all processors.
#define LAZYTRAIN_KERNEL __attribute__((always_inline)) inline
#endif

namespace lazytrain::kernels {

// Storage -> arithmetic. Double is for the finite-difference tests only.
LAZYTRAIN_KERNEL float widen(float x) {
  return x;
}
LAZYTRAIN_KERNEL double widen(double x) {
  return x;
}
LAZYTRAIN_KERNEL float widen(bfloat16 x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16);
}

// Arithmetic -> storage, to nearest even.
LAZYTRAIN_KERNEL void narrow(float x, float& out) {
  out = x;
}
LAZYTRAIN_KERNEL void narrow(double x, double& out) {
  out = x;
}
LAZYTRAIN_KERNEL void narrow(float x, bfloat16& out) {
  const auto u = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x0040u;
  out.bits = static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

LAZYTRAIN_KERNEL std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
LAZYTRAIN_KERNEL std::int64_t larger(std::int64_t a, std::int64_t b) {
  return a > b ? a : b;
}
LAZYTRAIN_KERNEL std::int64_t round_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

}  // namespace lazytrain::kernels
