// The global gradient norm and the clip factor. The norm's partial sums are taken while gradients leave the
// device (device/operations.h: OffloadGradient); here they only meet, in a fixed order, so that the norm
// depends on the gradients' values and on nothing else. The factor is applied inside the update sweep
// (optim/adamw.h): clipping costs no pass over the gradients.
#pragma once

#include <span>

namespace lazytrain {

// Sum of fp64 partial sums of squares, added one after the other. Call it once with all partials of a step
// (in group order), or chain calls with `start`.
[[nodiscard]] double sum_of_squares(std::span<const double> partials, double start = 0.0);

// The L2 norm that belongs to a sum of squares. Not finite where any gradient is not.
[[nodiscard]] double gradient_norm(double sum_of_squares);

// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; max_norm = 0 means no clipping.
[[nodiscard]] double clip_factor(double norm, double max_norm);

}  // namespace lazytrain
