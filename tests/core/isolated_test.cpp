// Work in a process of its own: what it returns comes back, and no way to die of it is ours.
#include "core/isolated.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace lazytrain {
namespace {

using Bytes = std::vector<std::byte>;
constexpr IsolationLimits kLong{.processor_time = std::chrono::seconds{60},
                                .wall_time = std::chrono::seconds{300}};

bool died(const IsolatedResult& result) {
  return result.end == IsolatedResult::End::died;
}
bool done(const IsolatedResult& result) {
  return result.end == IsolatedResult::End::done;
}

TEST(Isolated, WhatTheWorkReturnsComesBack) {
  const auto few = run_isolated([] { return Bytes{std::byte{7}, std::byte{0}}; }, kLong);
  ASSERT_TRUE(done(few));
  EXPECT_EQ(few.bytes, (Bytes{std::byte{7}, std::byte{0}}));
  const auto many =
      run_isolated([] { return Bytes(3'000'000, std::byte{5}); }, kLong);  // more than a pipe holds
  ASSERT_TRUE(done(many));
  EXPECT_EQ(many.bytes, Bytes(3'000'000, std::byte{5}));
  const auto none = run_isolated([] { return Bytes{}; }, kLong);
  ASSERT_TRUE(done(none));
  EXPECT_TRUE(none.bytes.empty());
}

TEST(Isolated, ACrashIsDeathOfTheChildAlone) {
  const auto killed = [] {
    std::raise(SIGKILL);
    return Bytes{};
  };
  EXPECT_TRUE(died(run_isolated([]() -> Bytes { std::abort(); }, kLong)));
  EXPECT_TRUE(died(run_isolated(killed, kLong)));
  EXPECT_TRUE(died(run_isolated([]() -> Bytes { throw std::runtime_error("no"); }, kLong)));
  EXPECT_TRUE(died(run_isolated([]() -> Bytes { _Exit(0); }, kLong)));  // ends without a word
}

TEST(Isolated, WorkThatNeverEndsIsStopped) {
  EXPECT_TRUE(died(run_isolated(
      []() -> Bytes {
        volatile bool again = true;
        while (again) {
        }
        return {};
      },
      {.processor_time = std::chrono::seconds{1}, .wall_time = std::chrono::seconds{300}})));
}

TEST(Isolated, WorkThatWaitsForNothingIsStopped) {
  EXPECT_TRUE(died(run_isolated(
      []() -> Bytes {
        for (;;) pause();
      },
      {.processor_time = std::chrono::seconds{60}, .wall_time = std::chrono::seconds{1}})));
}

TEST(Isolated, TheChildChangesNothingHere) {
  int value = 1;
  EXPECT_TRUE(done(run_isolated(
      [&] {
        value = 2;
        return Bytes{};
      },
      kLong)));
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace lazytrain
