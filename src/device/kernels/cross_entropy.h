// Softmax cross-entropy of one row whose logits come in blocks of the vocabulary. All blocks of a row are
// first scored, in order; then each gives its part of the gradient.
#pragma once

#include "device/kernels/lane_team.h"
#include "device/kernels/math.h"

namespace lazytrain::kernels {

// scores[0] = the largest logit x of the blocks so far, scores[1] = sum of exp(x - largest), scores[2] = the
// target's logit. `target` counts from the block's first token. The largest logit is subtracted before
// anything is exponentiated; a block that holds NaN, or an infinity beside it, makes the sum NaN. A block's
// sum has one accumulator, so that no more than a block's terms (a sixteenth of the vocabulary) are ever
// added to it in fp32.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void softmax_scores(const Team& team, std::int64_t width, std::int64_t target,
                                     const T* logits, bool fresh, typename Team::Real* scores) {
  using V = typename Team::Value;
  using Real = typename Team::Real;
  const Real lowest = static_cast<Real>(-__builtin_inff());
  const Real block_largest = team.maximum(width, [&](auto i) { return team.load(logits, i); });
  const V shift(block_largest == lowest ? Real(0) : block_largest);
  const Real block_sum = team.plain_sum(width, [&](auto i) { return exp(team.load(logits, i) - shift); });
  if (target >= 0 && target < width) scores[2] = widen(logits[target]);
  if (fresh) {
    scores[0] = block_largest;
    scores[1] = block_sum;
    return;
  }
  const Real largest = scores[0] > block_largest ? scores[0] : block_largest;
  if (largest == lowest) {  // nothing but infinities below 0 so far, or NaN
    scores[1] += block_sum;
    return;
  }
  scores[1] =
      scores[1] * exp(V(scores[0] - largest)).lane0() + block_sum * exp(V(block_largest - largest)).lane0();
  scores[0] = largest;
}

// log(sum of exp(x)) - x[target].
template <typename Team>
LAZYTRAIN_KERNEL typename Team::Real cross_entropy_loss(const Team&, const typename Team::Real* scores) {
  return log(typename Team::Value(scores[1])).lane0() + (scores[0] - scores[2]);
}

// dlogits = (softmax(x) - onehot) * scale of one block; dlogits may be logits.
template <typename Team, typename T>
LAZYTRAIN_KERNEL void cross_entropy_gradient(const Team& team, std::int64_t width, std::int64_t target,
                                             typename Team::Real scale, const typename Team::Real* scores,
                                             const T* logits, T* dlogits) {
  using V = typename Team::Value;
  const V shift(scores[0]), inverse = V(1) / V(scores[1]);
  const V position(static_cast<typename Team::Real>(target));
  team.each(width, [&](auto i) {
    const V p = exp(team.load(logits, i) - shift) * inverse;
    const V onehot = select_between(position, team.index(i), position, V(1), V(0));
    team.store(dlogits, i, (p - onehot) * V(scale));
  });
}

// The lowest index that holds the row's largest value; 0 where every value is NaN.
template <typename Team, typename T>
LAZYTRAIN_KERNEL std::int64_t arg_max(const Team& team, std::int64_t width, const T* x) {
  const auto largest = team.maximum(width, [&](auto i) { return team.load(x, i); });
  for (std::int64_t i = 0; i < width; ++i) {
    if (widen(x[i]) == largest) return i;
  }
  return 0;
}

}  // namespace lazytrain::kernels
