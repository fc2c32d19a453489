// Which optimizer state every parameter group of a model has: the options of a run applied to its tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/architecture.h"
#include "optim/group_state.h"
#include "program/lowering.h"

namespace lazytrain {

// One layout per group, in the order of the groups. Tensors that are one-dimensional are biases and norm
// weights; the embedding and lm_head count as embeddings.
[[nodiscard]] std::vector<GroupStateLayout> state_layouts(std::span<const ParameterGroup> groups,
                                                          DataType weights, const MomentOptions& options);

// The pieces of a group's state as Programs know them.
[[nodiscard]] std::vector<StatePieceSize> state_piece_sizes(const GroupStateLayout& layout);

// Parameters of a group whose moments are in 8 bits.
[[nodiscard]] std::int64_t elements_in_eight_bits(const GroupStateLayout& layout);

// The fp32 masters of a group's elements from `first` on, gaps as zeros, out of the raw bytes of its weights
// and state (bf16: each weight and its residual; f32: the weights themselves).
void read_masters(const GroupStateLayout& layout, std::span<const std::byte> weights,
                  std::span<const std::byte> state, std::int64_t first, std::span<float> out);
// The same bytes from fp32 masters. Gaps and moments stay as they are.
void write_masters(const GroupStateLayout& layout, std::span<std::byte> weights, std::span<std::byte> state,
                   std::int64_t first, std::span<const float> values);

// Moves the state of a group from one layout to another of the same weights: residuals as they are, moments
// through fp32 (the second as its square root where one side has codes). `from` and `to` are
// layout.bytes long; what `to` held is lost.
void convert_states(const GroupStateLayout& from_layout, std::span<const std::byte> from,
                    const GroupStateLayout& to_layout, std::span<std::byte> to);

}  // namespace lazytrain
