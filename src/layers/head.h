// The head, fused: final norm, projection, softmax cross-entropy and their backward, a chunk of rows at a
// time. No logits tensor of the batch exists (but where a plan asks for it to stay, as MegaTrain does). Only
// supervised rows are computed: the index arrays name them, slot by slot.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "layers/scratch.h"
#include "model/architecture.h"

namespace lazytrain {

// Rows of one chunk. It decides how the projection's gradient is summed, so it depends on the slot alone,
// never on a plan. 256: the fp32 accumulator (113 MB for 49,152 x 576) is read and written once a chunk, and
// a chunk's bf16 logits take 25 MB.
constexpr std::int64_t head_chunk_rows(std::int64_t slot_tokens) {
  return slot_tokens < 256 ? slot_tokens : 256;
}

struct HeadCall {
  Device& device;
  Stream& stream;
  std::int64_t slots, slot_tokens;
  const void* norm_weight;  // [hidden]
  const void* projection;   // [vocab, hidden]
  const void* x;            // last boundary, [slots * slot_tokens, hidden]
  const std::int32_t*
      rows;  // [slots, slot_tokens]: rows of the slot that are supervised, first ones first, then -1
  const std::int32_t* targets;           // [slots, slot_tokens]: their targets, -1 behind
  std::span<const std::int32_t> counts;  // host: supervised rows of each slot
  float* loss;                           // [slots, slot_tokens]: loss of the i-th supervised row of the slot
  std::byte* workspace;
  Bytes workspace_bytes;
};

struct HeadGradients {
  float scale;                  // d(mean loss)/d(loss of a row) = 1 / supervised tokens of the step
  void* gradient;               // [slots * slot_tokens, hidden]: of the last boundary
  float* norm_weight;           // fp32 accumulators
  float* projection;            // [vocab, hidden]
  bool fresh = false;           // `projection` holds nothing yet: the first chunk of rows replaces it
  std::byte* logits = nullptr;  // retained: [slots * slot_tokens, vocab]; null = in the workspace
};

class Head {
 public:
  Head(const Architecture& architecture, DataType type) : architecture_(architecture), type_(type) {}

  // Has `device` compile the products of every number of rows that a chunk can have.
  void prepare(Device& device, std::int64_t slot_tokens, bool backward) const;

  // Losses only.
  void forward(const HeadCall& call) const;
  // Losses and gradients; accumulators are added to. Without supervised rows they are left as they are.
  void forward_backward(const HeadCall& call, const HeadGradients& gradients) const;
  // tokens[i] = the likeliest next token after row rows[i] of x (any row of the micro-batch), i < count.
  void argmax(const HeadCall& call, std::int64_t count, std::int32_t* tokens) const;
  // logits[count, vocab] of the given rows, in the storage type (inspection and tests).
  void logits(const HeadCall& call, std::int64_t count, void* out) const;

  [[nodiscard]] Bytes workspace(std::int64_t slot_tokens) const;

 private:
  void chunk(const HeadCall& call, std::int64_t slot, std::int64_t begin, std::int64_t count,
             const HeadGradients* gradients, bool fresh, void* dx, Scratch& scratch) const;

  // The projection of `rows` rows, or one of its gradients, without its buffers.
  template <typename Product>
  [[nodiscard]] Product projection(std::int64_t rows) const;

  Architecture architecture_;
  DataType type_;
};

}  // namespace lazytrain
