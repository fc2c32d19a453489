#include "report/loss_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "formats/json.h"

namespace lazytrain {
namespace {

constexpr double kWidth = 900, kHeight = 520;
constexpr double kLeft = 72, kRight = 20, kTop = 52, kBottom = 56;
constexpr std::size_t kMostPoints = 2000;  // of a curve: more are not seen, and make the file large

// A round number (1, 2 or 5 times a power of ten) such that `range` has about `wanted` of it.
double round_step(double range, int wanted) {
  const double rough = range / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * 0.999) return factor * power;
  return 10 * power;
}

// From data to the picture.
struct Axis {
  double low = 0, high = 1, from = 0, to = 1, step = 1;
  [[nodiscard]] double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Axis steps_axis(double first, double last) {
  const double high = std::max(last, first + 1);
  return {.low = first,
          .high = high,
          .from = kLeft,
          .to = kWidth - kRight,
          .step = std::max(1.0, round_step(high - first, 8))};
}

// From round number to round number.
Axis loss_axis(double lowest, double highest) {
  const double margin = std::max({(highest - lowest) * 0.02, std::abs(highest) * 1e-3, 1e-9});
  const double step = round_step(highest - lowest + 2 * margin, 6);
  return {.low = std::floor((lowest - margin) / step) * step,
          .high = std::ceil((highest + margin) / step) * step,
          .from = kHeight - kBottom,
          .to = kTop,
          .step = step};
}

// Of many points the lowest and the highest of each of a thousand stretches: what sticks out stays visible.
std::vector<LossPoint> thinned(const std::vector<LossPoint>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<LossPoint> kept;
  const std::size_t stretches = kMostPoints / 2;
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(i * points.size() / stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((i + 1) * points.size() / stretches);
    auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.loss < b.loss; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';  // XML has no such characters
    else
      out += c;
  }
  return out;
}

std::string curve(const std::vector<LossPoint>& points, const Axis& x, const Axis& y, std::string_view kind) {
  std::string list;
  for (const LossPoint& point : thinned(points))
    list += fmt::format("{}{:.1f},{:.1f}", list.empty() ? "" : " ", x.at(static_cast<double>(point.step)),
                        y.at(point.loss));
  std::string out = fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", kind, list);
  if (points.size() == 1 || kind == "evaluation") {  // single points have no line; evaluations are few
    for (const LossPoint& point : thinned(points))
      out += fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", kind,
                         x.at(static_cast<double>(point.step)), y.at(point.loss));
  }
  return out;
}

std::string loss_label(double loss, double step) {
  if (std::abs(loss) < step * 1e-6) return "0";
  if (std::abs(loss) >= 1e6 || step < 1e-6) return fmt::format("{:.3g}", loss);
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  return fmt::format("{:.{}f}", loss, digits);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string out;
  const auto first = static_cast<std::int64_t>(std::ceil(x.low / x.step));
  const auto last = static_cast<std::int64_t>(std::floor(x.high / x.step + 1e-6));
  for (std::int64_t tick = first; tick <= last; ++tick) {
    const double step = static_cast<double>(tick) * x.step, at = x.at(step);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:.0f}</text>\n",
        at, y.to, y.from, y.from + 18, step);
  }
  const auto lines = static_cast<int>(std::lround((y.high - y.low) / y.step));
  for (int i = 0; i <= lines; ++i) {
    const double loss = y.low + i * y.step;
    out += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        x.from, x.to, y.at(loss), x.from - 8, y.at(loss) + 4, loss_label(loss, y.step));
  }
  out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">step</text>\n", (x.from + x.to) / 2,
                     kHeight - 14);
  const double middle = (y.from + y.to) / 2;
  out += fmt::format(
      "<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 16 "
      "{0:.1f})\">loss</text>\n",
      middle);
  return out;
}

std::string legend(const LossCurves& curves) {
  std::string out;
  double at = kLeft;
  const auto entry = [&](std::string_view kind, std::string_view name) {
    out += fmt::format(
        "<line class=\"{0}\" x1=\"{1}\" y1=\"40\" x2=\"{2}\" y2=\"40\"/><text x=\"{3}\" "
        "y=\"44\">{4}</text>\n",
        kind, at, at + 24, at + 30, name);
    at += 46 + 7.0 * static_cast<double>(name.size());
  };
  if (!curves.training.empty()) {
    entry("training", "training");
    entry("smoothed", "training, smoothed");
  }
  if (!curves.evaluation.empty()) entry("evaluation", "evaluation");
  return out;
}

constexpr const char* kStyle =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-size:15px}"
    "line,polyline{fill:none}.grid{stroke:#ddd}"
    "polyline.training,line.training{stroke:#9cbfe6;stroke-width:1.2}circle.training{fill:#9cbfe6}"
    "polyline.smoothed,line.smoothed{stroke:#1f5fa8;stroke-width:2}circle.smoothed{fill:#1f5fa8}"
    "polyline.evaluation,line.evaluation{stroke:#d1661c;stroke-width:2}circle.evaluation{fill:#d1661c}"
    "</style>\n";

}  // namespace

LossCurves loss_curves(std::string_view trainer_state, const std::string& where) {
  const nlohmann::json state = parse_json(trainer_state, where, ExitCode::model_file);
  const auto history = state.is_object() ? state.find("log_history") : state.end();
  if (!state.is_object() || history == state.end() || !history->is_array())
    fail(ExitCode::model_file, "{}: no list 'log_history' whose losses could be drawn", where);
  LossCurves curves;
  for (const nlohmann::json& entry : *history) {
    const auto step = entry.is_object() ? entry.find("step") : entry.end();
    if (!entry.is_object() || step == entry.end() || !step->is_number_integer()) continue;
    const auto add = [&](const char* key, std::vector<LossPoint>& points) {
      const auto loss = entry.find(key);
      if (loss == entry.end() || !loss->is_number() || !std::isfinite(loss->get<double>())) return;
      points.push_back({.step = step->get<std::int64_t>(), .loss = loss->get<double>()});
    };
    add("loss", curves.training);
    add("eval_loss", curves.evaluation);
  }
  return curves;
}

std::vector<LossPoint> smoothed(const std::vector<LossPoint>& points) {
  const double half = std::max(1.0, static_cast<double>(points.size()) / 40);
  const double keep = std::pow(0.5, 1 / half);
  double sum = 0, weight = 0;
  std::vector<LossPoint> result;
  result.reserve(points.size());
  for (const LossPoint& point : points) {
    sum = keep * sum + (1 - keep) * point.loss;
    weight = keep * weight + (1 - keep);
    result.push_back({.step = point.step, .loss = sum / weight});
  }
  return result;
}

std::string loss_chart(const LossCurves& curves, std::string_view title) {
  std::vector<LossPoint> all = curves.training;
  all.insert(all.end(), curves.evaluation.begin(), curves.evaluation.end());
  if (all.empty()) return "";
  const auto [first, last] = std::ranges::minmax_element(all, {}, &LossPoint::step);
  const auto [lowest, highest] = std::ranges::minmax_element(all, {}, &LossPoint::loss);
  const Axis x = steps_axis(static_cast<double>(first->step), static_cast<double>(last->step));
  const Axis y = loss_axis(lowest->loss, highest->loss);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"loss by step\">\n",
      kWidth, kHeight);
  out += kStyle;
  out += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  out += fmt::format("<text class=\"title\" x=\"{}\" y=\"24\">{}</text>\n", kLeft, escaped(title));
  out += grid(x, y);
  if (!curves.training.empty()) {
    out += curve(curves.training, x, y, "training");
    out += curve(smoothed(curves.training), x, y, "smoothed");
  }
  if (!curves.evaluation.empty()) out += curve(curves.evaluation, x, y, "evaluation");
  return out + legend(curves) + "</svg>\n";
}

}  // namespace lazytrain
