#include "runtime/layer_forward.h"

#include <algorithm>
#include <cstring>

#include "layers/decoder_layer.h"
#include "layers/head.h"
#include "layers/scratch.h"
#include "model/rope.h"
#include "runtime/host_ops.h"

namespace lazytrain::test {
namespace {

class ForwardRun {
 public:
  ForwardRun(const ModelFolder& folder, DataType type, const Tokens& tokens)
      : folder_(folder),
        architecture_(folder.architecture()),
        type_(type),
        tokens_(tokens),
        rows_(tokens.slots * tokens.slot_tokens),
        device_(make_cpu_device({.compute_threads = 2, .host_threads = 1})),
        stream_(device_->create_stream(StreamKind::compute)),
        arena_(device_->allocate(Tier::device, Bytes{std::int64_t{256} << 20})),
        memory_(arena_.data, arena_.size) {
    const std::int64_t longest = *std::max_element(tokens.positions.begin(), tokens.positions.end());
    const std::int64_t table = (longest + 1) * architecture_.head_dim / 2;
    cosine_ = static_cast<float*>(memory_.take(table * 4));
    sine_ = static_cast<float*>(memory_.take(table * 4));
    fill_rope_tables(architecture_.rope, architecture_.head_dim, longest + 1,
                     {cosine_, static_cast<std::size_t>(table)}, {sine_, static_cast<std::size_t>(table)});
    positions_ = copy_of(tokens.positions);
    document_start_ = copy_of(tokens.document_start);
  }

  LayerForward run() {
    LayerForward result;
    const std::int64_t width = architecture_.hidden;
    std::byte* x = take(rows_ * width);
    gather_embedding(device_->host_pool(), type_, width, parameters(0), tokens_.tokens, x);
    result.hidden.push_back(floats(x, rows_ * width));
    const DecoderLayer layer(architecture_, type_);
    const Bytes workspace = layer.forward_workspace(rows_);
    auto* scratch = static_cast<std::byte*>(memory_.take(workspace.value));
    for (std::int64_t l = 0; l < architecture_.layers; ++l) {
      std::byte* y = take(rows_ * width);
      layer.forward({.device = *device_,
                     .stream = *stream_,
                     .rows = rows_,
                     .slot_rows = tokens_.slot_tokens,
                     .weights = parameters(static_cast<std::size_t>(l) + 1),
                     .x = x,
                     .positions = positions_,
                     .document_start = document_start_,
                     .cosine = cosine_,
                     .sine = sine_,
                     .workspace = scratch,
                     .workspace_bytes = workspace,
                     .window = architecture_.window_of(architecture_.kind_of(l))},
                    StashLevel::none, nullptr, y);
      result.hidden.push_back(floats(y, rows_ * width));
      x = y;
    }
    head(x, result);
    return result;
  }

 private:
  std::byte* take(std::int64_t elements) {
    return static_cast<std::byte*>(memory_.take(elements * size_of(type_)));
  }
  std::int32_t* copy_of(const std::vector<std::int32_t>& values) {
    auto* copy = static_cast<std::int32_t*>(memory_.take(std::ssize(values) * 4));
    std::copy(values.begin(), values.end(), copy);
    return copy;
  }
  std::byte* parameters(std::size_t group) {
    std::vector<float> values(static_cast<std::size_t>(folder_.groups()[group].elements));
    folder_.read_group(group, values);
    std::byte* stored = take(std::ssize(values));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (type_ == DataType::f32)
        reinterpret_cast<float*>(stored)[i] = values[i];
      else
        reinterpret_cast<bfloat16*>(stored)[i] = master_to_bfloat16(values[i], i);
    }
    return stored;
  }
  std::vector<float> floats(const std::byte* data, std::int64_t elements) {
    device_->synchronize(*stream_);
    std::vector<float> values(static_cast<std::size_t>(elements));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = type_ == DataType::f32 ? reinterpret_cast<const float*>(data)[i]
                                         : to_float(reinterpret_cast<const bfloat16*>(data)[i]);
    return values;
  }

  void head(std::byte* x, LayerForward& result) {
    const std::size_t last = folder_.groups().size() - 1;
    const ParameterGroup& group = folder_.groups()[last];
    const std::byte* weights = parameters(last);
    const std::byte* norm = weights + group.tensors[0].offset * size_of(type_);
    const std::byte* projection =
        architecture_.tied_head ? parameters(0) : weights + group.tensors[1].offset * size_of(type_);
    const std::int64_t width = architecture_.hidden, vocab = architecture_.vocab;
    std::byte* normed = take(rows_ * width);
    device_->run(*stream_, RmsNormForward{.type = type_,
                                          .rows = rows_,
                                          .width = width,
                                          .epsilon = static_cast<float>(architecture_.rms_epsilon),
                                          .x = x,
                                          .weight = norm,
                                          .y = normed});
    result.final_norm = floats(normed, rows_ * width);
    std::vector<std::int32_t> every_row(static_cast<std::size_t>(rows_));
    for (std::int64_t i = 0; i < rows_; ++i)
      every_row[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
    const Head head(architecture_, type_);
    const Bytes workspace = head.workspace(rows_);
    std::byte* logits = take(rows_ * vocab);
    head.logits({.device = *device_,
                 .stream = *stream_,
                 .slots = 1,
                 .slot_tokens = rows_,
                 .norm_weight = norm,
                 .projection = projection,
                 .x = x,
                 .rows = copy_of(every_row),
                 .targets = nullptr,
                 .counts = {},
                 .loss = nullptr,
                 .workspace = static_cast<std::byte*>(memory_.take(workspace.value)),
                 .workspace_bytes = workspace},
                rows_, logits);
    result.logits = floats(logits, rows_ * vocab);
  }

  const ModelFolder& folder_;
  const Architecture& architecture_;
  DataType type_;
  const Tokens& tokens_;
  std::int64_t rows_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Stream> stream_;
  Arena arena_;
  Scratch memory_;
  float *cosine_ = nullptr, *sine_ = nullptr;
  std::int32_t *positions_ = nullptr, *document_start_ = nullptr;
};

}  // namespace

LayerForward layer_forward(const ModelFolder& folder, DataType type, const Tokens& tokens) {
  return ForwardRun(folder, type, tokens).run();
}

}  // namespace lazytrain::test
