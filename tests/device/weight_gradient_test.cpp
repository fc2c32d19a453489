// Weight gradients that replace what an accumulator held, against those that add to zeros.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "core/random.h"
#include "device/cpu/cpu_device.h"

namespace lazytrain {
namespace {

std::vector<float> gradient(DataType type, std::int64_t rows, bool accumulate, float before) {
  constexpr std::int64_t kSlotRows = 24, kIn = 80, kOut = 300;
  const auto device = make_cpu_device({.compute_threads = 2});
  const auto stream = device->create_stream(StreamKind::compute);
  Random random(5);
  const auto matrix = [&](std::int64_t elements) {
    std::byte* data = device->allocate(Tier::device, {elements * size_of(type) + 64}).data;
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto value = static_cast<float>(random.uniform() - 0.5);
      if (type == DataType::f32)
        reinterpret_cast<float*>(data)[i] = value;
      else
        reinterpret_cast<bfloat16*>(data)[i] = to_bfloat16(value);
    }
    return data;
  };
  auto* dweight = reinterpret_cast<float*>(device->allocate(Tier::device, {kIn * kOut * 4}).data);
  std::fill_n(dweight, kIn * kOut, before);
  device->run(*stream, LinearWeightGradient{.type = type,
                                            .rows = rows,
                                            .slot_rows = kSlotRows,
                                            .in = kIn,
                                            .out = kOut,
                                            .dy = matrix(rows * kOut),
                                            .x = matrix(rows * kIn),
                                            .dweight = dweight,
                                            .accumulate = accumulate});
  device->synchronize(*stream);
  return {dweight, dweight + kIn * kOut};
}

TEST(WeightGradient, ReplacesToTheBitWhatAddingToZerosGives) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const DataType type : {DataType::f32, DataType::bf16})
    for (const std::int64_t rows : {0, 10, 24, 48, 60}) {  // none, a part of a slot, one, two, two and a part
      const std::vector<float> added = gradient(type, rows, true, 0.0F);
      const std::vector<float> replaced = gradient(type, rows, false, nan);
      EXPECT_EQ(std::memcmp(added.data(), replaced.data(), added.size() * sizeof(float)), 0)
          << rows << " rows";
    }
}

}  // namespace
}  // namespace lazytrain
