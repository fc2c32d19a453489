#include "training/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "core/error.h"
#include "training/checkpoint_ownership.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

fs::path save(const OutputLock& lock, std::int64_t step, const std::string& content = "weights") {
  CheckpointWriter writer(lock, step);
  writer.begin("optimizer.bin");
  const auto bytes = std::as_bytes(std::span(content));
  writer.write(bytes.first(3));
  writer.write(bytes.subspan(3));
  writer.add("state.json", "{\"step\": " + std::to_string(step) + "}\n");
  std::ofstream(writer.folder() / "model.safetensors") << content << content;
  return writer.commit();
}

std::vector<std::string> names(const fs::path& folder) {
  std::vector<std::string> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with('.'))
      result.push_back(entry.path().filename().string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

// The sentence of the Error that `function` throws, and its kind.
template <typename Function>
std::string error_of(ExitCode code, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void overwrite(const fs::path& path, const std::string& content) {
  std::ofstream(path) << content;
}

void replace_in(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = read_file(path);
  const std::size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  overwrite(path, text.replace(at, from.size(), to));
}

TEST(Checkpoint, RoundTrip) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const fs::path path = save(lock, 50);
  EXPECT_EQ(path, folder.path() / "checkpoint-50");
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-50"));
  const Checkpoint checkpoint(path);
  EXPECT_EQ(checkpoint.step(), 50);
  EXPECT_EQ(checkpoint.text("optimizer.bin"), "weights");
  EXPECT_EQ(checkpoint.text("state.json"), "{\"step\": 50}\n");
  EXPECT_EQ(checkpoint.map("model.safetensors").text(), "weightsweights");
  EXPECT_EQ(checkpoint.size(), Bytes{7 + 13 + 14});
  EXPECT_FALSE(checkpoint.has("scheduler.json"));
  EXPECT_THAT(error_of(ExitCode::model_file, [&] { (void)checkpoint.map("scheduler.json"); }),
              HasSubstr("checkpoint-50: the checkpoint has no scheduler.json"));
}

TEST(Checkpoint, EmptyFilesAreFiles) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  CheckpointWriter writer(lock, 1);
  writer.begin("empty.bin");
  const fs::path path = writer.commit();
  EXPECT_EQ(Checkpoint(path).text("empty.bin"), "");
}

TEST(Checkpoint, WithoutCommitNothingIsLeft) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  {
    CheckpointWriter writer(lock, 50);
    writer.add("state.json", "{}");
    writer.begin("optimizer.bin");
    EXPECT_TRUE(fs::exists(writer.folder()));
  }
  EXPECT_TRUE(names(folder.path()).empty());
}

TEST(Checkpoint, SameStepIsReplaced) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  save(lock, 50, "old old");
  const fs::path path = save(lock, 50, "new new");
  EXPECT_EQ(Checkpoint(path).text("optimizer.bin"), "new new");
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-50"));
}

TEST(Checkpoint, EveryDamageIsNamed) {
  const auto damage = [](auto&& action) {
    const TemporaryFolder folder;
    const OutputLock lock(folder.path());
    const fs::path path = save(lock, 7);
    action(path);
    return error_of(ExitCode::model_file, [&] { const Checkpoint checkpoint(path); });
  };
  EXPECT_THAT(damage([](const fs::path& p) { fs::remove(p / "manifest.json"); }),
              HasSubstr("checkpoint-7: no manifest.json: not a complete checkpoint"));
  EXPECT_THAT(damage([](const fs::path& p) { fs::remove(p / "optimizer.bin"); }),
              HasSubstr("checkpoint-7: optimizer.bin is missing"));
  EXPECT_THAT(damage([](const fs::path& p) { fs::resize_file(p / "optimizer.bin", 4); }),
              HasSubstr("checkpoint-7: optimizer.bin has 4 bytes instead of 7"));
  EXPECT_THAT(damage([](const fs::path& p) { overwrite(p / "optimizer.bin", "weighTs"); }),
              HasSubstr("checkpoint-7: optimizer.bin is damaged"));
  EXPECT_THAT(damage([](const fs::path& p) { overwrite(p / "manifest.json", "{\"format\":"); }),
              HasSubstr("manifest.json"));
  EXPECT_THAT(damage([](const fs::path& p) { overwrite(p / "manifest.json", "[1, 2]"); }),
              HasSubstr("not a checkpoint manifest"));
  EXPECT_THAT(
      damage([](const fs::path& p) {
        overwrite(p / "manifest.json",
                  R"({"format": "lazytrain-checkpoint", "version": 9, "step": 7, "serial": 1, "files": []})");
      }),
      HasSubstr("version 9 instead of 2"));
  EXPECT_THAT(damage([](const fs::path& p) {
                overwrite(p / "manifest.json", R"({"format": "lazytrain-checkpoint", "version": 2, "step": 7,
                          "serial": 1, "files": [{"name": "../x", "bytes": 1, "xxh3": "0000000000000000"}]})");
              }),
              HasSubstr("a file entry is not valid"));
  EXPECT_THAT(
      damage([](const fs::path& p) { replace_in(p / "manifest.json", "\"serial\": 1", "\"serial\": 7"); }),
      HasSubstr("manifest.json is damaged: its checksum"));
  for (const char* serial : {"9223372036854775807", "9007199254740993", "-1", "1.5", "99999999999999999999"})
    EXPECT_THAT(damage([&](const fs::path& p) {
                  replace_in(p / "manifest.json", "\"serial\": 1", std::string("\"serial\": ") + serial);
                }),
                HasSubstr("not a checkpoint manifest"));
}

TEST(LatestCheckpoint, AForgedSerialDoesNotWin) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  replace_in(save(lock, 50) / "manifest.json", "\"serial\": 1", "\"serial\": 900");
  save(lock, 40);
  EXPECT_EQ(latest_checkpoint(folder.path())->step(), 40);
}

TEST(LatestCheckpoint, TheLastWrittenCompleteOne) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  EXPECT_FALSE(latest_checkpoint(folder.path()));
  EXPECT_FALSE(latest_checkpoint(folder.path() / "absent"));
  save(lock, 50);
  save(lock, 100);
  EXPECT_EQ(latest_checkpoint(folder.path())->step(), 100);
  overwrite(folder.path() / "checkpoint-100" / "optimizer.bin", "weighTs");
  EXPECT_EQ(latest_checkpoint(folder.path())->step(), 50);
  save(lock, 75);  // a run that went on from 50: its checkpoint counts, not the older, later step
  EXPECT_EQ(latest_checkpoint(folder.path())->step(), 75);
  fs::create_directory(folder.path() / "checkpoint-900");
  fs::create_directory(folder.path() / "checkpoint-900.tmp-1");
  fs::create_directory(folder.path() / "checkpoint-best");
  EXPECT_EQ(latest_checkpoint(folder.path())->step(), 75);
}

TEST(LatestCheckpoint, AllBrokenIsAnErrorNotAFreshStart) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  fs::resize_file(save(lock, 50) / "optimizer.bin", 1);
  EXPECT_THAT(error_of(ExitCode::model_file, [&] { (void)latest_checkpoint(folder.path()); }),
              HasSubstr("none of its 1 checkpoints is complete"));
}

TEST(LatestCheckpoint, PathOrAuto) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const fs::path first = save(lock, 50);
  save(lock, 100);
  EXPECT_EQ(checkpoint_to_resume("auto", folder.path())->step(), 100);
  EXPECT_EQ(checkpoint_to_resume(first.string(), folder.path())->step(), 50);
  EXPECT_THAT(error_of(ExitCode::model_file, [&] { (void)checkpoint_to_resume("/nowhere", folder.path()); }),
              HasSubstr("resume_from_checkpoint: /nowhere is not a folder"));
}

TEST(Prune, DeletesTheOldestAndNeverTheNewest) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const std::int64_t step : {10, 20, 30}) save(lock, step);
  prune_checkpoints(lock, folder.path() / "checkpoint-30", 0);
  EXPECT_EQ(names(folder.path()).size(), 3U);
  prune_checkpoints(lock, folder.path() / "checkpoint-30", 2);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-20", "checkpoint-30"));
  const fs::path newest = save(lock, 15);  // went on from an older step
  prune_checkpoints(lock, newest, 1);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-15"));
}

TEST(Prune, TheBestStays) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const std::int64_t step : {10, 20, 30, 40}) save(lock, step);
  const fs::path best = folder.path() / "checkpoint-10";
  prune_checkpoints(lock, folder.path() / "checkpoint-40", 3, best);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-10", "checkpoint-30", "checkpoint-40"));
  prune_checkpoints(lock, folder.path() / "checkpoint-40", 1, best);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-10", "checkpoint-40"));
  prune_checkpoints(lock, folder.path() / "checkpoint-40", 1, folder.path() / "checkpoint-40");
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-40"));
  prune_checkpoints(lock, folder.path() / "checkpoint-40", 1, folder.path() / "checkpoint-7");  // not there
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-40"));
}

TEST(Prune, BrokenOnesGoFirst) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const std::int64_t step : {10, 20, 30}) save(lock, step);
  fs::remove(folder.path() / "checkpoint-20" / "state.json");
  prune_checkpoints(lock, folder.path() / "checkpoint-30", 2);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-10", "checkpoint-30"));
}

TEST(Prune, NothingIsDeletedWhereTheNewestDoesNotVerify) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  save(lock, 10);
  const fs::path newest = save(lock, 20);
  overwrite(newest / "optimizer.bin", "weighTs");
  EXPECT_THAT(error_of(ExitCode::disk, [&] { prune_checkpoints(lock, newest, 1); }),
              HasSubstr("no older checkpoint was deleted"));
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-10", "checkpoint-20"));
}

TEST(OutputLock, OneRunAtATime) {
  const TemporaryFolder folder;
  const fs::path output = folder.path() / "deep" / "out";
  {
    const OutputLock lock(output);
    EXPECT_THAT(error_of(ExitCode::usage, [&] { const OutputLock second(output); }),
                HasSubstr("process " + std::to_string(getpid()) + " is training into it"));
  }
  const OutputLock again(output);
}

TEST(OutputLock, FolderThatCannotBe) {
  const TemporaryFolder folder;
  overwrite(folder.path() / "file", "x");
  EXPECT_THAT(error_of(ExitCode::disk, [&] { const OutputLock lock(folder.path() / "file" / "out"); }),
              HasSubstr("cannot create it"));
}

TEST(StaleTemporaries, OfDeadProcessesAreRemoved) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  save(lock, 10);
  const std::string parent = std::to_string(getppid());
  fs::create_directory(folder.path() / "checkpoint-20.tmp-999999999");
  // A lock holder elsewhere is impossible.
  fs::create_directory(folder.path() / ("checkpoint-30.tmp-" + parent));
  mark_unfinished(folder.path() / ("checkpoint-30.tmp-" + parent));
  overwrite(folder.path() / ("checkpoint-30.tmp-" + parent) / "group-000.states", "x");
  overwrite(folder.path() / "trainer_log.jsonl.tmp-999999999", "");
  overwrite(folder.path() / "model-00001-of-00002.safetensors.tmp-999999999", "");
  overwrite(folder.path() / ("model.safetensors.tmp-" + parent), "");
  EXPECT_EQ(remove_stale_temporaries(lock).size(), 4U);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-10", "model.safetensors.tmp-" + parent));
}

TEST(StaleTemporaries, WhatAUserPutThereStays) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const char* name : {"thesis.tmp-2024", "checkpoint-7.tmp-999999999", "run.yaml.tmp-999999999"}) {
    fs::create_directory(folder.path() / name);
    overwrite(folder.path() / name / "chapter", "one");
  }
  overwrite(folder.path() / "notes.tmp-999999999", "");
  overwrite(folder.path() / "notes.tmp-x", "");
  overwrite(folder.path() / "adapter.safetensors.tmp-999999999", "");
  overwrite(folder.path() / "checkpoint-8.tmp-999999999", "");
  fs::create_directory_symlink(folder.path() / "thesis.tmp-2024",
                               folder.path() / "checkpoint-9.tmp-999999999");
  const std::vector<std::string> before = names(folder.path());
  EXPECT_TRUE(remove_stale_temporaries(lock).empty());
  EXPECT_EQ(names(folder.path()), before);
  EXPECT_TRUE(fs::exists(folder.path() / "checkpoint-7.tmp-999999999" / "chapter"));
}

TEST(StaleTemporaries, ADeletionThatWasCutShortIsFinished) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const fs::path doomed = folder.path() / "checkpoint-10.tmp-999999999";
  fs::rename(save(lock, 10), doomed);
  fs::remove(doomed / "optimizer.bin");
  EXPECT_EQ(remove_stale_temporaries(lock).size(), 1U);
  EXPECT_TRUE(names(folder.path()).empty());
}

TEST(StaleTemporaries, OfImports) {
  const TemporaryFolder folder;
  const fs::path left = folder.path() / "model.tmp-999999999", users = folder.path() / "model.tmp-999999998";
  fs::create_directory(left);
  overwrite(left / "config.json", "{}");
  overwrite(left / "model.safetensors.tmp-999999999", "x");
  fs::create_directory(users);
  overwrite(users / "thesis.tex", "x");
  remove_stale_imports(folder.path() / "model" / "");
  EXPECT_THAT(names(folder.path()), ElementsAre("model.tmp-999999998"));
}

TEST(Foreign, CheckpointsOfOthersAreNeitherListedNorReplaced) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  require_no_foreign_checkpoints(folder.path());
  const fs::path users = folder.path() / "checkpoint-5";
  fs::create_directory(users);
  overwrite(users / "pytorch_model.bin", "x");
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  EXPECT_THAT(error_of(ExitCode::usage, [&] { require_no_foreign_checkpoints(folder.path()); }),
              HasSubstr("holds checkpoint-5, which this program did not write"));
  EXPECT_THAT(error_of(ExitCode::disk, [&] { save(lock, 5); }), HasSubstr("this program did not write it"));
  for (const std::int64_t step : {10, 20, 30}) save(lock, step);
  prune_checkpoints(lock, folder.path() / "checkpoint-30", 1);
  EXPECT_THAT(names(folder.path()), ElementsAre("checkpoint-30", "checkpoint-5"));
  EXPECT_TRUE(fs::exists(users / "pytorch_model.bin"));
  overwrite(folder.path() / "checkpoint-6", "a file");
  EXPECT_THAT(error_of(ExitCode::disk, [&] { save(lock, 6); }), HasSubstr("this program did not write it"));
  EXPECT_EQ(read_file(folder.path() / "checkpoint-6"), "a file");
}

TEST(OutputLock, NothingBehindALinkIsTouched) {
  const TemporaryFolder folder;
  overwrite(folder.path() / "precious", "content");
  fs::create_symlink("precious", folder.path() / ".lazytrain.lock");
  EXPECT_THAT(error_of(ExitCode::usage, [&] { const OutputLock lock(folder.path()); }),
              HasSubstr("a symbolic link"));
  fs::remove(folder.path() / ".lazytrain.lock");
  fs::create_hard_link(folder.path() / "precious", folder.path() / ".lazytrain.lock");
  EXPECT_THAT(error_of(ExitCode::usage, [&] { const OutputLock lock(folder.path()); }),
              HasSubstr("not a file of this program"));
  EXPECT_EQ(read_file(folder.path() / "precious"), "content");
}

TEST(DiskSpace, RefusedBeforeTheStart) {
  const TemporaryFolder folder;
  const Bytes free = free_space(folder.path() / "not" / "there" / "yet");
  EXPECT_GT(free, Bytes{0});
  check_disk_space(folder.path(), {.checkpoint = Bytes{1000}, .checkpoints = 100, .model = Bytes{1000}});
  const DiskNeed large{.checkpoint = free, .checkpoints = 3, .limit = 1, .model = Bytes{1}};
  EXPECT_THAT(error_of(ExitCode::disk, [&] { check_disk_space(folder.path(), large); }),
              HasSubstr("2 checkpoints of "));
}

TEST(DiskSpace, CheckpointsThatAreThereMakeRoom) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const std::int64_t step : {10, 20}) save(lock, step);
  const Bytes third = {free_space(folder.path()).value / 3};
  const DiskNeed need{.checkpoint = third + third, .checkpoints = 9, .limit = 2};
  check_disk_space(folder.path(), need);  // one more at a time
  EXPECT_THAT(error_of(ExitCode::disk, [&] { check_disk_space(folder.path() / "empty", need); }),
              HasSubstr("3 checkpoints of "));
}

// Writing fails in the middle: Error(disk), the temporary is gone, the older checkpoint whole.
void expect_disk_error(const fs::path& folder) {
  const OutputLock lock(folder);
  save(lock, 10);
  const std::string much(4 << 20, 'x');
  EXPECT_THAT(error_of(ExitCode::disk,
                       [&] {
                         CheckpointWriter writer(lock, 20);
                         writer.begin("optimizer.bin");
                         writer.write(std::as_bytes(std::span(much)));
                         writer.commit();
                       }),
              HasSubstr("optimizer.bin"));
  EXPECT_THAT(names(folder), ElementsAre("checkpoint-10"));
  EXPECT_EQ(latest_checkpoint(folder)->step(), 10);
}

TEST(DiskError, FileSizeLimit) {
  const TemporaryFolder folder;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  expect_disk_error(folder.path());
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
}

TEST(DiskError, DiskFull) {
  const TemporaryFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "needs the right to mount";
  expect_disk_error(folder.path());
  umount(folder.path().c_str());
}

}  // namespace
}  // namespace lazytrain
