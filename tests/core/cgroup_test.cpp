// Limits of control groups, read from made-up folders of both versions.
#include "core/cgroup.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace lazytrain {
namespace {

namespace fs = std::filesystem;

class Cgroups : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("lazytrain-cgroup-" + std::to_string(getpid()));
    fs::create_directories(root_ / "mount");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  [[nodiscard]] CgroupFiles files() const { return {root_ / "membership", root_ / "mount"}; }

  fs::path root_;
};

TEST_F(Cgroups, WithoutFilesThereIsNoLimit) {
  EXPECT_EQ(cgroup_memory_left(files()), std::nullopt);
  EXPECT_EQ(cgroup_cpu_quota(files()), std::nullopt);
}

TEST_F(Cgroups, TheTightestGroupAboveTheProcessDecides) {
  write("membership", "0::/user.slice/run-1.scope\n");
  write("mount/user.slice/memory.max", "1000\n");
  write("mount/user.slice/memory.current", "700\n");
  write("mount/user.slice/memory.stat", "anon 600\ninactive_file 50\n");
  write("mount/user.slice/cpu.max", "150000 100000\n");
  write("mount/user.slice/run-1.scope/memory.max", "2000\n");
  write("mount/user.slice/run-1.scope/memory.current", "700\n");
  write("mount/user.slice/run-1.scope/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_memory_left(files()), Bytes{350});
  EXPECT_EQ(cgroup_cpu_quota(files()), 1.5);
}

TEST_F(Cgroups, Version1IsReadToo) {
  write("membership", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n");
  write("mount/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("mount/memory/memory.usage_in_bytes", "5000\n");
  write("mount/memory/box/memory.limit_in_bytes", "4000\n");
  write("mount/memory/box/memory.usage_in_bytes", "1000\n");
  write("mount/cpu/box/cpu.cfs_quota_us", "-1\n");
  write("mount/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_memory_left(files()), Bytes{3000});
  EXPECT_EQ(cgroup_cpu_quota(files()), std::nullopt);
}

TEST_F(Cgroups, APathThatIsOnlyTheHostsFallsBackToTheMount) {
  write("membership", "0::/../../elsewhere\n");
  write("mount/memory.max", "100\n");
  write("mount/memory.current", "150\n");
  EXPECT_EQ(cgroup_memory_left(files()), Bytes{0});
}

}  // namespace
}  // namespace lazytrain
