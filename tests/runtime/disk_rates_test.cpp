// Measured rates of the scratch disk: filled, kept, used again, and measured anew where the file is no good.
#include "runtime/disk_rates.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/json.h"
#include "runtime/profiler.h"
#include "runtime/scratch_file.h"

namespace lazytrain {
namespace {

class MeasuredDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("lazytrain-disk-rates-{}", getpid());
    std::filesystem::create_directories(folder_ / "scratch");
    setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  [[nodiscard]] std::filesystem::path scratch() const { return folder_ / "scratch"; }
  std::filesystem::path folder_;
};

void expect_measured(const DiskRates& rates) {
  for (const double rate : {rates.read, rates.write, rates.both}) {
    EXPECT_GT(rate, 1e-3);
    EXPECT_LT(rate, 1e3);
  }
  EXPECT_FALSE(rates.method.empty());
}

TEST_F(MeasuredDisk, IsMeasuredAndLeavesNothing) {
  const DiskRates rates = measure_disk(scratch());
  expect_measured(rates);
  EXPECT_EQ(rates.method, ScratchFile(scratch(), {kDiskAlignment}).method());
  EXPECT_TRUE(std::filesystem::is_empty(scratch()));
}

TEST_F(MeasuredDisk, IsMeasuredOnceAndAnewWhereTheFileIsNoGood) {
  const std::filesystem::path file = disk_rates_file(scratch());
  expect_measured(load_or_measure_disk(scratch()));
  ASSERT_TRUE(std::filesystem::exists(file));
  nlohmann::json kept = read_json(file, ExitCode::usage);
  kept["read"] = 1.25;
  write_json(file, kept);
  EXPECT_EQ(load_or_measure_disk(scratch()).read, 1.25);

  nlohmann::json negative = kept, lacking = kept;
  negative["write"] = -1;
  lacking.erase("both");
  for (const std::string& text : {std::string("{\"read\": 1"), negative.dump(), lacking.dump()}) {
    write_file(file, text);
    expect_measured(load_or_measure_disk(scratch()));
    EXPECT_NE(read_file(file), text);  // replaced by what was measured
  }
}

TEST_F(MeasuredDisk, HasOneFileForAFileSystemAndWayOfReachingIt) {
  const std::filesystem::path file = disk_rates_file(scratch());
  EXPECT_EQ(file.parent_path(), cost_folder());
  EXPECT_EQ(disk_rates_file(scratch() / "not" / "there"), file);
  EXPECT_FALSE(std::filesystem::exists(scratch() / "not"));
  EXPECT_NE(disk_rates_file("/proc"), file);
  setenv("LAZYTRAIN_IO", "pread", 1);
  EXPECT_NE(disk_rates_file(scratch()), file);
  unsetenv("LAZYTRAIN_IO");
}

}  // namespace
}  // namespace lazytrain
