#include "optim/clipping.h"

#include <algorithm>
#include <cmath>

namespace lazytrain {

double sum_of_squares(std::span<const double> partials, double start) {
  double sum = start;
  for (const double partial : partials) sum += partial;
  return sum;
}

double gradient_norm(double sum_of_squares) {
  return std::sqrt(sum_of_squares);
}

double clip_factor(double norm, double max_norm) {
  if (max_norm == 0.0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace lazytrain
