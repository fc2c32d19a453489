#include "layers/head.h"

#include <algorithm>
#include <set>

namespace lazytrain {
namespace {

// Chunks are padded to whole tiles of rows, so that few GEMM shapes occur; the index arrays say -1 there.
constexpr std::int64_t kRowTile = 16;

std::int64_t padded(std::int64_t rows, std::int64_t most) {
  return std::min((rows + kRowTile - 1) / kRowTile * kRowTile, most);
}

}  // namespace

template <typename Product>
Product Head::product(std::int64_t rows, std::int64_t tokens) const {
  Product product{};
  product.type = type_;
  product.rows = product.slot_rows = rows;
  product.in = architecture_.hidden;
  product.out = tokens;
  return product;
}

VocabularySlice Head::block(std::int64_t index) const {
  return vocabulary_slice(architecture_.vocab, index, vocabulary_blocks(architecture_.vocab));
}

void Head::prepare(Device& device, std::int64_t slot_tokens, bool backward) const {
  const std::int64_t step = head_chunk_rows(slot_tokens);
  std::set<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < slot_tokens; begin += step)
    for (std::int64_t count = 1; count <= std::min(step, slot_tokens - begin); ++count)
      sizes.insert(padded(count, slot_tokens - begin));
  const std::set tokens{block(0).tokens, block(vocabulary_blocks(architecture_.vocab) - 1).tokens};
  for (const std::int64_t width : tokens) {
    for (const std::int64_t rows : sizes) {
      device.prepare(product<LinearForward>(rows, width));
      if (!backward) continue;
      auto input = product<LinearInputGradient>(rows, width);
      input.result = DataType::f32;
      auto weight = product<LinearWeightGradient>(rows, width);
      for (const bool accumulate : {true, false}) {
        input.accumulate = weight.accumulate = accumulate;
        device.prepare(input);
        device.prepare(weight);
      }
    }
  }
}

// work(chunk) for the slot's supervised rows, chunk by chunk.
template <typename Work>
void Head::for_each_chunk(const HeadCall& call, std::int64_t slot, Scratch& scratch, const Work& work) const {
  const Architecture& a = architecture_;
  const std::int64_t size = size_of(type_), step = head_chunk_rows(call.slot_tokens);
  const std::int64_t count = call.counts[static_cast<std::size_t>(slot)];
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const Bytes mark = scratch.mark();
    Chunk chunk{.slot = slot,
                .begin = begin,
                .first = slot * call.slot_tokens + begin,
                .rows = padded(std::min(step, count - begin), call.slot_tokens - begin)};
    chunk.x = scratch.take(chunk.rows * a.hidden * size);
    chunk.normed = scratch.take(chunk.rows * a.hidden * size);
    call.device.run(call.stream, GatherRows{.type = type_,
                                            .count = chunk.rows,
                                            .width = a.hidden,
                                            .x = static_cast<const std::byte*>(call.x) +
                                                 slot * call.slot_tokens * a.hidden * size,
                                            .index = call.rows + chunk.first,
                                            .out = chunk.x});
    call.device.run(call.stream, RmsNormForward{.type = type_,
                                                .rows = chunk.rows,
                                                .width = a.hidden,
                                                .epsilon = static_cast<float>(a.rms_epsilon),
                                                .x = chunk.x,
                                                .weight = call.norm_weight,
                                                .y = chunk.normed});
    work(chunk);
    scratch.release_to(mark);
  }
}

void Head::project(const HeadCall& call, const Chunk& chunk, const VocabularySlice& block,
                   void* logits) const {
  auto forward = product<LinearForward>(chunk.rows, block.tokens);
  forward.x = chunk.normed;
  forward.weight = static_cast<const std::byte*>(call.projection) +
                   (block.first - call.slice.first) * architecture_.hidden * size_of(type_);
  forward.y = logits;
  call.device.run(call.stream, forward);
}

void Head::score(const HeadCall& call, const Chunk& chunk, const VocabularySlice& block, const void* logits,
                 float* scores) const {
  call.device.run(call.stream, SoftmaxScores{.type = type_,
                                             .rows = chunk.rows,
                                             .first = block.first,
                                             .width = block.tokens,
                                             .logits = logits,
                                             .target = call.targets + chunk.first,
                                             .scores = scores,
                                             .fresh = block.block == 0});
  if (block.end_block < vocabulary_blocks(architecture_.vocab)) return;
  call.device.run(call.stream, CrossEntropyLoss{.rows = chunk.rows,
                                                .scores = scores,
                                                .target = call.targets + chunk.first,
                                                .loss = call.loss + chunk.first});
}

// Logits become their gradient. `normed`: that of the normed rows so far, [rows, hidden], where `add`.
void Head::block_gradients(const HeadCall& call, const HeadGradients& gradients, const Chunk& chunk,
                           const VocabularySlice& block, void* logits, const float* scores, bool fresh,
                           float* normed, bool add) const {
  const std::int64_t offset = (block.first - call.slice.first) * architecture_.hidden;
  call.device.run(call.stream, CrossEntropyGradient{.type = type_,
                                                    .rows = chunk.rows,
                                                    .first = block.first,
                                                    .width = block.tokens,
                                                    .logits = logits,
                                                    .target = call.targets + chunk.first,
                                                    .scores = scores,
                                                    .scale = gradients.scale,
                                                    .dlogits = logits});
  auto weight = product<LinearWeightGradient>(chunk.rows, block.tokens);
  weight.dy = logits;
  weight.x = chunk.normed;
  weight.dweight = gradients.projection + offset;
  weight.accumulate = !fresh;
  call.device.run(call.stream, weight);
  auto input = product<LinearInputGradient>(chunk.rows, block.tokens);
  input.dy = logits;
  input.weight = static_cast<const std::byte*>(call.projection) + offset * size_of(type_);
  input.dx = normed;
  input.result = DataType::f32;
  input.accumulate = add;
  call.device.run(call.stream, input);
}

// The gradient of the rows of the last boundary from that of the normed ones: dx[slot_tokens, hidden].
void Head::norm_gradient(const HeadCall& call, const HeadGradients& gradients, const Chunk& chunk,
                         const float* normed, void* dx, Scratch& scratch) const {
  const Architecture& a = architecture_;
  void* dnormed = scratch.take(chunk.rows * a.hidden * size_of(type_));
  call.device.run(call.stream,
                  Round{.type = type_, .elements = chunk.rows * a.hidden, .x = normed, .out = dnormed});
  call.device.run(call.stream,
                  RmsNormBackward{.type = type_,
                                  .rows = chunk.rows,
                                  .slot_rows = chunk.rows,
                                  .width = a.hidden,
                                  .epsilon = static_cast<float>(a.rms_epsilon),
                                  .x = chunk.x,
                                  .weight = call.norm_weight,
                                  .dy = dnormed,
                                  .residual = nullptr,
                                  .dx = static_cast<std::byte*>(dx) + chunk.begin * a.hidden * size_of(type_),
                                  .dweight = gradients.norm_weight});
}

void Head::scatter(const HeadCall& call, const HeadGradients& gradients, std::int64_t slot,
                   const void* dx) const {
  const std::int64_t width = architecture_.hidden;
  call.device.run(call.stream, ScatterRows{.type = type_,
                                           .count = call.counts[static_cast<std::size_t>(slot)],
                                           .rows = call.slot_tokens,
                                           .width = width,
                                           .x = dx,
                                           .index = call.rows + slot * call.slot_tokens,
                                           .out = static_cast<std::byte*>(gradients.gradient) +
                                                  slot * call.slot_tokens * width * size_of(type_)});
}

void Head::forward(const HeadCall& call) const {
  Scratch scratch(call.workspace, call.workspace_bytes);
  if (call.slice.end_block == vocabulary_blocks(architecture_.vocab))
    call.device.zero(call.stream, call.loss, {call.slots * call.slot_tokens * 4});
  for (std::int64_t slot = 0; slot < call.slots; ++slot) {
    for_each_chunk(call, slot, scratch, [&](const Chunk& chunk) {
      void* logits = scratch.take(chunk.rows * block(0).tokens * size_of(type_));
      float* scores = call.scores != nullptr
                          ? call.scores + chunk.first * kSoftmaxScores
                          : static_cast<float*>(scratch.take(chunk.rows * kSoftmaxScores * 4));
      for (std::int64_t b = call.slice.block; b < call.slice.end_block; ++b) {
        project(call, chunk, block(b), logits);
        score(call, chunk, block(b), logits, scores);
      }
    });
  }
}

void Head::backward(const HeadCall& call, const HeadGradients& gradients) const {
  const Architecture& a = architecture_;
  Scratch scratch(call.workspace, call.workspace_bytes);
  void* dx = scratch.take(call.slot_tokens * a.hidden * size_of(type_));
  bool fresh = gradients.fresh;
  for (std::int64_t slot = 0; slot < call.slots; ++slot) {
    for_each_chunk(call, slot, scratch, [&](const Chunk& chunk) {
      void* logits = scratch.take(chunk.rows * block(0).tokens * size_of(type_));
      float* normed = gradients.normed + chunk.first * a.hidden;
      for (std::int64_t b = call.slice.end_block - 1; b >= call.slice.block; --b) {
        project(call, chunk, block(b), logits);
        block_gradients(call, gradients, chunk, block(b), logits, call.scores + chunk.first * kSoftmaxScores,
                        fresh, normed, b + 1 < vocabulary_blocks(a.vocab));
      }
      if (call.slice.block == 0) norm_gradient(call, gradients, chunk, normed, dx, scratch);
      fresh = false;
    });
    if (call.slice.block == 0) scatter(call, gradients, slot, dx);
  }
}

void Head::forward_backward(const HeadCall& call, const HeadGradients& gradients) const {
  const Architecture& a = architecture_;
  const std::int64_t size = size_of(type_);
  Scratch scratch(call.workspace, call.workspace_bytes);
  call.device.zero(call.stream, call.loss, {call.slots * call.slot_tokens * 4});
  void* dx = scratch.take(call.slot_tokens * a.hidden * size);
  bool fresh = gradients.fresh;
  for (std::int64_t slot = 0; slot < call.slots; ++slot) {
    for_each_chunk(call, slot, scratch, [&](const Chunk& chunk) {
      // Block behind block, [rows, block] each.
      std::byte* logits = gradients.logits != nullptr
                              ? gradients.logits + chunk.first * a.vocab * size
                              : static_cast<std::byte*>(scratch.take(chunk.rows * a.vocab * size));
      auto* scores = static_cast<float*>(scratch.take(chunk.rows * kSoftmaxScores * 4));
      auto* normed = static_cast<float*>(scratch.take(chunk.rows * a.hidden * 4));
      const auto of_block = [&](std::int64_t b) { return logits + chunk.rows * block(b).first * size; };
      for (std::int64_t b = call.slice.block; b < call.slice.end_block; ++b) {
        project(call, chunk, block(b), of_block(b));
        score(call, chunk, block(b), of_block(b), scores);
      }
      for (std::int64_t b = call.slice.end_block - 1; b >= call.slice.block; --b)
        block_gradients(call, gradients, chunk, block(b), of_block(b), scores, fresh, normed,
                        b + 1 < call.slice.end_block);
      norm_gradient(call, gradients, chunk, normed, dx, scratch);
      fresh = false;
    });
    scatter(call, gradients, slot, dx);
  }
}

void Head::logits(const HeadCall& call, std::int64_t count, void* out) const {
  const Architecture& a = architecture_;
  Scratch scratch(call.workspace, call.workspace_bytes);
  const std::int64_t size = size_of(type_), step = head_chunk_rows(call.slot_tokens);
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t rows = std::min(step, count - begin);
    const Bytes mark = scratch.mark();
    void* x = scratch.take(rows * a.hidden * size);
    void* normed = scratch.take(rows * a.hidden * size);
    call.device.run(call.stream, GatherRows{.type = type_,
                                            .count = rows,
                                            .width = a.hidden,
                                            .x = call.x,
                                            .index = call.rows + begin,
                                            .out = x});
    call.device.run(call.stream, RmsNormForward{.type = type_,
                                                .rows = rows,
                                                .width = a.hidden,
                                                .epsilon = static_cast<float>(a.rms_epsilon),
                                                .x = x,
                                                .weight = call.norm_weight,
                                                .y = normed});
    call.device.run(call.stream, LinearForward{.type = type_,
                                               .rows = rows,
                                               .slot_rows = rows,
                                               .in = a.hidden,
                                               .out = a.vocab,
                                               .x = normed,
                                               .weight = call.projection,
                                               .y = static_cast<std::byte*>(out) + begin * a.vocab * size});
    scratch.release_to(mark);
  }
}

void Head::argmax(const HeadCall& call, std::int64_t count, std::int32_t* tokens) const {
  const Architecture& a = architecture_;
  const std::int64_t step = head_chunk_rows(call.slot_tokens);
  for (std::int64_t begin = 0; begin < count; begin += step) {
    const std::int64_t rows = std::min(step, count - begin);
    Scratch scratch(call.workspace, call.workspace_bytes);
    void* chunk_logits = scratch.take(rows * a.vocab * size_of(type_));
    HeadCall part = call;
    part.rows = call.rows + begin;
    part.workspace = call.workspace + scratch.mark().value;
    part.workspace_bytes = call.workspace_bytes - scratch.mark();
    logits(part, rows, chunk_logits);
    call.device.run(
        call.stream,
        ArgMax{.type = type_, .rows = rows, .width = a.vocab, .x = chunk_logits, .out = tokens + begin});
  }
}

Bytes Head::workspace(std::int64_t slot_tokens) const {
  const Architecture& a = architecture_;
  const std::int64_t rows = padded(head_chunk_rows(slot_tokens), slot_tokens), size = size_of(type_);
  Scratch scratch(nullptr);
  scratch.take(slot_tokens * a.hidden * size);
  scratch.take(rows * a.hidden * size);
  scratch.take(rows * a.hidden * size);
  scratch.take(rows * a.vocab * size);
  scratch.take(rows * kSoftmaxScores * 4);
  scratch.take(rows * a.hidden * 4);
  scratch.take(rows * a.hidden * size);
  return scratch.peak();
}

Bytes Head::slice_workspace(std::int64_t slot_tokens) const {
  const Architecture& a = architecture_;
  const std::int64_t rows = padded(head_chunk_rows(slot_tokens), slot_tokens), size = size_of(type_);
  Scratch scratch(nullptr);
  scratch.take(slot_tokens * a.hidden * size);
  scratch.take(rows * a.hidden * size);
  scratch.take(rows * a.hidden * size);
  scratch.take(rows * block(0).tokens * size);
  scratch.take(std::max(rows * kSoftmaxScores * 4, rows * a.hidden * size));
  return scratch.peak();
}

}  // namespace lazytrain
