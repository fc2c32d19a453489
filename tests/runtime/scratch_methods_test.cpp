// What the scratch file does where the kernel, a sandbox or the file system lacks what it would rather use.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <ostream>

#include "runtime/scratch_file.h"
#include "runtime/scratch_support.h"

namespace lazytrain {
namespace {

using test::Buffer, test::fill, test::Folder, test::in_child, test::kMiB;

void expect_round_trip(ScratchFile& file) {
  Buffer written(kMiB), read(kMiB);
  fill(written.all(), 9);
  file.write({0}, written.all());
  file.read({0}, read.all());
  EXPECT_TRUE(std::ranges::equal(read.all(), written.all()));
}

TEST(ScratchMethods, TheEnvironmentCanRuleOutTheRing) {
  const Folder folder;
  setenv("LAZYTRAIN_IO", "pread", 1);
  ScratchFile file(folder.path, {kMiB});
  unsetenv("LAZYTRAIN_IO");
  EXPECT_THAT(file.method(), ::testing::StartsWith("pread/pwrite"));
  expect_round_trip(file);
}

// What a kernel, a sandbox or a file system may lack: a system call, or one with this second argument (0:
// any) and this bit in its third (0: any).
struct Lack {
  const char* what;
  unsigned call, second, bit, error;
  const char* method;       // what the file then uses where nothing else is lacking
  const char* passed_over;  // what it says about that
};

bool forbid(const Lack& lack) {
  constexpr unsigned kCall = 0, kSecond = 24, kThird = 32;  // offsets in seccomp_data
  const auto compare = static_cast<__u16>(BPF_JMP | BPF_K | (lack.second == 0 ? BPF_JGE : BPF_JEQ));
  const auto without_bit = static_cast<__u8>(lack.bit == 0 ? 0 : 1);
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCall),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, lack.call, 0, 5),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
                           BPF_JUMP(compare, lack.second, 0, 3),
                           BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kThird),
                           BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, lack.bit, 0, without_bit),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | lack.error),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{8, program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

std::ostream& operator<<(std::ostream& out, const Lack& lack) {
  return out << lack.what;
}

class Lacking : public ::testing::TestWithParam<Lack> {};
INSTANTIATE_TEST_SUITE_P(
    Scratch, Lacking,
    ::testing::Values(Lack{"RingSetup", __NR_io_uring_setup, 0, 0, ENOSYS, "pread/pwrite, O_DIRECT",
                           "io_uring: Function not implemented"},
                      Lack{"RingEntry", __NR_io_uring_enter, 0, 0, EPERM, "pread/pwrite, O_DIRECT",
                           "io_uring: Operation not permitted"},
                      Lack{"DirectAccess", __NR_fcntl, F_SETFL, O_DIRECT, EINVAL,
                           "pread/pwrite through the page cache", "O_DIRECT: Invalid argument"},
                      Lack{"UnnamedFiles", __NR_openat, 0, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP,
                           "io_uring, O_DIRECT", ""},
                      Lack{"Allocation", __NR_fallocate, 0, 0, EOPNOTSUPP, "io_uring, O_DIRECT", ""}),
    [](const ::testing::TestParamInfo<Lack>& lack) { return std::string(lack.param.what); });

TEST_P(Lacking, IsMadeUpFor) {
  const Folder folder;
  const ScratchFile unhindered(folder.path, {kMiB});
  const bool comparable = unhindered.method() == "io_uring, O_DIRECT";
  EXPECT_TRUE(in_child([&] {
    if (!forbid(GetParam())) return false;
    ScratchFile file(folder.path, {kMiB});
    expect_round_trip(file);
    EXPECT_TRUE(folder.empty());
    EXPECT_EQ(file.size(), Bytes{kMiB});
    if (comparable) {
      EXPECT_EQ(file.method(), GetParam().method);
      EXPECT_EQ(file.passed_over(), GetParam().passed_over);
    }
    return !::testing::Test::HasFailure();
  }));
}

}  // namespace
}  // namespace lazytrain
