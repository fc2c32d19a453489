// Work in a process of its own: what it returns comes back, and no way to die of it is ours.
#include "core/isolated.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace lazytrain {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::chrono::seconds kLong{60};

TEST(Isolated, WhatTheWorkReturnsComesBack) {
  const auto few = run_isolated([] { return Bytes{std::byte{7}, std::byte{0}}; }, kLong);
  ASSERT_TRUE(few);
  EXPECT_EQ(*few, (Bytes{std::byte{7}, std::byte{0}}));
  const auto many =
      run_isolated([] { return Bytes(3'000'000, std::byte{5}); }, kLong);  // more than a pipe holds
  ASSERT_TRUE(many);
  EXPECT_EQ(*many, Bytes(3'000'000, std::byte{5}));
  const auto none = run_isolated([] { return Bytes{}; }, kLong);
  ASSERT_TRUE(none);
  EXPECT_TRUE(none->empty());
}

TEST(Isolated, ACrashIsNothingAndNotOurs) {
  EXPECT_FALSE(run_isolated([]() -> Bytes { std::abort(); }, kLong));
  EXPECT_FALSE(run_isolated(
      [] {
        std::raise(SIGKILL);
        return Bytes{};
      },
      kLong));
  EXPECT_FALSE(run_isolated([]() -> Bytes { throw std::runtime_error("no"); }, kLong));
  EXPECT_FALSE(run_isolated([]() -> Bytes { _Exit(0); }, kLong));  // ends without a word
}

TEST(Isolated, WorkThatNeverEndsIsStopped) {
  EXPECT_FALSE(run_isolated(
      []() -> Bytes {
        volatile bool again = true;
        while (again) {
        }
        return {};
      },
      std::chrono::seconds{1}));
}

TEST(Isolated, TheChildChangesNothingHere) {
  int value = 1;
  EXPECT_TRUE(run_isolated(
      [&] {
        value = 2;
        return Bytes{};
      },
      kLong));
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace lazytrain
