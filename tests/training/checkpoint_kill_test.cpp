// Processes that are killed while they write checkpoints.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "core/random.h"
#include "training/checkpoint.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

// Content that only this step can have.
std::string content(std::int64_t step, std::size_t size) {
  std::string text(size, '\0');
  Random random(42, static_cast<std::uint64_t>(step));
  for (char& c : text) c = static_cast<char>(random.next());
  return text;
}

void save(const OutputLock& lock, std::int64_t step) {
  CheckpointWriter writer(lock, step);
  for (const char* name : {"a.bin", "b.bin", "c.bin"}) {
    const std::string text = content(step, 20'000);
    writer.begin(name);
    for (std::size_t at = 0; at < text.size(); at += 1000) {
      writer.write(std::as_bytes(std::span(text).subspan(at, 1000)));
    }
  }
  writer.add("state.json", "{\"step\": " + std::to_string(step) + "}");
  prune_checkpoints(lock, writer.commit(), 2);
}

// How long a save takes here and now: the kills are spread over a few of them.
std::int64_t microseconds_of_a_save() {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t step = 1; step <= 3; ++step) save(lock, step);
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start)
             .count() /
         3;
}

// What a training process does: clean up, continue from the last, save again and again.
[[noreturn]] void train(const std::filesystem::path& folder) {
  const OutputLock lock(folder);
  remove_stale_temporaries(lock);
  const auto resumed = latest_checkpoint(folder);
  std::int64_t step = resumed ? resumed->step() : 0;
  for (;;) save(lock, ++step);
}

TEST(CheckpointKill, ACompleteCheckpointIsAlwaysFoundAndNoneIsLost) {
  const TemporaryFolder folder;
  Random random(2024);
  const auto longest = static_cast<std::uint64_t>(3 * microseconds_of_a_save());
  std::int64_t last = 0;
  // At least 30 kills, and on a busy machine as many more as it takes to see saves come through.
  for (int round = 0; round < 30 || (last <= 5 && round < 600); ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        train(folder.path());
      } catch (...) {
        _exit(1);
      }
    }
    usleep(static_cast<useconds_t>(1'000 + random.below(longest)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";

    const auto latest = latest_checkpoint(folder.path());
    const std::int64_t step = latest ? latest->step() : 0;
    ASSERT_GE(step, last);
    last = step;
    for (const CheckpointInfo& info : list_checkpoints(folder.path())) EXPECT_EQ(info.fault, "");
    if (!latest) continue;
    for (const char* name : {"a.bin", "b.bin", "c.bin"}) ASSERT_EQ(latest->text(name), content(step, 20'000));
  }
  EXPECT_GT(last, 5);
  {
    const OutputLock lock(folder.path());  // the dead hold no lock
    remove_stale_temporaries(lock);
    save(lock, last + 1);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}),
            3);  // two, and the lock file
}

// Killed inside the replacement of a checkpoint by one of the same step: one of the two is there, whole.
TEST(CheckpointKill, ReplacementIsOldOrNew) {
  const TemporaryFolder folder;
  {
    const OutputLock lock(folder.path());
    save(lock, 1);
  }
  Random random(7);
  const auto longest = static_cast<std::uint64_t>(3 * microseconds_of_a_save());
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        const OutputLock lock(folder.path());
        for (;;) save(lock, 1);
      } catch (...) {
        _exit(1);
      }
    }
    usleep(static_cast<useconds_t>(1'000 + random.below(longest)));
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const Checkpoint checkpoint(folder.path() / "checkpoint-1");
    ASSERT_EQ(checkpoint.text("b.bin"), content(1, 20'000));
  }
}

}  // namespace
}  // namespace lazytrain
