// Program: the straight list of operations of one step, with the buffers they touch, the stream each runs on
// and the operations each waits for. It is made once by lowering a Plan and has four readers: the verifier
// proves it safe, the simulator times it, the executor runs it, the report draws it.
//
// Order: the list is a topological order. Within a stream operations run in list order; between streams
// only `after` orders them. Nothing of one step overlaps the next: a step ends when all streams are empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/units.h"
#include "plan/machine.h"
#include "plan/plan.h"

namespace lazytrain {

enum class ProgramKind : std::uint8_t { train_step, update_only, evaluate, prefill, decode };
[[nodiscard]] const char* to_string(ProgramKind kind);

enum class StreamId : std::uint8_t { compute, h2d, d2h, host, disk_read, disk_write };
inline constexpr std::size_t kStreamCount = 6;
[[nodiscard]] const char* to_string(StreamId stream);
[[nodiscard]] constexpr bool is_disk(StreamId stream) {
  return stream == StreamId::disk_read || stream == StreamId::disk_write;
}
// Streams whose ops move bytes at a rate.
[[nodiscard]] constexpr bool is_link(StreamId stream) {
  return stream == StreamId::h2d || stream == StreamId::d2h || is_disk(stream);
}

enum class OpKind : std::uint8_t {
  load_batch,                 // index arrays of the step to the device
  zero_embedding_gradient,    // host: the embedding's gradient starts at zero, fp32 rows too (untied head)
  gather_embedding,           // host: rows of the embedding matrix become boundary 0 of micro-batch m
  load_weights,               // LoadWeights(l)
  load_head,                  // final norm and projection
  load_clip,                  // the clip factor, for updates of resident layers
  forward,                    // Forward(l, m)
  recompute,                  // Recompute(l, m): what the stash lacks
  head_forward_backward,      // HeadForwardBackward(m)
  head_forward,               // losses only: evaluation; of a head in slices: HeadForward(s, m)
  head_backward,              // of a head in slices, from the last to the first: HeadBackward(s, m)
  head_argmax,                // generation: the next token of every sequence
  backward,                   // Backward(l, m)
  offload_boundary,           // d2h
  fetch_boundary,             // h2d
  offload_boundary_gradient,  // d2h
  fetch_boundary_gradient,    // h2d
  offload_stash,              // d2h
  fetch_stash,                // h2d
  offload_gradient,           // OffloadGradient(l): rounds, copies, sums squares (resident: copies nothing)
  offload_head_gradient,      // the same; of a tied projection also the fp32 rows of the step's tokens
  offload_norm,               // the partial sums of squares of a resident layer's gradient
  offload_loss,               // per-row losses of micro-batch m (generation: the chosen tokens)
  collect,  // host: losses of micro-batch m are summed (generation: tokens reach the caller)
  scatter_embedding_gradient,  // host: boundary 0's gradient into the fp32 rows of its tokens, in token order
  finish_embedding_gradient,   // host: rounds these rows into the embedding's gradient, sums squares of all
  sum_head_gradient,           // host: sums squares of a head's gradient that left the device in slices
  reduce_norm,                 // host: global norm, clip factor, is the step finite
  update_group,                // UpdateLayer: AdamW on one parameter group, or on one piece of it (resident
                               // layers: in the compute stream)
  read_states,                 // disk_read: one piece of a group's optimizer state
  write_states,                // disk_write: the same piece, updated
  read_weights,                // disk_read: a layer's weights, for a load, a layer call or an update
  write_weights,               // disk_write: the same, updated
  read_gradient,               // disk_read: the part of a group's gradient that a piece needs
  write_gradient,              // disk_write: a layer's gradient after it left the device
  write_boundary,              // disk_write: boundary b of micro-batch m, whose home is the disk
  read_boundary,               // disk_read: the same, for the backward
  write_stash,                 // disk_write: the stash of layer l and micro-batch m
  read_stash,                  // disk_read
  decode_layer                 // one token per sequence through layer l, against the key-value cache
};
[[nodiscard]] const char* to_string(OpKind kind);
// Compute ops of the head: a forward of a layer that comes behind one is computed again.
[[nodiscard]] constexpr bool is_head(OpKind kind) {
  return kind == OpKind::head_forward_backward || kind == OpKind::head_forward ||
         kind == OpKind::head_backward;
}

// What a buffer is to an op. An op has at most one buffer per role.
enum class OperandRole : std::uint8_t {
  weights,                 // a layer's or the head's parameters
  embedding,               // the embedding matrix (also the projection of a tied head)
  projection,              // a slice of the head's projection
  input,                   // boundary that enters, or the source of a copy
  output,                  // boundary that leaves, or the destination of a copy
  stash,                   // what the forward saved
  recomputed,              // what Recompute adds for the backward
  gradient,                // gradient of a boundary, replaced in place by the backward
  accumulator,             // fp32 gradient of a parameter group
  projection_accumulator,  // fp32 gradient of a tied head's projection, which is the embedding's too, or of a
                           // slice of any head's
  scores,                  // of a head in slices: the softmax of every row so far
  normed_gradient,         // of a head in slices: fp32 gradient of the normed rows so far
  gradient_rows,           // fp32 gradient of the embedding's rows that the step's tokens name
  loss,                    // fp32 loss of every row (generation: int32 tokens)
  logits,                  // retained logits (megatrain)
  batch,                   // index arrays
  constants,               // rotary tables
  cache,                   // keys and values of one layer
  workspace,               // scratch of compute ops
  states,                  // optimizer states, fp32 masters included
  group_gradient,          // a group's gradient as it left the device
  norm,                    // partial sums of squares
  clip                     // global norm and clip factor
};
[[nodiscard]] const char* to_string(OperandRole role);

enum class Access : std::uint8_t { read, write, read_write };

using BufferId = std::int32_t;
using OpIndex = std::int32_t;

struct Buffer {
  std::string name;  // "dev.b[3]m0"
  Tier tier = Tier::device;
  Bytes size{};
  // Lives outside the step: parameters, states, constants. Same offset in every Program of a run.
  bool persistent = false;
  // Filled before the first op (parameters, states, constants, batch arrays): may be read before it is
  // written.
  bool initialised = false;
  OpIndex first = -1, last = -1;              // ops between which the bytes are reserved (transient buffers)
  Bytes offset{-1};                           // in the tier's arena (disk: in the scratch file)
  std::int64_t alignment = kBufferAlignment;  // of the offset; more where the disk reads or writes it
};

struct Operand {
  OperandRole role;
  BufferId buffer;
  Access access;
};

struct Op {
  OpKind kind;
  StreamId stream;
  std::int32_t layer = -1;        // decoder layer, or parameter group for update_group; -1 = none
  std::int32_t micro_batch = -1;  // -1 = none
  StashLevel stash = StashLevel::none;
  bool full = false;                // recompute: run the down-projection too
  bool first = false;               // backward, head: the accumulator starts at zero here
  std::int32_t piece = -1;          // of a group's state (updates, reads, writes); -1 = the whole group
  std::int32_t slice = -1;          // of the head; -1 = whole
  std::int64_t gradient_first = 0;  // updates: element at which the gradient's buffer begins
  Bytes from{};                     // reads from disk, loads of the head: where in the input they begin
  Bytes reach{};                    // of a tied head's slice that leaves: in the rows of the step's tokens
  Bytes bytes{};                    // moved over a link
  std::int64_t elements = 0;        // parameters touched (updates, gradient offloads)
  std::int64_t eight_bit_elements = 0;  // of them with 8-bit moments (updates)
  std::vector<Operand> operands{};
  std::vector<OpIndex> after{};

  [[nodiscard]] BufferId buffer(OperandRole role) const {  // -1 where there is none
    for (const Operand& operand : operands)
      if (operand.role == role) return operand.buffer;
    return -1;
  }
};

struct Program {
  ProgramKind kind = ProgramKind::train_step;
  TierModel tiers = TierModel::tiered;
  BatchGeometry batch;
  std::int64_t type_bytes = 2;              // storage type: 2 = bf16, 4 = fp32
  std::int64_t head_slices = 1;             // Plan::head_slices
  std::vector<LayerKind> layer_kinds = {};  // of each decoder layer: what its ops cost; empty: all attention
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  Bytes device_bytes, host_bytes;  // arena sizes: the highest end of any buffer
  Bytes disk_bytes = {};           // of the scratch file, likewise

  [[nodiscard]] Bytes bytes_of(Tier tier) const {
    return tier == Tier::device ? device_bytes : tier == Tier::host ? host_bytes : disk_bytes;
  }
  [[nodiscard]] LayerKind kind_of(const Op& op) const {  // of a layer's op
    return layer_kinds.empty() ? LayerKind::attention : layer_kinds[static_cast<std::size_t>(op.layer)];
  }
  [[nodiscard]] const Buffer& at(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
};

// "Forward(3, m0)"
std::string describe(const Op& op);
// One op a line: number, stream, what, reads, writes, after. What a person debugs and a test compares.
std::string listing(const Program& program);

// The updates are those of the step before: they come first.
bool begins_with_updates(const Program& program);

// Bytes that one run of the Program reads from disk, and writes to it.
Bytes disk_reads(const Program& program);
Bytes disk_writes(const Program& program);

// Bytes of the host that a link reads or writes, or may at some time: all but what persists there and is
// touched by the host alone (moments, residuals). A device of its own needs these pinned.
Bytes pinned_bytes(const Program& program);

// No tier holds more than it has; `pinned` included.
bool fits(const Program& program, const Machine& machine);

// What a tier holds at its peak, grouped by what the buffers are ("weights", "boundaries"...), largest first.
struct MemoryItem {
  std::string what;
  Bytes bytes;
};
std::vector<MemoryItem> memory_items(const Program& program, Tier tier);

}  // namespace lazytrain
