// Softmax cross-entropy of one row of logits, and the gradient by the logits in the same sweep.
#pragma once

#include "device/kernels/lane_team.h"
#include "device/kernels/math.h"

namespace lazytrain::kernels {

// Returns loss = log(sum exp(x)) - x[target]; where dlogits is given, dlogits = (softmax(x) - onehot) *
// scale. dlogits may be logits. The row's largest logit is subtracted before anything is exponentiated.
// Sums of 50,000 terms in fp32 are biased by the terms that are lost: 4e-6 of the loss here, as in PyTorch,
// whose runs this reproduces to 3e-6 (docs/measurements/real-model.txt). Four accumulators halve the bias,
// and Adam's first steps turn the difference into 3e-5.
template <typename Team, typename T>
LAZYTRAIN_KERNEL typename Team::Real cross_entropy(const Team& team, std::int64_t vocab, std::int64_t target,
                                                   typename Team::Real scale, const T* logits, T* dlogits) {
  using V = typename Team::Value;
  using Real = typename Team::Real;
  const Real largest = team.maximum(vocab, [&](auto i) { return team.load(logits, i); });
  const V shift(largest);
  const Real total = team.plain_sum(vocab, [&](auto i) { return exp(team.load(logits, i) - shift); });
  const Real loss = log(V(total)).lane0() + (largest - widen(logits[target]));
  if (dlogits != nullptr) {
    const V inverse = V(1) / V(total);
    const V position(static_cast<Real>(target));
    team.each(vocab, [&](auto i) {
      const V p = exp(team.load(logits, i) - shift) * inverse;
      const V onehot = select_between(position, team.index(i), position, V(1), V(0));
      team.store(dlogits, i, (p - onehot) * V(scale));
    });
  }
  return loss;
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
