#include "training/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "training/checkpoint_folder.h"
#include "training/folder_support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path save(const OutputLock& lock, std::int64_t step, const std::string& content) {
  CheckpointWriter writer(lock, step);
  writer.add("state.json", content);
  return writer.commit();
}

void touch(const fs::path& path) {
  std::ofstream(path) << "x";
}

std::string refusal(const fs::path& folder, bool wish_auto = false) {
  try {
    require_unused(folder, wish_auto);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "";
}

TEST(OutputFolder, WhatAnEarlierRunLeftIsNotWrittenOver) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  EXPECT_EQ(refusal(folder.path()), "");
  touch(folder.path() / "run.yaml");  // killed before anything was saved
  EXPECT_EQ(refusal(folder.path()), "");
  for (const char* name : {"trainer_state.json", "model.safetensors", "model.safetensors.index.json"}) {
    touch(folder.path() / name);
    EXPECT_THAT(refusal(folder.path(), true), HasSubstr(std::string("holds the ") + name));
    EXPECT_THAT(refusal(folder.path()), HasSubstr("give overwrite_output_dir: true"));
    fs::remove(folder.path() / name);
  }
  save(lock, 4, "old");
  EXPECT_THAT(refusal(folder.path()), HasSubstr("give resume_from_checkpoint: auto"));
}

TEST(OutputFolder, AnEarlierRunIsSetAsideUntilTheNewOneHasACheckpoint) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  save(lock, 4, "old");
  save(lock, 6, "old");
  touch(folder.path() / "trainer_state.json");
  touch(folder.path() / "model.safetensors");
  set_earlier_run_aside(lock);
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  EXPECT_FALSE(latest_checkpoint(folder.path()));
  EXPECT_EQ(Checkpoint(folder.path() / "replaced-checkpoints" / "checkpoint-6").text("state.json"), "old");
  EXPECT_TRUE(fs::exists(folder.path() / "model.safetensors"));
  // Killed here: `auto` starts anew, a run that did not ask is still told of the model.
  EXPECT_TRUE(recover_output_folder(lock).empty());
  EXPECT_EQ(refusal(folder.path(), true), "");
  EXPECT_THAT(refusal(folder.path(), false), HasSubstr("model.safetensors"));
  const fs::path newest = save(lock, 2, "new");
  remove_runs_set_aside(lock, newest);
  EXPECT_FALSE(fs::exists(folder.path() / "replaced-checkpoints"));
  EXPECT_EQ(latest_checkpoint(folder.path())->text("state.json"), "new");
}

TEST(OutputFolder, AKillWhileSettingAsideIsMadeGood) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  save(lock, 4, "old");
  save(lock, 6, "old");
  fs::create_directory(folder.path() / "replaced-checkpoints.moving");
  fs::rename(folder.path() / "checkpoint-6", folder.path() / "replaced-checkpoints.moving" / "checkpoint-6");
  EXPECT_EQ(recover_output_folder(lock).size(), 1U);
  EXPECT_FALSE(latest_checkpoint(folder.path()));
  EXPECT_TRUE(fs::exists(folder.path() / "replaced-checkpoints" / "checkpoint-4"));
  // Killed right after the first checkpoint: nothing is forgotten.
  save(lock, 2, "new");
  EXPECT_EQ(recover_output_folder(lock).size(), 1U);
  EXPECT_FALSE(fs::exists(folder.path() / "replaced-checkpoints"));
}

TEST(OutputFolder, WhatAUserNamedLikeOursStays) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  for (const char* name : {"replaced-checkpoints", "replaced-checkpoints-backup", "checkpoint-3.previous"}) {
    fs::create_directory(folder.path() / name);
    touch(folder.path() / name / "thesis");
  }
  save(lock, 4, "old");
  EXPECT_TRUE(recover_output_folder(lock).empty());
  set_earlier_run_aside(lock);
  remove_runs_set_aside(lock, save(lock, 2, "new"));
  EXPECT_FALSE(fs::exists(folder.path() / "replaced-checkpoints-2"));
  for (const char* name : {"replaced-checkpoints", "replaced-checkpoints-backup", "checkpoint-3.previous"})
    EXPECT_TRUE(fs::exists(folder.path() / name / "thesis")) << name;
}

TEST(OutputFolder, ReplacingWithoutExchange) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const fs::path old = save(lock, 5, "old");
  const fs::path other = folder.path() / "other";
  fs::create_directory(other);
  touch(other / "new");
  put_in_place(other, old, false);
  EXPECT_TRUE(fs::exists(old / "new"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);  // and the lock
}

TEST(OutputFolder, AKillWhileReplacingLeavesOneOfTheTwo) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path());
  const fs::path path = save(lock, 5, "old"), previous = folder.path() / "checkpoint-5.previous";
  fs::rename(path, previous);
  EXPECT_EQ(recover_output_folder(lock).size(), 1U);
  EXPECT_EQ(latest_checkpoint(folder.path())->text("state.json"), "old");
  fs::rename(path, previous);
  save(lock, 5, "new");
  EXPECT_EQ(recover_output_folder(lock).size(), 1U);
  EXPECT_EQ(latest_checkpoint(folder.path())->text("state.json"), "new");
  EXPECT_FALSE(fs::exists(previous));
}

TEST(OutputFolder, WhoseACheckpointIs) {
  const TemporaryFolder folder;
  const OutputLock lock(folder.path() / "a");
  const Checkpoint checkpoint(save(lock, 5, "x"));
  EXPECT_TRUE(lies_in(checkpoint, folder.path() / "a"));
  EXPECT_TRUE(lies_in(Checkpoint(checkpoint.path() / ""), folder.path() / "a" / "." / ""));
  EXPECT_FALSE(lies_in(checkpoint, folder.path()));
  EXPECT_FALSE(lies_in(checkpoint, folder.path() / "b"));
}

}  // namespace
}  // namespace lazytrain
