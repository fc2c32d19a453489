// The row kernels for one instruction set: types resolved, loops over the rows of a piece.
#include "device/cpu/isa/isa_kernels.h"
#include "device/cpu/isa/lanes.h"
#include "device/kernels/cross_entropy.h"
#include "device/kernels/elementwise.h"
#include "device/kernels/head_norm.h"
#include "device/kernels/rms_norm.h"

namespace lazytrain::LAZYTRAIN_ISA {
namespace {

constexpr kernels::LaneTeam<FloatLanes> kTeam;

template <typename T>
LAZYTRAIN_KERNEL const T* as(const void* p) {
  return static_cast<const T*>(p);
}
template <typename T>
LAZYTRAIN_KERNEL T* as(void* p) {
  return static_cast<T*>(p);
}

template <typename T>
void bias_gradient_of(const BiasGradient& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = 0; row < op.rows; row += op.slot_rows) {
    kernels::bias_gradient(kTeam, op.slot_rows, end - begin, op.out, as<T>(op.dy) + row * op.out + begin,
                           op.dbias + begin);
  }
}

template <typename T>
void rms_norm_weight_gradient_of(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                                 std::int64_t end) {
  for (std::int64_t row = 0; row < op.rows; row += op.slot_rows) {
    const std::int64_t at = row * op.width + begin;
    kernels::rms_norm_weight_gradient(kTeam, op.slot_rows, end - begin, op.width, as<T>(op.x) + at,
                                      as<T>(op.dy) + at, inverse + row, op.dweight + begin);
  }
}

template <typename T>
void rms_norm_forward_of(const RmsNormForward& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * op.width;
    kernels::rms_norm_forward(kTeam, op.width, op.epsilon, as<T>(op.x) + at, as<T>(op.weight),
                              as<T>(op.y) + at);
  }
}

template <typename T>
void rms_norm_inverse_of(const RmsNormBackward& op, float* inverse, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    inverse[row] = kernels::inverse_rms(kTeam, op.width, op.epsilon, as<T>(op.x) + row * op.width);
  }
}

template <typename T>
void rms_norm_backward_of(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                          std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * op.width;
    const T* residual = op.residual == nullptr ? nullptr : as<T>(op.residual) + at;
    kernels::rms_norm_backward(kTeam, op.width, inverse[row], as<T>(op.x) + at, as<T>(op.weight),
                               as<T>(op.dy) + at, residual, as<T>(op.dx) + at);
  }
}

template <typename T>
void head_norm_forward_of(const HeadNormForward& op, std::int64_t begin, std::int64_t end) {
  const kernels::HeadNormShape shape{op.heads, op.kv_heads, op.head_dim};
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t at = row * shape.row();
    kernels::head_norm_forward(kTeam, shape, op.epsilon, as<T>(op.qkv) + at, as<T>(op.query_weight),
                               as<T>(op.key_weight), as<T>(op.y) + at);
  }
}

template <typename T>
void head_norm_backward_of(const HeadNormBackward& op, std::int64_t begin, std::int64_t end, float* sums) {
  const kernels::HeadNormShape shape{op.heads, op.kv_heads, op.head_dim};
  const std::int64_t at = begin * shape.row();
  kernels::head_norm_backward(kTeam, shape, end - begin, op.epsilon, as<T>(op.qkv) + at,
                              as<T>(op.query_weight), as<T>(op.key_weight), as<T>(op.dqkv) + at, sums);
}

template <typename T>
void rope_of(const Rope& op, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = op.head_dim / 2;
  const std::int64_t stride = (op.heads + 2 * op.kv_heads) * op.head_dim;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t table = op.positions[row] * half;
    for (std::int64_t head = 0; head < op.heads + op.kv_heads; ++head) {
      kernels::rope(kTeam, half, op.inverse ? -1.0f : 1.0f, op.cosine + table, op.sine + table,
                    as<T>(op.qkv) + row * stride + head * op.head_dim);
    }
  }
}

template <typename T>
void swiglu_forward_of(const SwigluForward& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = as<T>(op.gate_up) + 2 * row * op.width;
    kernels::swiglu_forward(kTeam, op.width, gate, gate + op.width, as<T>(op.act) + row * op.width);
  }
}

template <typename T>
void swiglu_backward_of(const SwigluBackward& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* gate = as<T>(op.gate_up) + 2 * row * op.width;
    T* d_gate = as<T>(op.dgate_up) + 2 * row * op.width;
    kernels::swiglu_backward(kTeam, op.width, gate, gate + op.width, as<T>(op.dact) + row * op.width, d_gate,
                             d_gate + op.width);
  }
}

template <typename T>
void softmax_scores_of(const SoftmaxScores& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    if (op.target[row] < 0) continue;
    kernels::softmax_scores(kTeam, op.width, op.target[row] - op.first, as<T>(op.logits) + row * op.width,
                            op.fresh, op.scores + row * kSoftmaxScores);
  }
}

template <typename T>
void cross_entropy_gradient_of(const CrossEntropyGradient& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    T* d_logits = as<T>(op.dlogits) + row * op.width;
    if (op.target[row] < 0) {
      kTeam.each(op.width, [&](auto i) { kTeam.store(d_logits, i, FloatLanes(0)); });
    } else {
      kernels::cross_entropy_gradient(kTeam, op.width, op.target[row] - op.first, op.scale,
                                      op.scores + row * kSoftmaxScores, as<T>(op.logits) + row * op.width,
                                      d_logits);
    }
  }
}

template <typename T>
void round_of(const Round& op, std::int64_t begin, std::int64_t end) {
  kernels::round(kTeam, end - begin, op.x + begin, as<T>(op.out) + begin);
}

template <typename T>
void arg_max_of(const ArgMax& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    op.out[row] = static_cast<std::int32_t>(kernels::arg_max(kTeam, op.width, as<T>(op.x) + row * op.width));
  }
}

template <typename T>
void add_of(const Add& op, std::int64_t begin, std::int64_t end) {
  kernels::add(kTeam, end - begin, as<T>(op.a) + begin, as<T>(op.b) + begin, as<T>(op.out) + begin);
}

template <typename T>
void offload_gradient_of(const OffloadGradient& op, std::int64_t chunk) {
  const std::int64_t begin = chunk * kNormChunk;
  const std::int64_t n = kernels::smaller(kNormChunk, op.elements - begin);
  const double sum = kernels::convert_and_square(kTeam, n, op.src + begin, as<T>(op.dst) + begin);
  if (op.partial != nullptr) op.partial[chunk] = sum;
}

}  // namespace

void bias_gradient(const BiasGradient& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? bias_gradient_of<bfloat16>(op, begin, end)
                            : bias_gradient_of<float>(op, begin, end);
}
void rms_norm_weight_gradient(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                              std::int64_t end) {
  op.type == DataType::bf16 ? rms_norm_weight_gradient_of<bfloat16>(op, inverse, begin, end)
                            : rms_norm_weight_gradient_of<float>(op, inverse, begin, end);
}
void rms_norm_forward(const RmsNormForward& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? rms_norm_forward_of<bfloat16>(op, begin, end)
                            : rms_norm_forward_of<float>(op, begin, end);
}
void rms_norm_inverse(const RmsNormBackward& op, float* inverse, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? rms_norm_inverse_of<bfloat16>(op, inverse, begin, end)
                            : rms_norm_inverse_of<float>(op, inverse, begin, end);
}
void rms_norm_backward(const RmsNormBackward& op, const float* inverse, std::int64_t begin,
                       std::int64_t end) {
  op.type == DataType::bf16 ? rms_norm_backward_of<bfloat16>(op, inverse, begin, end)
                            : rms_norm_backward_of<float>(op, inverse, begin, end);
}
void head_norm_forward(const HeadNormForward& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? head_norm_forward_of<bfloat16>(op, begin, end)
                            : head_norm_forward_of<float>(op, begin, end);
}
void head_norm_backward(const HeadNormBackward& op, std::int64_t begin, std::int64_t end, float* sums) {
  op.type == DataType::bf16 ? head_norm_backward_of<bfloat16>(op, begin, end, sums)
                            : head_norm_backward_of<float>(op, begin, end, sums);
}
void head_norm_weight_gradient(const HeadNormBackward& op, std::int64_t pieces, const float* sums) {
  const std::int64_t piece = 2 * op.head_dim;
  for (std::int64_t row = 0; row < op.rows; row += op.slot_rows, sums += pieces * piece) {
    kernels::add_piece_sums(kTeam, pieces, op.head_dim, piece, sums, op.dquery_weight);
    kernels::add_piece_sums(kTeam, pieces, op.head_dim, piece, sums + op.head_dim, op.dkey_weight);
  }
}
void rope(const Rope& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? rope_of<bfloat16>(op, begin, end) : rope_of<float>(op, begin, end);
}
void swiglu_forward(const SwigluForward& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? swiglu_forward_of<bfloat16>(op, begin, end)
                            : swiglu_forward_of<float>(op, begin, end);
}
void swiglu_backward(const SwigluBackward& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? swiglu_backward_of<bfloat16>(op, begin, end)
                            : swiglu_backward_of<float>(op, begin, end);
}
void softmax_scores(const SoftmaxScores& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? softmax_scores_of<bfloat16>(op, begin, end)
                            : softmax_scores_of<float>(op, begin, end);
}
void cross_entropy_loss(const CrossEntropyLoss& op, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row)
    op.loss[row] =
        op.target[row] < 0 ? 0.0F : kernels::cross_entropy_loss(kTeam, op.scores + row * kSoftmaxScores);
}
void cross_entropy_gradient(const CrossEntropyGradient& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? cross_entropy_gradient_of<bfloat16>(op, begin, end)
                            : cross_entropy_gradient_of<float>(op, begin, end);
}
void round(const Round& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? round_of<bfloat16>(op, begin, end) : round_of<float>(op, begin, end);
}
void arg_max(const ArgMax& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? arg_max_of<bfloat16>(op, begin, end) : arg_max_of<float>(op, begin, end);
}
void add(const Add& op, std::int64_t begin, std::int64_t end) {
  op.type == DataType::bf16 ? add_of<bfloat16>(op, begin, end) : add_of<float>(op, begin, end);
}
void offload_gradient(const OffloadGradient& op, std::int64_t chunk) {
  op.type == DataType::bf16 ? offload_gradient_of<bfloat16>(op, chunk)
                            : offload_gradient_of<float>(op, chunk);
}

}  // namespace lazytrain::LAZYTRAIN_ISA
