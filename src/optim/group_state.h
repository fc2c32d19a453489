// Where the optimizer state of a parameter group lies: one contiguous buffer, each tensor with parts of its
// own. With bf16 weights a tensor has the lower 16 bits of its fp32 masters (core/bfloat16.h: join_master);
// fp32 weights are their own masters. Its moments are either fp32, or 8-bit codes with two fp32 scales per
// block of 256 elements (optim/eight_bit_codes.h). Bytes per parameter, beside weight and gradient:
//   bf16 weights: 4.03 with 8-bit moments, 10 with fp32 moments;  fp32 weights: 2.03 and 8
// A buffer of zero bytes is the state before the first step of masters that are bf16 numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.h"
#include "device/operations.h"

namespace lazytrain {

// Elements begin..end of a group form one tensor. What no range covers (alignment gaps) is left alone.
struct ParameterRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool decay = true;
};

enum class StateFormat : std::uint8_t {
  adamw_32bit,   // fp32 moments for every tensor
  adamw_8bit,    // 8-bit moments for all but small tensors, biases and norms
  adamw_hybrid,  // 8-bit moments for a given fraction of the parameters
};
[[nodiscard]] const char* to_string(StateFormat format);

enum class MomentPrecision : std::uint8_t { fp32, eight_bit };
[[nodiscard]] const char* to_string(MomentPrecision precision);

// What decides a tensor's precision.
struct TensorShape {
  std::int64_t elements = 0;
  bool one_dimensional = false;    // biases, norm weights
  bool embedding_or_head = false;  // has a row per token: most rows have no gradient in a step
};

// A group's state comes in pieces of at most this many elements, each of them contiguous: what is read from
// disk, updated and written back at once.
inline constexpr std::int64_t kStatePieceElements = std::int64_t{4} << 20;

struct MomentOptions {
  StateFormat format = StateFormat::adamw_32bit;
  MomentPrecision embeddings = MomentPrecision::fp32;  // of the embedding and the head, in formats with codes
  double hybrid_fraction = 0.5;                        // adamw_hybrid: of all parameters, 0..1
  std::int64_t piece_elements = kStatePieceElements;   // tests make them small
};

// Tensors below this many elements keep fp32 moments: they are no memory, and often sensitive.
inline constexpr std::int64_t kLeastEightBitElements = 4096;

// The precision of each tensor, given all tensors of the model in the order of their groups.
// adamw_hybrid takes whole tensors: walking through the list it takes an eligible one whenever that brings
// the number of parameters in 8 bits closer to the fraction of those seen so far. What is not eligible
// (one-dimensional, small, by option the embedding and the head) never is in 8 bits, so the fraction that is
// reached may be lower than the one asked for.
[[nodiscard]] std::vector<MomentPrecision> moment_precisions(std::span<const TensorShape> tensors,
                                                             const MomentOptions& options);

struct TensorPrecision {
  ParameterRange range = {};  // elements of the group
  MomentPrecision precision = MomentPrecision::fp32;
};

// One array of a tensor's state: bytes from the start of the group's state (a multiple of kBufferAlignment)
// and length in bytes, without padding. A part that the tensor does not have is empty.
struct StatePart {
  Bytes offset = {};
  Bytes bytes = {};
};

// A tensor, or the part of one that lies in a piece.
struct TensorState {
  ParameterRange range = {};  // of the part
  std::int64_t first = 0;     // index in the tensor at which the part begins: a multiple of 256
  MomentPrecision precision = MomentPrecision::fp32;
  StatePart residual = {};    // uint16 per element: lower half of the master; only with bf16 weights
  StatePart exp_avg = {};     // float per element, or a signed code per element
  StatePart exp_avg_sq = {};  // float per element, or an unsigned code per element of its square root
  StatePart scales = {};  // BlockScale per 256 elements of the tensor (optim/block_codes.h); only with codes
};

struct StatePiece {
  std::int64_t begin = 0, end = 0;  // elements of the group, from the first tensor's first to the last's last
  std::size_t first = 0, tensors = 0;  // entries of GroupStateLayout::tensors
  Bytes offset = {}, bytes = {};       // in the state; both multiples of kDiskAlignment
};

struct GroupStateLayout {
  DataType weights = DataType::bf16;
  std::vector<TensorState> tensors = {};  // parts, in the order given
  std::vector<StatePiece> pieces = {};    // one after the other, without gaps
  Bytes bytes = {};                       // of the whole state; its start must be aligned to kBufferAlignment
};

// `weights`: bf16 or f32. Padding between parts is part of the state's bytes: zeros that nothing changes.
// Where the pieces are cut depends on `piece_elements` (a multiple of 256) and the tensors' sizes alone.
[[nodiscard]] GroupStateLayout group_state_layout(std::span<const TensorPrecision> tensors, DataType weights,
                                                  std::int64_t piece_elements = kStatePieceElements);

// One piece alone: its tensors, with offsets from the piece's start; ranges still count the group's elements.
[[nodiscard]] GroupStateLayout piece_layout(const GroupStateLayout& layout, const StatePiece& piece);

// Bytes of state per parameter for large tensors: for tables.
[[nodiscard]] double state_bytes_per_parameter(MomentPrecision precision, DataType weights);

}  // namespace lazytrain
