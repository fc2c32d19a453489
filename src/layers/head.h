// The head, fused: final norm, projection, softmax cross-entropy and their backward, a chunk of rows and a
// block of the vocabulary at a time. No logits tensor of the batch exists (but where a plan asks for it to
// stay, as MegaTrain does). Only supervised rows are computed: the index arrays name them, slot by slot.
//
// A head that the device has no room for is computed in slices of the vocabulary: first forward() of all
// slices, from the first to the last, then backward() from the last to the first. Sums over the vocabulary
// run block by block (model/vocabulary.h) in these orders in any case, so slices change no bit.
#pragma once

#include <cstdint>
#include <span>

#include "device/device.h"
#include "layers/scratch.h"
#include "model/architecture.h"
#include "model/vocabulary.h"

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
  const void* norm_weight;     // [hidden]
  VocabularySlice slice = {};  // of the projection
  const void* projection;      // [slice.tokens, hidden]
  const void* x;               // last boundary, [slots * slot_tokens, hidden]
  const std::int32_t*
      rows;  // [slots, slot_tokens]: rows of the slot that are supervised, first ones first, then -1
  const std::int32_t* targets;           // [slots, slot_tokens]: their targets, -1 behind
  std::span<const std::int32_t> counts;  // host: supervised rows of each slot
  float* loss;                           // [slots, slot_tokens]: loss of the i-th supervised row of the slot
  float* scores = nullptr;  // in slices: [slots, slot_tokens, kSoftmaxScores], of these rows so far
  std::byte* workspace;
  Bytes workspace_bytes;
};

struct HeadGradients {
  float scale;                  // d(mean loss)/d(loss of a row) = 1 / supervised tokens of the step
  void* gradient;               // [slots * slot_tokens, hidden]: of the last boundary
  float* norm_weight;           // fp32 accumulators
  float* projection;            // [slice.tokens, hidden]
  bool fresh = false;           // `projection` holds nothing yet: the first chunk of rows replaces it
  float* normed = nullptr;      // in slices: [slots * slot_tokens, hidden], of the normed rows so far
  std::byte* logits = nullptr;  // retained: [slots * slot_tokens, vocab]; null = in the workspace
};

class Head {
 public:
  Head(const Architecture& architecture, DataType type) : architecture_(architecture), type_(type) {}

  // Has `device` compile the products of every number of rows that a chunk can have.
  void prepare(Device& device, std::int64_t slot_tokens, bool backward) const;

  // Losses only, once the last slice is done.
  void forward(const HeadCall& call) const;
  // Losses and gradients of the whole vocabulary; accumulators are added to. Without supervised rows they are
  // left as they are. (Of a slice: what it takes, not what it is: for measurements.)
  void forward_backward(const HeadCall& call, const HeadGradients& gradients) const;
  // Gradients of a slice, after the forward of all. The first slice, which comes last, completes
  // `gradients.gradient` and adds to the norm's.
  void backward(const HeadCall& call, const HeadGradients& gradients) const;
  // tokens[i] = the likeliest next token after row rows[i] of x (any row of the micro-batch), i < count.
  // Whole.
  void argmax(const HeadCall& call, std::int64_t count, std::int32_t* tokens) const;
  // logits[count, vocab] of the given rows, in the storage type (inspection and tests). Whole.
  void logits(const HeadCall& call, std::int64_t count, void* out) const;

  // Of a head that is computed whole; its forward alone, and slices, need less.
  [[nodiscard]] Bytes workspace(std::int64_t slot_tokens) const;
  [[nodiscard]] Bytes slice_workspace(std::int64_t slot_tokens) const;

 private:
  // Supervised rows of a slot that are computed together, normed.
  struct Chunk {
    std::int64_t slot, begin, first, rows;  // `begin` in the slot, `first` in the call
    void* x = nullptr;
    void* normed = nullptr;
  };
  template <typename Work>
  void for_each_chunk(const HeadCall& call, std::int64_t slot, Scratch& scratch, const Work& work) const;

  [[nodiscard]] VocabularySlice block(std::int64_t index) const;
  void project(const HeadCall& call, const Chunk& chunk, const VocabularySlice& block, void* logits) const;
  void score(const HeadCall& call, const Chunk& chunk, const VocabularySlice& block, const void* logits,
             float* scores) const;
  void block_gradients(const HeadCall& call, const HeadGradients& gradients, const Chunk& chunk,
                       const VocabularySlice& block, void* logits, const float* scores, bool fresh,
                       float* normed, bool add) const;
  void norm_gradient(const HeadCall& call, const HeadGradients& gradients, const Chunk& chunk,
                     const float* normed, void* dx, Scratch& scratch) const;
  void scatter(const HeadCall& call, const HeadGradients& gradients, std::int64_t slot, const void* dx) const;

  // The product with one block of the projection, or a gradient of it, without its buffers.
  template <typename Product>
  [[nodiscard]] Product product(std::int64_t rows, std::int64_t tokens) const;

  Architecture architecture_;
  DataType type_;
};

}  // namespace lazytrain
