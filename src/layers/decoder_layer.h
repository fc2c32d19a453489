// Forward, re-forward and backward of one decoder layer (RMSNorm, grouped-query attention with rotary
// positions, RMSNorm, SwiGLU), written by hand against Device. All calls are asynchronous in one stream.
//
// With x the boundary that enters and y the one that leaves:
//   qkv = rope(norm1(x) Wqkv), core = attention(qkv), mid = x + core Wo,
//   gate|up = norm2(mid) Wgu, y = mid + (silu(gate) * up) Wdown
// Where queries and keys are normalised, qkv = norm1(x) Wqkv is kept as it was projected, which their norm's
// backward needs; rope(head_norm(qkv)), what attention reads, is made again from it.
// Every named tensor is rounded to the storage type where it is defined, whether it is kept or not, so that a
// stash level cannot change a bit. rows = slots * slot_rows; accumulators are fp32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "layers/scratch.h"
#include "model/architecture.h"

namespace lazytrain {

// Where the stash items of one micro-batch are: in the stash, or in the buffer that Recompute fills.
struct StashView {
  void* qkv = nullptr;
  void* core = nullptr;
  float* lse = nullptr;
  void* mid = nullptr;
  void* gate_up = nullptr;
};
// Items of `level` lie in `stash` in the order of stash_items(), each aligned to kBufferAlignment; the others
// likewise in `rest` (may be null: they stay null).
StashView stash_view(const Architecture& architecture, DataType type, std::int64_t rows, StashLevel level,
                     std::byte* stash, std::byte* rest);

// What every call on a micro-batch needs.
struct LayerCall {
  Device& device;
  Stream& stream;
  std::int64_t rows, slot_rows;
  const void* weights;                 // the layer's flat buffer
  const void* x;                       // boundary that enters, [rows, hidden]
  const std::int32_t* positions;       // [rows], index the rotary tables
  const std::int32_t* document_start;  // [rows]
  const float* cosine;                 // [positions, head_dim / 2]
  const float* sine;
  std::byte* workspace;
  Bytes workspace_bytes;
  std::int64_t window = 0;  // tokens that a query of this layer sees at most; 0 = all of its document
};

// Keys and values to keep while a prompt is read (see CacheFill).
struct CachePrefill {
  void* cache = nullptr;
  std::int64_t capacity = 0;
  const std::int32_t* sequence = nullptr;
  const std::int32_t* entry = nullptr;
};

// One token per sequence against its cache (see AttentionDecode); positions = lengths.
struct CacheDecode {
  void* cache = nullptr;
  std::int64_t capacity = 0;
  const std::int32_t* length = nullptr;
  const std::uint8_t* active = nullptr;
};

class DecoderLayer {
 public:
  DecoderLayer(const Architecture& architecture, DataType type);

  // y = layer(x); items of `level` are left in `stash`.
  void forward(const LayerCall& call, StashLevel level, std::byte* stash, void* y,
               const CachePrefill& prefill = {}) const;
  void decode(const LayerCall& call, void* y, const CacheDecode& cache) const;
  // Computes into `recomputed` what a stash of `level` lacks. `full` runs the down-projection too, into
  // scratch.
  void recompute(const LayerCall& call, StashLevel level, std::byte* stash, std::byte* recomputed,
                 bool full) const;
  // gradient [rows, hidden]: dy on entry, dx on return. accumulator: the group's fp32 gradient; where
  // `first`, it holds nothing yet and is replaced.
  void backward(const LayerCall& call, const StashView& stash, void* gradient, float* accumulator,
                bool first) const;

  [[nodiscard]] Bytes forward_workspace(std::int64_t rows) const;
  [[nodiscard]] Bytes recompute_workspace(std::int64_t rows) const;
  [[nodiscard]] Bytes backward_workspace(std::int64_t rows) const;

 private:
  struct Attend;  // how attention reads its keys: training, prefill or decoding
  void run_forward(const LayerCall& call, StashView items, void* y, Scratch& scratch,
                   const Attend& attend) const;
  void attention_half(const LayerCall& call, const StashView& items, Scratch& scratch,
                      const Attend& attend) const;
  // What attention reads: items.qkv itself, or made of it in scratch where queries and keys are normalised.
  [[nodiscard]] const void* attended(const LayerCall& call, const StashView& items, Scratch& scratch) const;
  void rotate(const LayerCall& call, void* qkv, bool inverse) const;
  void output_projection(const LayerCall& call, const StashView& items) const;
  void gate_up_half(const LayerCall& call, const StashView& items, Scratch& scratch) const;
  void down_projection(const LayerCall& call, const StashView& items, void* y, Scratch& scratch) const;

  void zero_between_matrices(Device& device, Stream& stream, float* accumulator) const;

  [[nodiscard]] const void* weight(const LayerCall& call, std::int64_t offset) const;

  Architecture architecture_;
  LayerOffsets offsets_;
  std::int64_t elements_;  // of the flat buffer
  DataType type_;
};

}  // namespace lazytrain
