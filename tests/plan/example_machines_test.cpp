// Every machine file of the examples can be planned from.
#include <gtest/gtest.h>

#include <filesystem>

#include "plan/machine.h"
#include "plan/plan_support.h"

namespace lazytrain {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(LAZYTRAIN_SOURCE_DIR) / "examples" / "machines";

TEST(ExampleMachines, AreAllComplete) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const auto failure = error_of([&] { read_machine(entry.path()); });
    EXPECT_FALSE(failure) << failure->what();
  }
  EXPECT_EQ(files, 5);
}

// What the README beside them says: 95 % of the memory less a context.
TEST(ExampleMachines, CapacityIsWhatIsLeftOfTheDevicesMemory) {
  EXPECT_EQ(read_machine(kFolder / "h800-80g.json").device_capacity.value, 73'500'000'000);
  EXPECT_EQ(read_machine(kFolder / "h200.json").device_capacity.value, 131'450'000'000);
  EXPECT_EQ(read_machine(kFolder / "rtx-3090.json").device_capacity.value, 23'480'360'000);
  EXPECT_EQ(read_machine(kFolder / "rtx-4090.json").device_capacity.value, 23'480'360'000);
}

}  // namespace
}  // namespace lazytrain
