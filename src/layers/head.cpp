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
Product Head::projection(std::int64_t rows) const {
  Product product{};
  product.type = type_;
  product.rows = product.slot_rows = rows;
  product.in = architecture_.hidden;
  product.out = architecture_.vocab;
  return product;
}

void Head::prepare(Device& device, std::int64_t slot_tokens, bool backward) const {
  const std::int64_t step = head_chunk_rows(slot_tokens);
  std::set<std::int64_t> sizes;
  for (std::int64_t begin = 0; begin < slot_tokens; begin += step)
    for (std::int64_t count = 1; count <= std::min(step, slot_tokens - begin); ++count)
      sizes.insert(padded(count, slot_tokens - begin));
  for (const std::int64_t rows : sizes) {
    device.prepare(projection<LinearForward>(rows));
    if (!backward) continue;
    device.prepare(projection<LinearInputGradient>(rows));
    auto weight = projection<LinearWeightGradient>(rows);
    for (const bool accumulate : {true, false}) {
      weight.accumulate = accumulate;
      device.prepare(weight);
    }
  }
}

void Head::chunk(const HeadCall& call, std::int64_t slot, std::int64_t begin, std::int64_t count,
                 const HeadGradients* gradients, bool fresh, void* dx, Scratch& scratch) const {
  const Architecture& a = architecture_;
  Device& device = call.device;
  Stream& stream = call.stream;
  const std::int64_t size = size_of(type_);
  const auto epsilon = static_cast<float>(a.rms_epsilon);
  const std::int64_t first = slot * call.slot_tokens + begin;
  const std::int64_t rows = padded(count, call.slot_tokens - begin);
  const Bytes mark = scratch.mark();
  void* x = scratch.take(rows * a.hidden * size);
  void* normed = scratch.take(rows * a.hidden * size);
  std::byte* logits = gradients != nullptr && gradients->logits != nullptr
                          ? gradients->logits + first * a.vocab * size
                          : static_cast<std::byte*>(scratch.take(rows * a.vocab * size));
  device.run(stream, GatherRows{.type = type_,
                                .count = rows,
                                .width = a.hidden,
                                .x = static_cast<const std::byte*>(call.x) +
                                     slot * call.slot_tokens * a.hidden * size,
                                .index = call.rows + first,
                                .out = x});
  device.run(stream, RmsNormForward{.type = type_,
                                    .rows = rows,
                                    .width = a.hidden,
                                    .epsilon = epsilon,
                                    .x = x,
                                    .weight = call.norm_weight,
                                    .y = normed});
  auto project = projection<LinearForward>(rows);
  project.x = normed;
  project.weight = call.projection;
  project.y = logits;
  device.run(stream, project);
  CrossEntropy entropy{.type = type_,
                       .rows = rows,
                       .vocab = a.vocab,
                       .logits = logits,
                       .target = call.targets + first,
                       .scale = 0,
                       .loss = call.loss + first};
  if (gradients != nullptr) {
    entropy.scale = gradients->scale;
    entropy.dlogits = logits;
  }
  device.run(stream, entropy);
  if (gradients != nullptr) {
    void* dnormed = scratch.take(rows * a.hidden * size);
    auto weight = projection<LinearWeightGradient>(rows);
    weight.dy = logits;
    weight.x = normed;
    weight.dweight = gradients->projection;
    weight.accumulate = !fresh;
    device.run(stream, weight);
    auto input = projection<LinearInputGradient>(rows);
    input.dy = logits;
    input.weight = call.projection;
    input.dx = dnormed;
    device.run(stream, input);
    device.run(stream, RmsNormBackward{.type = type_,
                                       .rows = rows,
                                       .slot_rows = rows,
                                       .width = a.hidden,
                                       .epsilon = epsilon,
                                       .x = x,
                                       .weight = call.norm_weight,
                                       .dy = dnormed,
                                       .residual = nullptr,
                                       .dx = static_cast<std::byte*>(dx) + begin * a.hidden * size,
                                       .dweight = gradients->norm_weight});
  }
  scratch.release_to(mark);
}

void Head::forward(const HeadCall& call) const {
  Scratch scratch(call.workspace, call.workspace_bytes);
  call.device.zero(call.stream, call.loss, {call.slots * call.slot_tokens * 4});
  const std::int64_t step = head_chunk_rows(call.slot_tokens);
  for (std::int64_t slot = 0; slot < call.slots; ++slot) {
    const std::int64_t count = call.counts[static_cast<std::size_t>(slot)];
    for (std::int64_t begin = 0; begin < count; begin += step)
      chunk(call, slot, begin, std::min(step, count - begin), nullptr, false, nullptr, scratch);
  }
}

void Head::forward_backward(const HeadCall& call, const HeadGradients& gradients) const {
  const Architecture& a = architecture_;
  Scratch scratch(call.workspace, call.workspace_bytes);
  call.device.zero(call.stream, call.loss, {call.slots * call.slot_tokens * 4});
  const std::int64_t step = head_chunk_rows(call.slot_tokens), size = size_of(type_);
  void* dx = scratch.take(call.slot_tokens * a.hidden * size);
  bool fresh = gradients.fresh;
  for (std::int64_t slot = 0; slot < call.slots; ++slot) {
    const std::int64_t count = call.counts[static_cast<std::size_t>(slot)];
    for (std::int64_t begin = 0; begin < count; begin += step) {
      chunk(call, slot, begin, std::min(step, count - begin), &gradients, fresh, dx, scratch);
      fresh = false;
    }
    call.device.run(call.stream, ScatterRows{.type = type_,
                                             .count = count,
                                             .rows = call.slot_tokens,
                                             .width = a.hidden,
                                             .x = dx,
                                             .index = call.rows + slot * call.slot_tokens,
                                             .out = static_cast<std::byte*>(gradients.gradient) +
                                                    slot * call.slot_tokens * a.hidden * size});
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
  scratch.take(rows * a.hidden * size);
  return scratch.peak();
}

}  // namespace lazytrain
