// Team: who works on one row (or on one tile of columns). Kernel bodies are written against it: on the CPU a
// team is one thread that takes sixteen lanes at a time; on CUDA it is a thread block of which each
// thread takes one element. A Team has
//   Value, Real            what load() returns, and one number of it
//   each(n, f)             f(i) for the elements 0..n-1; an index i may stand for several lanes
//   sum(n, f), plain_sum(n, f), maximum(n, f)  reductions of f(i), known to the whole team afterwards
//   sum_of_squares(n, f)   in double
//   load(p, i), store(p, i, value), index(i)
// Sums have a fixed order that depends on n alone.
#pragma once

#include "device/kernels/kernel.h"

namespace lazytrain::kernels {

// Sixteen elements from `at` on, and fewer than sixteen.
struct WholeLanes {
  std::int64_t at;
};
struct PartLanes {
  std::int64_t at;
  int count;
};

template <typename V>
struct LaneTeam {
  using Value = V;
  using Real = typename V::Real;

  template <typename F>
  LAZYTRAIN_KERNEL void each(std::int64_t n, F f) const {
    std::int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) f(WholeLanes{i});
    if (i < n) f(PartLanes{i, static_cast<int>(n - i)});
  }

  // Four accumulators of sixteen lanes, so that additions need not wait for each other.
  template <typename F>
  LAZYTRAIN_KERNEL Real sum(std::int64_t n, F f) const {
    V a(0), b(0), c(0), d(0);
    std::int64_t i = 0;
    for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
      a = a + f(WholeLanes{i});
      b = b + f(WholeLanes{i + V::kLanes});
      c = c + f(WholeLanes{i + 2 * V::kLanes});
      d = d + f(WholeLanes{i + 3 * V::kLanes});
    }
    for (; i + V::kLanes <= n; i += V::kLanes) a = a + f(WholeLanes{i});
    if (i < n) {
      const int count = static_cast<int>(n - i);
      a = a + f(PartLanes{i, count}).first(count);
    }
    return ((a + b) + (c + d)).sum();
  }

  // One accumulator of sixteen lanes: rounds as PyTorch's AVX-512 reductions do.
  template <typename F>
  LAZYTRAIN_KERNEL Real plain_sum(std::int64_t n, F f) const {
    V a(0);
    std::int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) a = a + f(WholeLanes{i});
    if (i < n) {
      const int count = static_cast<int>(n - i);
      a = a + f(PartLanes{i, count}).first(count);
    }
    return a.sum();
  }

  // Needs n >= 1. NaN are passed over.
  template <typename F>
  LAZYTRAIN_KERNEL Real maximum(std::int64_t n, F f) const {
    const V lowest(static_cast<Real>(-__builtin_inff()));
    V a = lowest, b = lowest;
    std::int64_t i = 0;
    for (; i + 2 * V::kLanes <= n; i += 2 * V::kLanes) {
      a = larger_of(f(WholeLanes{i}), a);
      b = larger_of(f(WholeLanes{i + V::kLanes}), b);
    }
    for (; i + V::kLanes <= n; i += V::kLanes) a = larger_of(f(WholeLanes{i}), a);
    if (i < n) {
      const int count = static_cast<int>(n - i);
      const V last(static_cast<Real>(count - 1));
      a = larger_of(select_between(V(0), V::iota(), last, f(PartLanes{i, count}), lowest), a);
    }
    return larger_of(a, b).maximum();
  }

  template <typename F>
  LAZYTRAIN_KERNEL double sum_of_squares(std::int64_t n, F f) const {
    typename V::Wide a;
    std::int64_t i = 0;
    for (; i + V::kLanes <= n; i += V::kLanes) a.add_square(f(WholeLanes{i}));
    if (i < n) {
      const int count = static_cast<int>(n - i);
      a.add_square(f(PartLanes{i, count}).first(count));
    }
    return a.sum();
  }

  template <typename T>
  LAZYTRAIN_KERNEL V load(const T* p, WholeLanes i) const {
    return V::load(p + i.at);
  }
  template <typename T>
  LAZYTRAIN_KERNEL V load(const T* p, PartLanes i) const {
    return V::load(p + i.at, i.count);
  }
  template <typename T>
  LAZYTRAIN_KERNEL void store(T* p, WholeLanes i, const V& x) const {
    x.store(p + i.at);
  }
  template <typename T>
  LAZYTRAIN_KERNEL void store(T* p, PartLanes i, const V& x) const {
    x.store(p + i.at, i.count);
  }
  // The element's number, exact up to 2^24.
  LAZYTRAIN_KERNEL V index(WholeLanes i) const { return V::iota() + V(static_cast<Real>(i.at)); }
  LAZYTRAIN_KERNEL V index(PartLanes i) const { return V::iota() + V(static_cast<Real>(i.at)); }
};

}  // namespace lazytrain::kernels
