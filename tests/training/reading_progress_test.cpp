#include "training/reading_progress.h"

#include <gtest/gtest.h>

#include <string>

namespace lazytrain {
namespace {

struct Shown {
  Seconds now = 0;
  std::string text;
  [[nodiscard]] ReadingProgressOptions options(bool terminal) {
    return {.terminal = terminal,
            .clock = [this] { return now; },
            .output = [this](std::string_view part) { text += part; }};
  }
};

TEST(ReadingProgress, SaysNothingOfWhatTakesAMoment) {
  Shown shown;
  {
    ReadingProgress progress(shown.options(true));
    shown.now = 1.9;
    progress.update(900, 1000);
  }
  EXPECT_EQ(shown.text, "");
}

TEST(ReadingProgress, ALineEveryTenSecondsWithTheTimeThatIsLeft) {
  Shown shown;
  {
    ReadingProgress progress(shown.options(false));
    for (int second = 1; second <= 20; ++second) {
      shown.now = second;
      progress.update(static_cast<std::uint64_t>(second) * 10'000'000, 400'000'000);
    }
  }
  EXPECT_EQ(shown.text,
            "reading and tokenising: 25 % of 400.0 MB, 10.0 MB/s, ETA 30.0 s\n"
            "reading and tokenising: 50 % of 400.0 MB, 10.0 MB/s, ETA 20.0 s\n");
}

TEST(ReadingProgress, ATerminalsLineIsRedrawnAndClearedAtTheEnd) {
  Shown shown;
  {
    ReadingProgress progress(shown.options(true));
    shown.now = 3;
    progress.update(100, 400);
    shown.now = 3.1;
    progress.update(200, 400);
  }
  EXPECT_EQ(shown.text, "\rreading and tokenising: 25 % of 400 B, 0.0 MB/s, ETA 9.0 s\x1b[K\r\x1b[K");
}

}  // namespace
}  // namespace lazytrain
