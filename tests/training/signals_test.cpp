#include "training/signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lazytrain {
namespace {

TEST(StopSignals, FirstSignalSetsTheFlag) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const StopSignals signals;
    EXPECT_FALSE(signals.requested());
    EXPECT_EQ(signals.signal(), 0);
    raise(signal);
    EXPECT_TRUE(signals.requested());
    EXPECT_EQ(signals.signal(), signal);
  }
}

TEST(StopSignalsDeathTest, SecondSignalEndsTheProcessWith130) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        raise(SIGTERM);
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "stopped at once");
}

TEST(StopSignals, EarlierHandlersComeBack) {
  struct sigaction before {};
  struct sigaction after {};
  sigaction(SIGINT, nullptr, &before);
  { const StopSignals signals; }
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

}  // namespace
}  // namespace lazytrain
