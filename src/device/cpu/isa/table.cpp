// The table through which the rest of the program reaches the kernels of one instruction set.
#include "device/cpu/isa/isa_kernels.h"

namespace lazytrain::LAZYTRAIN_ISA {

const cpu::KernelTable kKernels{
    .bias_gradient = bias_gradient,
    .rms_norm_weight_gradient = rms_norm_weight_gradient,
    .rms_norm_forward = rms_norm_forward,
    .rms_norm_inverse = rms_norm_inverse,
    .rms_norm_backward = rms_norm_backward,
    .head_norm_forward = head_norm_forward,
    .head_norm_backward = head_norm_backward,
    .rope = rope,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .softmax_scores = softmax_scores,
    .cross_entropy_loss = cross_entropy_loss,
    .cross_entropy_gradient = cross_entropy_gradient,
    .arg_max = arg_max,
    .head_norm_weight_gradient = head_norm_weight_gradient,
    .round = round,
    .add = add,
    .offload_gradient = offload_gradient,
    .attention_forward = attention_forward,
    .attention_delta = attention_delta,
    .attention_backward_whole = attention_backward_whole,
    .attention_backward_keys = attention_backward_keys,
    .attention_backward_queries = attention_backward_queries,
    .attention_decode = attention_decode,
};

}  // namespace lazytrain::LAZYTRAIN_ISA
