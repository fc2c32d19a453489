// Shared by the kernel tests: random values, storage types, finite differences, instruction sets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/bfloat16.h"
#include "core/random.h"
#include "device/cpu/kernels_dispatch.h"
#include "device/kernels/array_lanes.h"
#include "device/kernels/lane_team.h"
#include "device/operations.h"

namespace lazytrain::test {

// The shared kernel bodies in double.
using DoubleLanes = kernels::ArrayLanes<double>;
using DoubleTeam = kernels::LaneTeam<DoubleLanes>;

inline std::vector<double> normals(std::int64_t n, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<double> x(static_cast<std::size_t>(n));
  for (double& value : x) value = scale * random.normal();
  return x;
}

template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr DataType value = DataType::f32;
};
template <>
struct TypeOf<bfloat16> {
  static constexpr DataType value = DataType::bf16;
};

template <typename T>
std::vector<T> stored(const std::vector<double>& x) {
  std::vector<T> y;
  y.reserve(x.size());
  for (const double value : x) y.push_back(from_float<T>(static_cast<float>(value)));
  return y;
}
template <typename T>
std::vector<double> doubles(const std::vector<T>& x) {
  std::vector<double> y;
  y.reserve(x.size());
  for (const T value : x) y.push_back(to_float(value));
  return y;
}

// The largest difference, relative to the largest magnitude of `expected`.
inline double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double difference = 0, magnitude = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference =
        std::isfinite(actual[i]) ? std::max(difference, std::abs(actual[i] - expected[i])) : INFINITY;
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  return difference / magnitude;
}

// Central differences of f at x, all coordinates.
inline std::vector<double> differences(const std::function<double(const std::vector<double>&)>& f,
                                       std::vector<double> x, double step = 1e-5) {
  std::vector<double> gradient;
  for (double& coordinate : x) {
    const double at = coordinate;
    coordinate = at + step;
    const double above = f(x);
    coordinate = at - step;
    const double below = f(x);
    coordinate = at;
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// How far a result may be from the double version, relative to the largest magnitude: fp32 arithmetic, and
// one rounding to eight bits.
template <typename T>
constexpr double tolerance() {
  return sizeof(T) == 4 ? 2e-6 : 0.0045;
}

// The instruction sets with kernels of their own that this processor has.
inline std::vector<cpu::InstructionSet> instruction_sets() {
  std::vector<cpu::InstructionSet> sets;
  for (const auto set :
       {cpu::InstructionSet::baseline, cpu::InstructionSet::avx2, cpu::InstructionSet::avx512}) {
    if (set <= cpu::instruction_set()) sets.push_back(set);
  }
  return sets;
}

// Selects a set for the scope.
class UseKernels {
 public:
  explicit UseKernels(cpu::InstructionSet set) { cpu::select_kernels(set); }
  ~UseKernels() { cpu::select_kernels(cpu::instruction_set()); }
  UseKernels(const UseKernels&) = delete;
  UseKernels& operator=(const UseKernels&) = delete;
};

}  // namespace lazytrain::test
