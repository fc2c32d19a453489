#include "core/ordered_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lazytrain {
namespace {

using Work = OrderedWork<int, int>;

// Reads 0 .. count-1, squares them with delays that turn their order round, and returns what was written.
std::vector<int> squares(int threads, int count, std::int64_t most, int stop_after = -1) {
  ThreadPool pool(threads);
  int next = 0;
  std::vector<int> written;
  Work::run(pool, most,
            {.read =
                 [&](int& in) {
                   in = next;
                   return next++ < count;
                 },
             .work =
                 [&](int&& in) {
                   std::this_thread::sleep_for(std::chrono::microseconds((count - in) % 7 * 100));
                   return in * in;
                 },
             .write =
                 [&](int&& out) {
                   written.push_back(out);
                   return static_cast<int>(written.size()) != stop_after;
                 }});
  return written;
}

TEST(OrderedWork, WritesInTheOrderOfReadingForEveryNumberOfThreads) {
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) expected.push_back(i * i);
  for (const int threads : {1, 2, 3, 8}) EXPECT_EQ(squares(threads, 100, 4), expected) << threads;
  EXPECT_TRUE(squares(2, 0, 4).empty());
}

TEST(OrderedWork, StopsWhereTheWriterHasEnough) {
  EXPECT_THAT(squares(3, 1000, 8, 3), testing::ElementsAre(0, 1, 4));
}

TEST(OrderedWork, TheFirstFailureInOrderIsThrownAfterWhatCameBefore) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    int next = 0;
    std::vector<int> written;
    const auto run = [&] {
      Work::run(pool, 16,
                {.read =
                     [&](int& in) {
                       in = next++;
                       return true;
                     },
                 .work =
                     [&](int&& in) {
                       if (in == 5) std::this_thread::sleep_for(std::chrono::milliseconds(2));
                       if (in >= 5) throw std::runtime_error(std::to_string(in));
                       return in;
                     },
                 .write =
                     [&](int&& out) {
                       written.push_back(out);
                       return true;
                     }});
    };
    try {
      run();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "5");
    }
    EXPECT_THAT(written, testing::ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(OrderedWork, AFailureOfTheReaderComesAfterWhatItHasRead) {
  ThreadPool pool(2);
  int next = 0;
  std::vector<int> written;
  const Work::Stages stages{.read =
                                [&](int& in) {
                                  if (next == 10) throw std::runtime_error("unreadable");
                                  in = next++;
                                  return true;
                                },
                            .work = [](int&& in) { return in; },
                            .write =
                                [&](int&& out) {
                                  written.push_back(out);
                                  return true;
                                }};
  EXPECT_THROW(Work::run(pool, 4, stages), std::runtime_error);
  EXPECT_EQ(written.size(), 10u);
}

TEST(OrderedWork, NoMorePiecesWaitThanAllowed) {
  ThreadPool pool(4);
  int next = 0;
  std::atomic<int> between{0}, highest{0};
  Work::run(pool, 6,
            {.read =
                 [&](int& in) {
                   in = next;
                   const int now = ++between;
                   if (now > highest) highest = now;
                   return next++ < 200;
                 },
             .work =
                 [&](int&& in) {
                   if (in == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                   return in;
                 },
             .write =
                 [&](int&&) {
                   --between;
                   return true;
                 }});
  EXPECT_LE(highest.load(), 6);
  EXPECT_GT(highest.load(), 1);
}

}  // namespace
}  // namespace lazytrain
