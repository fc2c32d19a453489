#include "optim/schedule.h"

#include <gtest/gtest.h>

#include <array>

#include "core/error.h"

namespace lazytrain {
namespace {

// Reference values of transformers' get_cosine_schedule_with_warmup: 10 steps, 2 of warm-up.
TEST(Schedule, CosineWithWarmup) {
  constexpr std::array<double, 11> kExpected{0,  .5,      1,       .96194,   .853553, .691342,
                                             .5, .308658, .146447, .0380602, 0};
  for (std::int64_t step = 0; step <= 10; ++step) {
    EXPECT_NEAR(learning_rate(Schedule::cosine, step, 10, 2, 1e-5),
                kExpected[static_cast<std::size_t>(step)] * 1e-5, 1e-11)
        << step;
  }
}

TEST(Schedule, CosineOfTheTrajectoryGolden) {
  constexpr std::array<double, 5> kExpected{0, 5e-4, 1e-3, 7.5e-4, 0.0002500000000000001};
  for (std::int64_t step = 0; step < 5; ++step) {
    EXPECT_DOUBLE_EQ(learning_rate(Schedule::cosine, step, 5, 2, 1e-3),
                     kExpected[static_cast<std::size_t>(step)]);
  }
}

TEST(Schedule, LinearFallsToZero) {
  EXPECT_DOUBLE_EQ(learning_rate(Schedule::linear, 0, 20, 0, 1e-4), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(Schedule::linear, 1, 20, 0, 1e-4), 9.5e-5);
  EXPECT_DOUBLE_EQ(learning_rate(Schedule::linear, 20, 20, 0, 1e-4), 0);
  EXPECT_DOUBLE_EQ(learning_rate(Schedule::linear, 1, 10, 4, 1.0), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(Schedule::linear, 7, 10, 4, 1.0), 0.5);
}

TEST(Schedule, ConstantIgnoresWarmupAndItsVariantDoesNot) {
  EXPECT_EQ(learning_rate(Schedule::constant, 0, 10, 4, 3e-4), 3e-4);
  EXPECT_EQ(learning_rate(Schedule::constant_with_warmup, 0, 10, 4, 3e-4), 0);
  EXPECT_EQ(learning_rate(Schedule::constant_with_warmup, 2, 10, 4, 3e-4), 1.5e-4);
  EXPECT_EQ(learning_rate(Schedule::constant_with_warmup, 9, 10, 4, 3e-4), 3e-4);
}

TEST(Schedule, StaysAtZeroBehindItsEnd) {
  EXPECT_EQ(learning_rate(Schedule::cosine, 15, 10, 2, 1.0), 0);
  EXPECT_EQ(learning_rate(Schedule::linear, 15, 10, 2, 1.0), 0);
}

TEST(Schedule, OneStepAndAllWarmup) {
  EXPECT_EQ(learning_rate(Schedule::cosine, 0, 1, 0, 2.0), 2.0);
  EXPECT_EQ(learning_rate(Schedule::cosine, 2, 4, 4, 1.0), 0.5);
}

TEST(WarmupSteps, RatioRoundsUpAndStepsWin) {
  EXPECT_EQ(warmup_step_count(0, 0.1, 101), 11);
  EXPECT_EQ(warmup_step_count(0, 0.0, 101), 0);
  EXPECT_EQ(warmup_step_count(7, 0.1, 101), 7);
  EXPECT_EQ(warmup_step_count(0.03, 0.1, 100), 3);  // below 1: a ratio
}

TEST(ScheduleNames, RoundTripAndRefusal) {
  for (const char* name : {"linear", "cosine", "constant", "constant_with_warmup"}) {
    EXPECT_STREQ(to_string(schedule_from(name, "key")), name);
  }
  try {
    (void)schedule_from("cosin", "run.yaml:3: lr_scheduler_type");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(),
                 "run.yaml:3: lr_scheduler_type: 'cosin' is not a schedule; use linear, cosine, constant or "
                 "constant_with_warmup");
  }
}

}  // namespace
}  // namespace lazytrain
