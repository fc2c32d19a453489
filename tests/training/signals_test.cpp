#include "training/signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace lazytrain {
namespace {

TEST(StopSignals, FirstSignalSetsTheFlag) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
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

TEST(StopSignals, HangingUp) {
  {
    const StopSignals signals;
    raise(SIGHUP);
    raise(SIGHUP);  // a terminal that closes may send more than one
    EXPECT_TRUE(signals.requested());
  }
  std::signal(SIGHUP, SIG_IGN);  // nohup
  {
    const StopSignals signals;
    raise(SIGHUP);
    EXPECT_FALSE(signals.requested());
  }
  std::signal(SIGHUP, SIG_DFL);
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
