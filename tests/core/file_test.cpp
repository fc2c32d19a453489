// What is said of paths that are no readable files.
#include "core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Paths : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("lazytrain-paths-" + std::to_string(getpid()));
    fs::create_directories(root_);
    fs::permissions(root_, fs::perms::all);
    std::ofstream(root_ / "file") << "text";
  }
  void TearDown() override { fs::remove_all(root_); }

  static std::string sentence(const std::function<void()>& call, ExitCode code = ExitCode::data) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "";
  }
  std::string sentence(const fs::path& path) const {
    return sentence([&] { require_file(root_ / path, ExitCode::data); });
  }

  fs::path root_;
};

// Root may read everything: it takes another user's place for a while.
class AsNobody {
 public:
  AsNobody() : before_(geteuid()) {
    if (before_ == 0) changed_ = seteuid(65534) == 0;
  }
  ~AsNobody() {
    if (changed_ && seteuid(before_) != 0) ADD_FAILURE() << "the user could not be changed back";
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  uid_t before_;
  bool changed_ = false;
};

TEST_F(Paths, AReadableFileIsFine) {
  EXPECT_EQ(sentence("file"), "");
  EXPECT_FALSE(is_missing(root_ / "file"));
}

TEST_F(Paths, WhatIsNotThereIsMissing) {
  EXPECT_TRUE(is_missing(root_ / "none"));
  EXPECT_TRUE(is_missing(root_ / "file" / "inside"));
  EXPECT_THAT(sentence("none"), HasSubstr("no such file"));
}

TEST_F(Paths, FoldersAndPipesAreNamedAsWhatTheyAre) {
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(sentence("."), HasSubstr("a folder, where a file is needed"));
  EXPECT_THAT(sentence("pipe"), HasSubstr("a pipe, where a file is needed"));
  EXPECT_THAT(sentence([&] { require_folder(root_ / "file", ExitCode::data); }),
              HasSubstr("a file, where a folder is needed"));
}

TEST_F(Paths, RightsThatAreLackingAreNamed) {
  fs::create_directories(root_ / "closed");
  std::ofstream(root_ / "closed" / "file") << "text";
  fs::permissions(root_ / "file", fs::perms::none);
  fs::permissions(root_ / "closed", fs::perms::none);
  {
    const AsNobody nobody;
    EXPECT_FALSE(is_missing(root_ / "closed" / "file"));
    EXPECT_THAT(sentence("file"), HasSubstr("permission denied"));
    EXPECT_THAT(sentence("closed/file"), HasSubstr("permission denied"));
    EXPECT_THAT(sentence([&] { require_folder(root_ / "closed", ExitCode::data); }),
                HasSubstr("permission denied"));
  }
  fs::permissions(root_ / "closed", fs::perms::owner_all);
}

TEST_F(Paths, StreamsAreReadUpToALimit) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const fs::path path = "/proc/self/fd/" + std::to_string(ends[0]);
  ASSERT_EQ(write(ends[1], "seed: 1\n", 8), 8);
  close(ends[1]);
  EXPECT_EQ(read_stream(path, 100, ExitCode::data), "seed: 1\n");
  close(ends[0]);
  EXPECT_THAT(sentence([] { (void)read_stream("/dev/zero", 1000, ExitCode::data); }),
              HasSubstr("more than 1000 bytes"));
}

TEST_F(Paths, NothingButAFileIsReplaced) {
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(sentence([&] { AtomicFile(root_ / "pipe"); }, ExitCode::disk), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace lazytrain
