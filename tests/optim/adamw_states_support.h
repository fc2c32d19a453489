// Groups with states in group_state_layout, for tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/random.h"
#include "optim/adamw.h"
#include "optim/block_codes.h"

namespace lazytrain {

inline std::vector<InstructionSet> available_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (set <= best_instruction_set()) sets.push_back(set);
  }
  return sets;
}

inline void operator_delete_aligned(std::byte* memory) {
  ::operator delete (memory, std::align_val_t{kBufferAlignment});
}

// Weights, gradients (both types, the same values) and states of a group, all zero at first.
struct StateGroup {
  GroupStateLayout layout;
  std::vector<float> weight32, gradient32;
  std::vector<bfloat16> weight16, gradient16;
  std::unique_ptr<std::byte, decltype(&operator_delete_aligned)> state;

  StateGroup(const std::vector<TensorPrecision>& tensors, DataType weights)
      : layout(group_state_layout(tensors, weights)),
        weight32(elements()),
        gradient32(elements()),
        weight16(elements()),
        gradient16(elements()),
        state(static_cast<std::byte*>(::operator new (static_cast<std::size_t>(layout.bytes.value),
                                                      std::align_val_t{kBufferAlignment})),
              operator_delete_aligned) {
    std::memset(state.get(), 0, static_cast<std::size_t>(layout.bytes.value));
  }
  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(layout.tensors.back().range.end);
  }
  template <typename T>
  [[nodiscard]] T* part(const StatePart& at) const {
    return reinterpret_cast<T*>(state.get() + at.offset.value);
  }

  void set_gradient(std::size_t element, float value) {
    gradient16[element] = to_bfloat16(value);
    gradient32[element] = to_float(gradient16[element]);
  }
  // All masters; `values` has the group's element index.
  void set_masters(const std::vector<float>& values) {
    for (const TensorState& tensor : layout.tensors) {
      for (auto i = tensor.range.begin; i < tensor.range.end; ++i) {
        const auto element = static_cast<std::size_t>(i);
        const auto index = static_cast<std::uint64_t>(i - tensor.range.begin);
        weight32[element] = values[element];
        weight16[element] = master_to_bfloat16(values[element], index);
        if (layout.weights == DataType::bf16)
          part<std::uint16_t>(tensor.residual)[index] = master_residual(values[element]);
      }
    }
  }
  [[nodiscard]] float master(std::size_t element, std::size_t tensor = 0) const {
    if (layout.weights == DataType::f32) return weight32[element];
    const TensorState& of = layout.tensors[tensor];
    const std::size_t index = element - static_cast<std::size_t>(of.range.begin);
    return join_master(weight16[element], part<std::uint16_t>(of.residual)[index], index);
  }

  [[nodiscard]] AdamWStateGroup view(DataType gradient_type) {
    return {.layout = &layout,
            .gradient_type = gradient_type,
            .gradient = gradient_type == DataType::f32 ? static_cast<const void*>(gradient32.data())
                                                       : gradient16.data(),
            .weight = layout.weights == DataType::f32 ? static_cast<void*>(weight32.data()) : weight16.data(),
            .state = state.get()};
  }
  void update(const AdamWStep& step, int threads = 1, InstructionSet set = best_instruction_set(),
              DataType gradient_type = DataType::bf16) {
    ThreadPool pool(threads);
    adamw_update(pool, view(gradient_type), step, set);
  }

  // Normal gradients of magnitudes from 1e-6 to 1, one in sixteen zero.
  void draw_gradients(std::uint64_t seed) {
    Random random(seed);
    for (std::size_t i = 0; i < elements(); ++i) {
      const double value = random.normal() * std::pow(10.0, -6 * random.uniform());
      set_gradient(i, random.below(16) == 0 ? 0.0F : static_cast<float>(value));
    }
  }
  void draw_masters(std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(elements());
    for (float& value : values) value = static_cast<float>(0.1 * random.normal());
    set_masters(values);
  }
  // Weights and states, to the bit.
  friend void expect_same(const StateGroup& a, const StateGroup& b) {
    EXPECT_EQ(a.weight16, b.weight16);
    EXPECT_EQ(a.weight32, b.weight32);
    EXPECT_EQ(std::memcmp(a.state.get(), b.state.get(), static_cast<std::size_t>(a.layout.bytes.value)), 0);
  }
};

inline StateGroup one_tensor(std::int64_t elements, DataType weights = DataType::bf16,
                             MomentPrecision precision = MomentPrecision::eight_bit) {
  return {{{.range = {.begin = 0, .end = elements}, .precision = precision}}, weights};
}

}  // namespace lazytrain
