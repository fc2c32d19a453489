#include "training/run_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string_view>

#include "core/file.h"
#include "formats/event_file.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kBoth{"csv", "tensorboard"};

std::string loss(std::int64_t step) {
  return R"({"epoch":0.5,"grad_norm":2.0,"learning_rate":0.001,"loss":0.25,"step":)" + std::to_string(step) +
         "}";
}
std::string evaluation(std::int64_t step) {
  return R"({"epoch":0.5,"eval_loss":0.125,"eval_runtime":2.0,"step":)" + std::to_string(step) + "}";
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder / "runs" / "train"))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

TEST(RunReports, NothingIsWrittenUnasked) {
  const TemporaryFolder folder;
  RunReports reports({"none"}, folder.path(), {}, 0, true);
  reports.add(loss(10));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(RunReports, CsvHasALineAnEvent) {
  const TemporaryFolder folder;
  RunReports reports({"csv"}, folder.path(), {}, 0, true);
  reports.add(loss(10));
  reports.add(R"({"epoch":0.5,"grad_norm":null,"learning_rate":0.001,"loss":null,"step":15})");
  reports.add(evaluation(20));
  reports.add(R"({"step":20,"train_loss":0.5,"train_runtime":3.0})");
  EXPECT_EQ(read_file(folder.path() / "trainer_log.csv"),
            "step,epoch,loss,grad_norm,learning_rate,eval_loss,eval_runtime,eval_samples_per_second,"
            "eval_steps_per_second\n"
            "10,0.5,0.25,2.0,0.001,,,,\n"
            "15,0.5,,,0.001,,,,\n"
            "20,0.5,,,,0.125,2.0,,\n");
}

TEST(RunReports, TagsAreHuggingFaces) {
  const TemporaryFolder folder;
  RunReports reports({"tensorboard"}, folder.path(), {}, 0, true);
  reports.add(loss(10));
  reports.add(evaluation(10));
  const std::string file = read_file(event_files(folder.path()).at(0));
  for (const char* tag : {"train/loss", "train/grad_norm", "train/learning_rate", "train/epoch", "eval/loss"})
    EXPECT_THAT(file, HasSubstr(tag));
  EXPECT_THAT(file, Not(HasSubstr("step")));
  EXPECT_EQ(events_up_to(file, 10), file.size());
  EXPECT_LT(events_up_to(file, 9), file.size());
}

TEST(RunReports, GoingOnRepeatsNoStep) {
  const TemporaryFolder folder;
  {
    RunReports killed(kBoth, folder.path(), {}, 0, true);
    for (const std::int64_t step : {10, 20, 30}) killed.add(loss(step));
  }
  const fs::path first = event_files(folder.path()).at(0);
  const std::string written = read_file(first);
  const std::vector<std::string> history{loss(10), loss(20)};
  {
    RunReports reports(kBoth, folder.path(), history, 20, false);
    reports.add(loss(30));
  }
  EXPECT_EQ(read_file(folder.path() / "trainer_log.csv").substr(109),
            "10,0.5,0.25,2.0,0.001,,,,\n20,0.5,0.25,2.0,0.001,,,,\n30,0.5,0.25,2.0,0.001,,,,\n");
  const std::vector<fs::path> files = event_files(folder.path());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0], first);  // in the order of their names
  EXPECT_EQ(read_file(first), written.substr(0, events_up_to(written, 20)));
  const std::string second = read_file(files[1]);
  EXPECT_LT(events_up_to(second, 29), second.size());
  EXPECT_EQ(events_up_to(second, 30), second.size());
}

TEST(RunReports, WhatWasNotAskedForBeforeIsMadeUpFor) {
  const TemporaryFolder folder;
  const std::vector<std::string> history{loss(10), loss(20)};
  const RunReports reports({"tensorboard"}, folder.path(), history, 20, false);
  const std::string file = read_file(event_files(folder.path()).at(0));
  EXPECT_EQ(events_up_to(file, 20), file.size());
  EXPECT_LT(events_up_to(file, 19), file.size());
}

TEST(RunReports, ANewRunRemovesOnlyItsOwnFiles) {
  const TemporaryFolder folder;
  {
    RunReports reports(kBoth, folder.path(), {}, 0, true);
    reports.add(loss(10));
  }
  const fs::path foreign = folder.path() / "runs" / "train" / "events.out.tfevents.123.host.4.0";
  write_file(foreign, "of another program");
  const RunReports reports(kBoth, folder.path(), {}, 0, true);
  EXPECT_EQ(read_file(foreign), "of another program");
  EXPECT_EQ(event_files(folder.path()).size(), 2U);
  EXPECT_EQ(read_file(folder.path() / "trainer_log.csv").size(), 109U);
  write_file(folder.path() / "training_loss.svg", "<svg aria-label=\"loss by step\">");
  const RunReports none({"none"}, folder.path(), {}, 0, true);
  EXPECT_EQ(event_files(folder.path()), std::vector<fs::path>{foreign});
  EXPECT_FALSE(fs::exists(folder.path() / "trainer_log.csv"));
  EXPECT_FALSE(fs::exists(folder.path() / "training_loss.svg"));
  for (const char* name : {"trainer_log.csv", "training_loss.svg"})
    write_file(folder.path() / name, "of another program");
  const RunReports anew({"none"}, folder.path(), {}, 0, true);
  EXPECT_TRUE(fs::exists(folder.path() / "trainer_log.csv"));
  EXPECT_TRUE(fs::exists(folder.path() / "training_loss.svg"));
}

// A file that may not grow any more, as on a full disk: what was written of a piece is taken back, and later
// pieces follow whole ones.
TEST(RunReports, NoPieceIsLeftHalfWritten) {
  for (const char* kind : {"csv", "tensorboard"}) {
    const TemporaryFolder folder;
    RunReports reports({kind}, folder.path(), {}, 0, true);
    reports.add(loss(10));
    const bool csv = std::string_view(kind) == "csv";
    const fs::path path = csv ? folder.path() / "trainer_log.csv" : event_files(folder.path()).at(0);
    const std::string before = read_file(path);
    rlimit saved{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &saved), 0);
    const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{.rlim_cur = before.size() + 7, .rlim_max = saved.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    reports.add(loss(20));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &saved), 0);
    std::signal(SIGXFSZ, signal_before);
    EXPECT_EQ(read_file(path), before);
    reports.add(loss(30));
    const std::string file = read_file(path);
    if (csv) {
      EXPECT_EQ(file, before + "30,0.5,0.25,2.0,0.001,,,,\n");
    } else {
      EXPECT_EQ(events_up_to(file, 30), file.size());
      EXPECT_EQ(events_up_to(file, 29), before.size());
    }
  }
}

TEST(RunReports, WhatCannotBeWrittenEndsNothing) {
  const TemporaryFolder folder;
  write_file(folder.path() / "runs", "a file where the folder belongs");
  fs::create_directory(folder.path() / "trainer_log.csv");
  RunReports reports(kBoth, folder.path(), {}, 0, true);
  reports.add(loss(10));
  EXPECT_EQ(read_file(folder.path() / "runs"), "a file where the folder belongs");
}

}  // namespace
}  // namespace lazytrain
