// The losses of a run as a picture (plot_loss): one SVG file that needs nothing beside it, with the loss of
// every logging event, the same smoothed, the evaluations, axes and a legend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

struct LossPoint {
  std::int64_t step = 0;
  double loss = 0;
};
struct LossCurves {
  std::vector<LossPoint> training, evaluation;
};

// What the log_history of a trainer_state.json says; losses that were not finite are left out.
// Error(model_file) naming `where` where it is none.
[[nodiscard]] LossCurves loss_curves(std::string_view trainer_state, const std::string& where);

// Exponential moving average, the first values weighted as if there had been no others before: half of the
// weight lies on the last fortieth of the points.
[[nodiscard]] std::vector<LossPoint> smoothed(const std::vector<LossPoint>& points);

// `title` stands above it. Empty where there are no points at all.
[[nodiscard]] std::string loss_chart(const LossCurves& curves, std::string_view title);

}  // namespace lazytrain
