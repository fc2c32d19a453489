#include "layers/decoder_layer.h"

#include <utility>

namespace lazytrain {

struct DecoderLayer::Attend {
  const CachePrefill* prefill = nullptr;
  const CacheDecode* decode = nullptr;
};

StashView stash_view(const Architecture& architecture, DataType type, std::int64_t rows, StashLevel level,
                     std::byte* stash, std::byte* rest) {
  StashView view;
  std::int64_t in_stash = 0, in_rest = 0;
  for (const StashItemShape& shape : stash_items(architecture, LayerKind::attention)) {
    const bool kept = stash_contains(level, shape.item);
    std::int64_t& offset = kept ? in_stash : in_rest;
    std::byte* base = kept ? stash : rest;
    std::byte* at = base == nullptr ? nullptr : base + offset;
    offset += align_up({rows * shape.elements_per_token * (shape.fp32 ? 4 : size_of(type))}, kBufferAlignment)
                  .value;
    switch (shape.item) {
      case StashItem::qkv:
        view.qkv = at;
        break;
      case StashItem::core:
        view.core = at;
        break;
      case StashItem::lse:
        view.lse = reinterpret_cast<float*>(at);
        break;
      case StashItem::mid:
        view.mid = at;
        break;
      case StashItem::gate_up:
        view.gate_up = at;
        break;
    }
  }
  return view;
}

namespace {

// Items that are nowhere yet go to the scratch.
StashView complete(const Architecture& a, DataType type, std::int64_t rows, StashView view,
                   Scratch& scratch) {
  const std::int64_t size = size_of(type);
  if (view.qkv == nullptr) view.qkv = scratch.take(rows * a.qkv_width() * size);
  if (view.core == nullptr) view.core = scratch.take(rows * a.query_width() * size);
  if (view.lse == nullptr) view.lse = static_cast<float*>(scratch.take(rows * a.heads * 4));
  if (view.mid == nullptr) view.mid = scratch.take(rows * a.hidden * size);
  if (view.gate_up == nullptr) view.gate_up = scratch.take(rows * 2 * a.ffn * size);
  return view;
}

}  // namespace

DecoderLayer::DecoderLayer(const Architecture& architecture, DataType type)
    : architecture_(architecture),
      offsets_(layer_offsets(architecture)),
      elements_(parameter_groups(architecture)[1].elements),
      type_(type) {}

const void* DecoderLayer::weight(const LayerCall& call, std::int64_t offset) const {
  return offset < 0 ? nullptr : static_cast<const std::byte*>(call.weights) + offset * size_of(type_);
}

void DecoderLayer::attention_half(const LayerCall& call, const StashView& items, Scratch& scratch,
                                  const Attend& attend) const {
  const Architecture& a = architecture_;
  const Bytes mark = scratch.mark();
  void* normed = scratch.take(call.rows * a.hidden * size_of(type_));
  call.device.run(call.stream, RmsNormForward{.type = type_,
                                              .rows = call.rows,
                                              .width = a.hidden,
                                              .epsilon = static_cast<float>(a.rms_epsilon),
                                              .x = call.x,
                                              .weight = weight(call, offsets_.input_norm),
                                              .y = normed});
  call.device.run(call.stream, LinearForward{.type = type_,
                                             .rows = call.rows,
                                             .slot_rows = call.slot_rows,
                                             .in = a.hidden,
                                             .out = a.qkv_width(),
                                             .x = normed,
                                             .weight = weight(call, offsets_.qkv),
                                             .bias = weight(call, offsets_.qkv_bias),
                                             .y = items.qkv});
  scratch.release_to(mark);
  if (!a.query_key_norm) rotate(call, items.qkv, false);
  const void* qkv = attended(call, items, scratch);
  if (attend.decode != nullptr) {
    call.device.run(call.stream, AttentionDecode{.type = type_,
                                                 .sequences = call.rows,
                                                 .capacity = attend.decode->capacity,
                                                 .heads = a.heads,
                                                 .kv_heads = a.kv_heads,
                                                 .head_dim = a.head_dim,
                                                 .qkv = qkv,
                                                 .length = attend.decode->length,
                                                 .active = attend.decode->active,
                                                 .cache = attend.decode->cache,
                                                 .core = items.core,
                                                 .window = call.window});
  } else {
    if (attend.prefill != nullptr && attend.prefill->cache != nullptr) {
      call.device.run(call.stream, CacheFill{.type = type_,
                                             .rows = call.rows,
                                             .capacity = attend.prefill->capacity,
                                             .heads = a.heads,
                                             .kv_heads = a.kv_heads,
                                             .head_dim = a.head_dim,
                                             .qkv = qkv,
                                             .cache_sequence = attend.prefill->sequence,
                                             .cache_entry = attend.prefill->entry,
                                             .cache = attend.prefill->cache});
    }
    call.device.run(call.stream, AttentionForward{.type = type_,
                                                  .rows = call.rows,
                                                  .slot_rows = call.slot_rows,
                                                  .heads = a.heads,
                                                  .kv_heads = a.kv_heads,
                                                  .head_dim = a.head_dim,
                                                  .qkv = qkv,
                                                  .document_start = call.document_start,
                                                  .core = items.core,
                                                  .lse = items.lse,
                                                  .window = call.window});
  }
  scratch.release_to(mark);
}

void DecoderLayer::rotate(const LayerCall& call, void* qkv, bool inverse) const {
  const Architecture& a = architecture_;
  call.device.run(call.stream, Rope{.type = type_,
                                    .rows = call.rows,
                                    .heads = a.heads,
                                    .kv_heads = a.kv_heads,
                                    .head_dim = a.head_dim,
                                    .positions = call.positions,
                                    .cosine = call.cosine,
                                    .sine = call.sine,
                                    .inverse = inverse,
                                    .qkv = qkv});
}

const void* DecoderLayer::attended(const LayerCall& call, const StashView& items, Scratch& scratch) const {
  const Architecture& a = architecture_;
  if (!a.query_key_norm) return items.qkv;
  void* made = scratch.take(call.rows * a.qkv_width() * size_of(type_));
  call.device.run(call.stream, HeadNormForward{.type = type_,
                                               .rows = call.rows,
                                               .heads = a.heads,
                                               .kv_heads = a.kv_heads,
                                               .head_dim = a.head_dim,
                                               .epsilon = static_cast<float>(a.rms_epsilon),
                                               .qkv = items.qkv,
                                               .query_weight = weight(call, offsets_.query_norm),
                                               .key_weight = weight(call, offsets_.key_norm),
                                               .y = made});
  rotate(call, made, false);
  return made;
}

void DecoderLayer::output_projection(const LayerCall& call, const StashView& items) const {
  const Architecture& a = architecture_;
  call.device.copy(call.stream, items.mid, call.x, {call.rows * a.hidden * size_of(type_)});
  call.device.run(call.stream, LinearForward{.type = type_,
                                             .rows = call.rows,
                                             .slot_rows = call.slot_rows,
                                             .in = a.query_width(),
                                             .out = a.hidden,
                                             .x = items.core,
                                             .weight = weight(call, offsets_.output),
                                             .bias = weight(call, offsets_.output_bias),
                                             .y = items.mid,
                                             .accumulate = true});
}

void DecoderLayer::gate_up_half(const LayerCall& call, const StashView& items, Scratch& scratch) const {
  const Architecture& a = architecture_;
  const Bytes mark = scratch.mark();
  void* normed = scratch.take(call.rows * a.hidden * size_of(type_));
  call.device.run(call.stream, RmsNormForward{.type = type_,
                                              .rows = call.rows,
                                              .width = a.hidden,
                                              .epsilon = static_cast<float>(a.rms_epsilon),
                                              .x = items.mid,
                                              .weight = weight(call, offsets_.post_norm),
                                              .y = normed});
  call.device.run(call.stream, LinearForward{.type = type_,
                                             .rows = call.rows,
                                             .slot_rows = call.slot_rows,
                                             .in = a.hidden,
                                             .out = 2 * a.ffn,
                                             .x = normed,
                                             .weight = weight(call, offsets_.gate_up),
                                             .bias = weight(call, offsets_.gate_up_bias),
                                             .y = items.gate_up});
  scratch.release_to(mark);
}

void DecoderLayer::down_projection(const LayerCall& call, const StashView& items, void* y,
                                   Scratch& scratch) const {
  const Architecture& a = architecture_;
  const Bytes mark = scratch.mark();
  void* act = scratch.take(call.rows * a.ffn * size_of(type_));
  call.device.run(
      call.stream,
      SwigluForward{.type = type_, .rows = call.rows, .width = a.ffn, .gate_up = items.gate_up, .act = act});
  call.device.copy(call.stream, y, items.mid, {call.rows * a.hidden * size_of(type_)});
  call.device.run(call.stream, LinearForward{.type = type_,
                                             .rows = call.rows,
                                             .slot_rows = call.slot_rows,
                                             .in = a.ffn,
                                             .out = a.hidden,
                                             .x = act,
                                             .weight = weight(call, offsets_.down),
                                             .bias = weight(call, offsets_.down_bias),
                                             .y = y,
                                             .accumulate = true});
  scratch.release_to(mark);
}

void DecoderLayer::run_forward(const LayerCall& call, StashView items, void* y, Scratch& scratch,
                               const Attend& attend) const {
  items = complete(architecture_, type_, call.rows, items, scratch);
  attention_half(call, items, scratch, attend);
  output_projection(call, items);
  gate_up_half(call, items, scratch);
  down_projection(call, items, y, scratch);
}

void DecoderLayer::forward(const LayerCall& call, StashLevel level, std::byte* stash, void* y,
                           const CachePrefill& prefill) const {
  Scratch scratch(call.workspace, call.workspace_bytes);
  run_forward(call, stash_view(architecture_, type_, call.rows, level, stash, nullptr), y, scratch,
              {.prefill = &prefill});
}

void DecoderLayer::decode(const LayerCall& call, void* y, const CacheDecode& cache) const {
  Scratch scratch(call.workspace, call.workspace_bytes);
  run_forward(call, {}, y, scratch, {.decode = &cache});
}

void DecoderLayer::recompute(const LayerCall& call, StashLevel level, std::byte* stash, std::byte* recomputed,
                             bool full) const {
  Scratch scratch(call.workspace, call.workspace_bytes);
  const StashView items = stash_view(architecture_, type_, call.rows, level, stash, recomputed);
  if (!stash_contains(level, StashItem::qkv)) attention_half(call, items, scratch, {});
  if (!stash_contains(level, StashItem::mid)) output_projection(call, items);
  if (!stash_contains(level, StashItem::gate_up)) gate_up_half(call, items, scratch);
  if (full) {
    void* unused = scratch.take(call.rows * architecture_.hidden * size_of(type_));
    down_projection(call, items, unused, scratch);
  }
}

// Norms, biases and gaps: matrices are replaced by the first product.
void DecoderLayer::zero_between_matrices(Device& device, Stream& stream, float* accumulator) const {
  const Architecture& a = architecture_;
  std::int64_t done = 0;
  const auto zero_until = [&](std::int64_t offset) {
    if (offset > done) device.zero(stream, accumulator + done, {(offset - done) * 4});
  };
  for (const auto& [offset, elements] :
       {std::pair{offsets_.qkv, a.qkv_width() * a.hidden},
        std::pair{offsets_.output, a.hidden * a.query_width()},
        std::pair{offsets_.gate_up, 2 * a.ffn * a.hidden}, std::pair{offsets_.down, a.hidden * a.ffn}}) {
    zero_until(offset);
    done = offset + elements;
  }
  zero_until(elements_);
}

void DecoderLayer::backward(const LayerCall& call, const StashView& items, void* gradient, float* accumulator,
                            bool first) const {
  const Architecture& a = architecture_;
  Device& device = call.device;
  Stream& stream = call.stream;
  const std::int64_t rows = call.rows, slot_rows = call.slot_rows, size = size_of(type_);
  const auto epsilon = static_cast<float>(a.rms_epsilon);
  Scratch scratch(call.workspace, call.workspace_bytes);
  const auto sum = [&](std::int64_t offset) { return accumulator + offset; };
  const auto linear_gradients = [&](const void* dy, const void* x, std::int64_t in, std::int64_t out,
                                    std::int64_t offset, std::int64_t bias_offset, void* dx) {
    device.run(stream, LinearWeightGradient{.type = type_,
                                            .rows = rows,
                                            .slot_rows = slot_rows,
                                            .in = in,
                                            .out = out,
                                            .dy = dy,
                                            .x = x,
                                            .dweight = sum(offset),
                                            .accumulate = !first});
    if (bias_offset >= 0)
      device.run(stream, BiasGradient{.type = type_,
                                      .rows = rows,
                                      .slot_rows = slot_rows,
                                      .out = out,
                                      .dy = dy,
                                      .dbias = sum(bias_offset)});
    device.run(stream, LinearInputGradient{.type = type_,
                                           .rows = rows,
                                           .slot_rows = slot_rows,
                                           .in = in,
                                           .out = out,
                                           .dy = dy,
                                           .weight = weight(call, offset),
                                           .dx = dx});
  };
  if (first) zero_between_matrices(device, stream, accumulator);

  // MLP: act = silu(gate) * up is made again, it is cheaper than keeping it.
  void* dgate_up = scratch.take(rows * 2 * a.ffn * size);
  const Bytes after_dgate_up = scratch.mark();
  void* act = scratch.take(rows * a.ffn * size);
  void* dact = scratch.take(rows * a.ffn * size);
  device.run(stream, SwigluForward{
                         .type = type_, .rows = rows, .width = a.ffn, .gate_up = items.gate_up, .act = act});
  linear_gradients(gradient, act, a.ffn, a.hidden, offsets_.down, offsets_.down_bias, dact);
  device.run(stream, SwigluBackward{.type = type_,
                                    .rows = rows,
                                    .width = a.ffn,
                                    .gate_up = items.gate_up,
                                    .dact = dact,
                                    .dgate_up = dgate_up});
  scratch.release_to(after_dgate_up);
  void* normed = scratch.take(rows * a.hidden * size);
  void* dnormed = scratch.take(rows * a.hidden * size);
  device.run(stream, RmsNormForward{.type = type_,
                                    .rows = rows,
                                    .width = a.hidden,
                                    .epsilon = epsilon,
                                    .x = items.mid,
                                    .weight = weight(call, offsets_.post_norm),
                                    .y = normed});
  linear_gradients(dgate_up, normed, a.hidden, 2 * a.ffn, offsets_.gate_up, offsets_.gate_up_bias, dnormed);
  device.run(stream, RmsNormBackward{.type = type_,
                                     .rows = rows,
                                     .slot_rows = slot_rows,
                                     .width = a.hidden,
                                     .epsilon = epsilon,
                                     .x = items.mid,
                                     .weight = weight(call, offsets_.post_norm),
                                     .dy = dnormed,
                                     .residual = gradient,
                                     .dx = gradient,
                                     .dweight = sum(offsets_.post_norm)});

  // Attention; `gradient` is now that of `mid`.
  scratch.release_to(Bytes{0});
  void* dqkv = scratch.take(rows * a.qkv_width() * size);
  const Bytes after_dqkv = scratch.mark();
  void* dcore = scratch.take(rows * a.query_width() * size);
  auto* attention_workspace =
      static_cast<float*>(scratch.take(attention_backward_workspace(rows, a.heads).value));
  linear_gradients(gradient, items.core, a.query_width(), a.hidden, offsets_.output, offsets_.output_bias,
                   dcore);
  const void* qkv = attended(call, items, scratch);
  device.run(stream, AttentionBackward{.type = type_,
                                       .rows = rows,
                                       .slot_rows = slot_rows,
                                       .heads = a.heads,
                                       .kv_heads = a.kv_heads,
                                       .head_dim = a.head_dim,
                                       .qkv = qkv,
                                       .document_start = call.document_start,
                                       .core = items.core,
                                       .lse = items.lse,
                                       .dcore = dcore,
                                       .dqkv = dqkv,
                                       .workspace = attention_workspace,
                                       .window = call.window});
  rotate(call, dqkv, true);
  if (a.query_key_norm)
    device.run(stream, HeadNormBackward{.type = type_,
                                        .rows = rows,
                                        .slot_rows = slot_rows,
                                        .heads = a.heads,
                                        .kv_heads = a.kv_heads,
                                        .head_dim = a.head_dim,
                                        .epsilon = epsilon,
                                        .qkv = items.qkv,
                                        .query_weight = weight(call, offsets_.query_norm),
                                        .key_weight = weight(call, offsets_.key_norm),
                                        .dqkv = dqkv,
                                        .dquery_weight = sum(offsets_.query_norm),
                                        .dkey_weight = sum(offsets_.key_norm)});
  scratch.release_to(after_dqkv);
  normed = scratch.take(rows * a.hidden * size);
  dnormed = scratch.take(rows * a.hidden * size);
  device.run(stream, RmsNormForward{.type = type_,
                                    .rows = rows,
                                    .width = a.hidden,
                                    .epsilon = epsilon,
                                    .x = call.x,
                                    .weight = weight(call, offsets_.input_norm),
                                    .y = normed});
  linear_gradients(dqkv, normed, a.hidden, a.qkv_width(), offsets_.qkv, offsets_.qkv_bias, dnormed);
  device.run(stream, RmsNormBackward{.type = type_,
                                     .rows = rows,
                                     .slot_rows = slot_rows,
                                     .width = a.hidden,
                                     .epsilon = epsilon,
                                     .x = call.x,
                                     .weight = weight(call, offsets_.input_norm),
                                     .dy = dnormed,
                                     .residual = gradient,
                                     .dx = gradient,
                                     .dweight = sum(offsets_.input_norm)});
}

Bytes DecoderLayer::forward_workspace(std::int64_t rows) const {
  Scratch scratch(nullptr);
  const std::int64_t size = size_of(type_);
  complete(architecture_, type_, rows, {}, scratch);
  const Bytes mark = scratch.mark();
  scratch.take(rows * architecture_.hidden * size);
  scratch.release_to(mark);
  if (architecture_.query_key_norm) scratch.take(rows * architecture_.qkv_width() * size);
  scratch.release_to(mark);
  scratch.take(rows * architecture_.ffn * size);
  return scratch.peak();
}

Bytes DecoderLayer::recompute_workspace(std::int64_t rows) const {
  Scratch scratch(nullptr);
  const std::int64_t size = size_of(type_);
  if (architecture_.query_key_norm) scratch.take(rows * architecture_.qkv_width() * size);
  scratch.release_to(Bytes{0});
  scratch.take(rows * architecture_.hidden * size);
  scratch.take(rows * architecture_.ffn * size);
  return scratch.peak();
}

Bytes DecoderLayer::backward_workspace(std::int64_t rows) const {
  const Architecture& a = architecture_;
  const std::int64_t size = size_of(type_);
  Scratch mlp(nullptr), attention(nullptr);
  mlp.take(rows * 2 * a.ffn * size);
  const Bytes mark = mlp.mark();
  mlp.take(rows * a.ffn * size);
  mlp.take(rows * a.ffn * size);
  mlp.release_to(mark);
  mlp.take(rows * a.hidden * size);
  mlp.take(rows * a.hidden * size);
  attention.take(rows * a.qkv_width() * size);
  const Bytes inner = attention.mark();
  attention.take(rows * a.query_width() * size);
  attention.take(attention_backward_workspace(rows, a.heads).value);
  if (a.query_key_norm) attention.take(rows * a.qkv_width() * size);
  attention.release_to(inner);
  attention.take(rows * a.hidden * size);
  attention.take(rows * a.hidden * size);
  return std::max(mlp.peak(), attention.peak());
}

}  // namespace lazytrain
