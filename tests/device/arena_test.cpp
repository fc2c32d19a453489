// Arenas: aligned, real, and the emulated device's never above its capacity.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "core/error.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/numa.h"

namespace lazytrain {
namespace {

constexpr Bytes kCapacity{10'000'000};

CpuDeviceOptions emulated() {
  return {.memory_model = MemoryModel::emulated, .device_capacity = kCapacity};
}

TEST(Numa, ReadsTheKernelsLists) {
  using Nodes = std::vector<int>;
  EXPECT_EQ(cpu::parse_node_list("0\n"), Nodes({0}));
  EXPECT_EQ(cpu::parse_node_list("0-2,5"), Nodes({0, 1, 2, 5}));
  for (const char* broken : {"", "\n", "2-1", "x", "0,", "-1", "0-", "1024", "0 1"})
    EXPECT_LE(cpu::parse_node_list(broken).size(), 1U) << broken;
}

TEST(Arena, IsAlignedZeroAndWritableToItsLastByte) {
  const auto device = make_cpu_device({});
  for (const std::int64_t size : {1, 4096, 5000, 3'000'001}) {
    const Arena arena = device->allocate(Tier::device, {size});
    EXPECT_EQ(arena.size.value, size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.data) % 4096, 0U);
    EXPECT_EQ(arena.data[0], std::byte{0});
    arena.data[size - 1] = std::byte{1};
    EXPECT_EQ(arena.data[size - 1], std::byte{1});
  }
}

TEST(Arena, PagesAreRealBeforeFirstUse) {
  const auto device = make_cpu_device(emulated());
  for (const Tier tier : {Tier::device, Tier::host}) {
    const Arena arena = device->allocate(tier, {5'000'000});
    std::vector<unsigned char> resident((5'000'000 + 4095) / 4096);
    ASSERT_EQ(mincore(arena.data, 5'000'000, resident.data()), 0);
    for (const unsigned char page : resident) ASSERT_EQ(page & 1, 1);
  }
}

TEST(Arena, TheEmulatedDeviceIsCappedToTheByte) {
  const auto device = make_cpu_device(emulated());
  device->allocate(Tier::device, {6'000'000});
  device->allocate(Tier::host, {20'000'000});  // host memory is not the device's
  try {
    device->allocate(Tier::device, {4'000'001});
    FAIL() << "above the cap";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_THAT(error.what(), testing::HasSubstr("the emulated device has 10.0 MB (6.0 MB of them taken)"));
  }
  EXPECT_EQ(device->allocate(Tier::device, {4'000'000}).size.value, 4'000'000);
  EXPECT_THROW(device->allocate(Tier::device, {1}), Error);
}

TEST(Arena, RefusesAbsurdSizesAndTheDisk) {
  const auto device = make_cpu_device({});
  EXPECT_THROW(device->allocate(Tier::device, {-1}), Error);
  EXPECT_THROW(device->allocate(Tier::host, {std::int64_t{1} << 60}), Error);
  EXPECT_THROW(device->allocate(Tier::host, {INT64_MAX}), Error);
  EXPECT_THROW(device->allocate(Tier::disk, {1}), Error);
  EXPECT_NO_THROW(device->allocate(Tier::host, {0}));
}

}  // namespace
}  // namespace lazytrain
