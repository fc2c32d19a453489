#include "training/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lazytrain {
namespace {

using testing::HasSubstr;
using testing::Not;

// A clock that stands until it is set, and a page that keeps what was written.
struct Screen {
  Seconds now = 5000;
  std::string text;

  ProgressOptions options(std::int64_t total, std::int64_t done) {
    return {.total_steps = total,
            .steps_done = done,
            .clock = [this] { return now; },
            .output = [this](std::string_view piece) { text += piece; }};
  }
};

TEST(Progress, AfterResumeTheRestIsUnknownThenFromThisSessionAlone) {
  Screen screen;
  ProgressOptions options = screen.options(1000, 900);
  options.terminal = true;
  Progress progress(options);
  EXPECT_EQ(progress.remaining(), std::nullopt);
  progress.start();
  EXPECT_THAT(screen.text, HasSubstr("step 900/1000"));
  EXPECT_THAT(screen.text, HasSubstr("ETA unknown"));
  for (int step = 0; step < 10; ++step) {
    screen.now += 6;
    progress.step({.loss = 2.5, .lr = 1e-4, .tokens = 1200, .slots = 4, .seconds = 6});
  }
  ASSERT_TRUE(progress.remaining());
  EXPECT_DOUBLE_EQ(*progress.remaining(), 540);
  EXPECT_DOUBLE_EQ(progress.elapsed(), 60);
  EXPECT_THAT(screen.text, HasSubstr("step 910/1000"));
  EXPECT_THAT(screen.text, HasSubstr("ETA 9 min 00 s"));
}

TEST(Progress, SpeedCountsRealTokensAndStepTimeOnly) {
  Screen screen;
  Progress progress(screen.options(10, 0));
  screen.now += 100;  // an evaluation
  progress.step({.tokens = 900, .slots = 2, .seconds = 3});
  progress.step({.tokens = 300, .slots = 2, .seconds = 1});
  EXPECT_DOUBLE_EQ(progress.tokens_per_second(), 300);
  EXPECT_DOUBLE_EQ(progress.slots_per_second(), 1);
  EXPECT_EQ(progress.tokens(), 1200);
  EXPECT_DOUBLE_EQ(*progress.remaining(), 400);  // wall-clock, evaluation included
}

TEST(Progress, PlainLinesEveryFewStepsAndAtTheEnd) {
  Screen screen;
  ProgressOptions options = screen.options(5, 0);
  options.line_every = 2;
  {
    Progress progress(options);
    progress.start();
    for (int step = 0; step < 5; ++step) {
      screen.now += 2;
      progress.step({.loss = 0.8228, .lr = 9.5e-5, .tokens = 100, .slots = 1, .seconds = 2});
    }
  }
  EXPECT_EQ(screen.text,
            "step 2/5  loss 0.8228  lr 9.50e-05  50 tok/s  0.50 slots/s  ETA 6.0 s\n"
            "step 4/5  loss 0.8228  lr 9.50e-05  50 tok/s  0.50 slots/s  ETA 2.0 s\n"
            "step 5/5  loss 0.8228  lr 9.50e-05  50 tok/s  0.50 slots/s  ETA 0 ms\n");
}

TEST(Progress, ColoursOnlyWhereAsked) {
  for (const bool colours : {false, true}) {
    Screen screen;
    ProgressOptions options = screen.options(10, 0);
    options.terminal = true;
    options.colours = colours;
    Progress progress(options);
    progress.step({.seconds = 1});
    if (colours) {
      EXPECT_THAT(screen.text, HasSubstr("\x1b[32m"));
    } else {
      EXPECT_THAT(screen.text, Not(HasSubstr("\x1b[3")));
    }
  }
}

// "\r", text, erase to the end: the text alone.
std::string visible(std::string frame) {
  frame.erase(0, 1);
  return frame.substr(0, frame.find('\x1b'));
}

TEST(Progress, NeverWiderThanTheTerminal) {
  for (int width = 1; width <= 200; ++width) {
    Screen screen;
    ProgressOptions options = screen.options(100000, 0);
    options.terminal = true;
    options.width = width;
    Progress progress(options);
    progress.step({.loss = 2.5, .lr = 1e-4, .tokens = 100, .slots = 1, .seconds = 1});
    EXPECT_LE(visible(screen.text).size(), static_cast<std::size_t>(std::max(1, width - 1))) << width;
  }
}

TEST(Progress, MessagesStandAboveTheBar) {
  Screen screen;
  ProgressOptions options = screen.options(10, 0);
  options.terminal = true;
  Progress progress(options);
  progress.step({.loss = 1, .seconds = 1});
  screen.text.clear();
  progress.message("saved checkpoint-5");
  EXPECT_TRUE(screen.text.starts_with("\r\x1b[Ksaved checkpoint-5\n\rstep 1/10 ")) << screen.text;
}

}  // namespace
}  // namespace lazytrain
