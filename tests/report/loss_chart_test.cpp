#include "report/loss_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;
using testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(LossChart, ReadsTheHistory) {
  const LossCurves curves = loss_curves(
      R"({"log_history": [{"loss": 2.5, "step": 10}, {"loss": null, "step": 20}, {"eval_loss": 2.0, "step": 20},
          {"train_loss": 1.0, "step": 20}]})",
      "state");
  ASSERT_EQ(curves.training.size(), 1U);
  EXPECT_EQ(curves.training[0].step, 10);
  EXPECT_EQ(curves.training[0].loss, 2.5);
  ASSERT_EQ(curves.evaluation.size(), 1U);
  EXPECT_EQ(curves.evaluation[0].loss, 2.0);
  EXPECT_THROW((void)loss_curves("[]", "state"), Error);
}

TEST(LossChart, SmoothingIsAWeightedMean) {
  const std::vector<LossPoint> flat(100, {.step = 1, .loss = 3});
  for (const LossPoint& point : smoothed(flat)) EXPECT_DOUBLE_EQ(point.loss, 3);
  // Two points, of which each weighs half as much as the next: (1 * 1 + 2 * 4) / 3.
  const std::vector<LossPoint> two = smoothed({{.step = 1, .loss = 1}, {.step = 2, .loss = 4}});
  EXPECT_DOUBLE_EQ(two[0].loss, 1);
  EXPECT_DOUBLE_EQ(two[1].loss, 3);
}

TEST(LossChart, HasAxesAndAllCurves) {
  const std::string chart = loss_chart({.training = {{.step = 0, .loss = 4}, {.step = 100, .loss = 1}},
                                        .evaluation = {{.step = 50, .loss = 2}}},
                                       "a <run> & more");
  for (const char* part :
       {"<svg xmlns=\"http://www.w3.org/2000/svg\"", ">step</text>", ">loss</text>", ">training</text>",
        ">training, smoothed</text>", ">evaluation</text>", ">100</text>", ">4</text>",
        "a &lt;run> &amp; more", "polyline class=\"smoothed\""})
    EXPECT_THAT(chart, HasSubstr(part));
  EXPECT_THAT(chart, HasSubstr("<polyline class=\"training\" points=\"72.0,"));
  EXPECT_THAT(chart, HasSubstr("<circle class=\"evaluation\" cx=\"476.0\""));  // half-way
  for (const char* outside : {"href", "script", "nan", "inf"}) EXPECT_THAT(chart, Not(HasSubstr(outside)));
}

TEST(LossChart, OnePointAndEqualLossesCanBeDrawn) {
  for (const double loss : {0.0, 1.0, 1e-12, 1e30}) {
    const std::string chart = loss_chart({.training = {{.step = 7, .loss = loss}}, .evaluation = {}}, "one");
    EXPECT_THAT(chart, HasSubstr("<circle class=\"training\""));
    EXPECT_THAT(chart, Not(HasSubstr("nan")));
    EXPECT_THAT(chart, Not(HasSubstr(">evaluation<")));
    EXPECT_LT(chart.size(), 10000U);
  }
  EXPECT_EQ(loss_chart({}, "none"), "");
}

TEST(LossChart, ManyPointsAreThinnedButSpikesStay) {
  LossCurves curves;
  for (std::int64_t step = 1; step <= 100000; ++step)
    curves.training.push_back({.step = step, .loss = step == 77777 ? 50.0 : 1.0});
  const std::string chart = loss_chart(curves, "long");
  EXPECT_LT(count(chart, ","), 6000U);
  EXPECT_THAT(chart, HasSubstr(">50</text>"));
  LossCurves without = curves;
  without.training[77776].loss = 1.0;
  EXPECT_NE(chart, loss_chart(without, "long"));
}

}  // namespace
}  // namespace lazytrain
