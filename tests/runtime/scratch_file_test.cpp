// The scratch file: what is written comes back by every method, misuse and bad places are refused, and
// nothing is ever left in its folder.
#include "runtime/scratch_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "runtime/allocation_watch.h"
#include "runtime/scratch_support.h"

namespace lazytrain {
namespace {

using test::Buffer, test::disk_error, test::fill, test::Folder, test::in_child, test::kMiB;

// Small requests, so that a transfer is many of them.
ScratchOptions options(ScratchMethod best) {
  return {.chunk = {64 << 10}, .depth = 4, .best = best};
}

std::string name_of(const ::testing::TestParamInfo<ScratchMethod>& tested) {
  return std::array{"uring", "direct", "cached"}[static_cast<std::size_t>(tested.param)];
}

class Scratch : public ::testing::TestWithParam<ScratchMethod> {};
INSTANTIATE_TEST_SUITE_P(Methods, Scratch,
                         ::testing::Values(ScratchMethod::uring, ScratchMethod::direct,
                                           ScratchMethod::cached),
                         name_of);

// The one open descriptor whose name starts with the folder's.
int descriptor_in(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    const std::string target = std::filesystem::read_symlink(entry.path(), closed).string();
    if (target.starts_with(folder.string() + "/")) return std::stoi(entry.path().filename().string());
  }
  return -1;
}

TEST_P(Scratch, SaysHowItReachesTheDisk) {
  const Folder folder;
  const ScratchFile file(folder.path, {kMiB}, options(GetParam()));
  const std::vector<std::string> methods{"io_uring, O_DIRECT", "pread/pwrite, O_DIRECT",
                                         "pread/pwrite through the page cache"};
  const auto asked = methods.begin() + static_cast<int>(GetParam());
  const auto used = std::find(methods.begin(), methods.end(), file.method());
  ASSERT_NE(used, methods.end()) << file.method();
  EXPECT_GE(used - asked, 0);
  EXPECT_EQ(file.passed_over().empty(), used == asked) << file.passed_over();
}

TEST_P(Scratch, GivesBackWhatWasWritten) {
  const Folder folder;
  constexpr std::int64_t kBlocks = 2048, kMost = 400;
  ScratchFile file(folder.path, {kBlocks * kDiskAlignment - 100}, options(GetParam()));
  ASSERT_EQ(file.size(), Bytes{kBlocks * kDiskAlignment});
  std::vector<std::byte> expected(static_cast<std::size_t>(file.size().value));  // unwritten bytes are zero
  Buffer buffer(kMost * kDiskAlignment);
  Random random(3);
  for (std::uint64_t i = 0; i < 300; ++i) {
    const auto blocks = static_cast<std::int64_t>(random.below(i % 3 == 0 ? kMost + 1 : 20));
    const auto block =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(kBlocks - blocks + 1)));
    const std::span<std::byte> piece = buffer.first(blocks * kDiskAlignment);
    std::byte* reference = expected.data() + block * kDiskAlignment;
    fill(piece, i);
    if (i % 2 == 0) {
      std::copy(piece.begin(), piece.end(), reference);
      file.write({block * kDiskAlignment}, piece);
    } else {
      file.read({block * kDiskAlignment}, piece);
      ASSERT_TRUE(std::equal(piece.begin(), piece.end(), reference)) << "transfer " << i;
    }
  }
  Buffer whole(file.size().value);
  file.read({0}, whole.all());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), whole.all().begin()));
}

// Longer than any single request of any method.
TEST_P(Scratch, GivesBackALongTransfer) {
  const Folder folder;
  constexpr std::int64_t kLong = 67 * kMiB + kDiskAlignment;
  ScratchFile file(folder.path, {kLong + kMiB}, options(GetParam()));
  Buffer written(kLong), read(kLong);
  fill(written.all(), 8);
  file.write({kMiB}, written.all());
  file.read({kMiB}, read.all());
  EXPECT_TRUE(std::ranges::equal(read.all(), written.all()));
}

TEST_P(Scratch, ReadsWhileItWrites) {
  const Folder folder;
  constexpr std::int64_t kPiece = 300 * kDiskAlignment, kPieces = 16;
  ScratchFile file(folder.path, {2 * kPieces * kPiece}, options(GetParam()));
  Buffer written(kPiece), read(kPiece), expected(kPiece);
  const auto seed = [](std::int64_t round, std::int64_t piece) {
    return static_cast<std::uint64_t>(round * 100 + piece);
  };
  const auto write_half = [&](std::int64_t round) {
    for (std::int64_t i = 0; i < kPieces; ++i) {
      fill(written.all(), seed(round, i));
      file.write({(round % 2 * kPieces + i) * kPiece}, written.all());
    }
  };
  write_half(0);
  for (std::int64_t round = 1; round <= 6; ++round) {  // each round reads what the last one wrote
    std::thread writer(write_half, round);
    for (std::int64_t i = 0; i < kPieces; ++i) {
      fill(expected.all(), seed(round - 1, i));
      file.read({((round - 1) % 2 * kPieces + i) * kPiece}, read.all());
      EXPECT_TRUE(std::ranges::equal(read.all(), expected.all())) << "round " << round << ", piece " << i;
    }
    writer.join();
  }
}

TEST_P(Scratch, AllocatesNothingForATransfer) {
  if (!test::kCanWatchAllocations) GTEST_SKIP() << "the sanitizer's allocator must stay in place";
  const Folder folder;
  ScratchFile file(folder.path, {4 * kMiB}, options(GetParam()));
  Buffer buffer(4 * kMiB);
  fill(buffer.all(), 1);
  test::AllocationWatch watch(1);
  for (int i = 0; i < 3; ++i) {
    file.write({0}, buffer.all());
    file.read({0}, buffer.all());
  }
  const test::AllocationCount count = watch.stop();
  EXPECT_EQ(count.all, 0U) << count.first_large;
}

TEST_P(Scratch, RefusesTransfersThatAreNotAlignedOrLeaveTheFile) {
  const Folder folder;
  ScratchFile file(folder.path, {kMiB}, options(GetParam()));
  Buffer buffer(2 * kMiB);
  const std::span<std::byte> block = buffer.first(kDiskAlignment);
  const auto refused = [&](std::int64_t offset, std::span<std::byte> bytes) {
    EXPECT_THROW(file.read({offset}, bytes), std::logic_error) << offset << ", " << bytes.size();
    EXPECT_THROW(file.write({offset}, bytes), std::logic_error) << offset << ", " << bytes.size();
  };
  refused(512, block);
  refused(0, buffer.first(kDiskAlignment + 512));
  refused(0, buffer.all().subspan(512, kDiskAlignment));
  refused(kMiB, block);
  refused(-kDiskAlignment, block);
  refused(INT64_MAX - INT64_MAX % kDiskAlignment, block);
  refused(0, buffer.all());
  file.read({kMiB - kDiskAlignment}, block);
  file.write({kMiB}, buffer.first(0));
}

// The limit on file sizes cuts one request short and refuses the others.
TEST_P(Scratch, WorksOnAfterAFailure) {
  const Folder folder;
  EXPECT_TRUE(in_child([&] {
    ScratchFile file(folder.path, {4 * kMiB}, options(GetParam()));
    Buffer buffer(4 * kMiB), read(4 * kMiB);
    fill(buffer.all(), 5);
    std::signal(SIGXFSZ, SIG_IGN);
    constexpr std::int64_t kLimit = 2 * kMiB + 3 * kDiskAlignment;
    const rlimit limit{kLimit, kLimit};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
    const std::string told = disk_error([&] { file.write({0}, buffer.all()); });
    if (told !=
        folder.path.string() +
            ": cannot write the scratch file: File too large; check the disk or choose another folder") {
      std::fprintf(stderr, "%s\n", told.c_str());
      return false;
    }
    // Both directions work on, and what was written before the limit is there.
    file.write({0}, buffer.first(kLimit));
    file.read({0}, read.all());
    return std::ranges::equal(read.first(kLimit), buffer.first(kLimit));
  }));
}

// The last request of the read comes back short, and the rest of it empty.
TEST_P(Scratch, ReportsAFileThatBecameShorter) {
  const Folder folder;
  ScratchFile file(folder.path, {kMiB}, options(GetParam()));
  Buffer buffer(kMiB);
  fill(buffer.all(), 2);
  file.write({0}, buffer.all());
  ASSERT_EQ(ftruncate(descriptor_in(folder.path), kMiB - kDiskAlignment), 0);
  EXPECT_EQ(
      disk_error([&] { file.read({0}, buffer.all()); }),
      folder.path.string() +
          ": cannot read the scratch file: Input/output error; check the disk or choose another folder");
  file.read({0}, buffer.first(kMiB - kDiskAlignment));
}

// Whether the file system of `folder` can give a file its room without writing it.
bool can_allocate(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "allocated";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const bool allocated = fallocate(descriptor, 0, 0, kMiB) == 0;
  close(descriptor);
  std::filesystem::remove(path);
  return allocated;
}

TEST(ScratchFolder, HoldsNothingThatCanBeSeen) {
  const Folder folder;
  const std::filesystem::path nested = folder.path / "made" / "for it";
  {
    ScratchFile file(nested, {kMiB});
    EXPECT_TRUE(std::filesystem::is_empty(nested));
    struct stat status {};
    ASSERT_EQ(fstat(descriptor_in(nested), &status), 0);
    const std::int64_t room = status.st_blocks * 512;  // it has all of it already
    EXPECT_GE(room, can_allocate(folder.path) ? kMiB : 0);
    Buffer buffer(kMiB);
    file.write({0}, buffer.all());
    EXPECT_TRUE(std::filesystem::is_empty(nested));
  }
  EXPECT_TRUE(std::filesystem::is_empty(nested));
}

TEST(ScratchFolder, IsEmptyAfterAKill) {
  const Folder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    ScratchFile file(folder.path, {4 * kMiB});
    Buffer buffer(4 * kMiB);
    fill(buffer.all(), 1);
    for (;;) {
      file.write({0}, buffer.all());
      if (write(ready[1], "x", 1) != 1) _exit(1);
    }
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);  // it has written, and does again
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(ready[0]);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(folder.empty());
}

TEST(ScratchFolder, MustHaveRoom) {
  const Folder folder;
  const std::string told = disk_error([&] { ScratchFile file(folder.path, {std::int64_t{1} << 60}); });
  EXPECT_THAT(told, ::testing::MatchesRegex(folder.path.string() +
                                            ": the scratch file needs 1152921.50 TB, .* are free; free some "
                                            "space or choose another folder"));
  EXPECT_TRUE(folder.empty());
}

TEST(ScratchFolder, MustBeAFolderThatCanBeWritten) {
  const Folder folder;
  const std::filesystem::path taken = folder.path / "taken";
  std::ofstream(taken) << "a file";
  for (const std::filesystem::path& path : {taken, taken / "below"})
    EXPECT_EQ(disk_error([&] { ScratchFile file(path, {kMiB}); }),
              path.string() +
                  ": cannot make this folder for the scratch file: Not a directory; choose another folder");
  EXPECT_TRUE(in_child([&] {
    const std::filesystem::path closed = folder.path / "closed";
    std::filesystem::create_directory(closed);
    if (chmod(closed.c_str(), 0555) != 0 || chmod(folder.path.c_str(), 0755) != 0) return false;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return false;
    return disk_error([&] { ScratchFile file(closed, {kMiB}); }) ==
           closed.string() + ": cannot make a scratch file here: Permission denied; choose another folder";
  }));
}

}  // namespace
}  // namespace lazytrain
