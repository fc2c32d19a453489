// What the tests of importing GGUF files share: values of tensors, and the folder that became of a file.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/bfloat16.h"
#include "core/random.h"
#include "formats/safetensors.h"
#include "model/gguf_support.h"
#include "model/model_folder.h"
#include "model/model_support.h"

namespace lazytrain {

// A number that is unlike its neighbours and exact in bf16: bits from a counter.
inline float cell(std::size_t tensor, std::size_t index) {
  const auto bits = static_cast<std::uint16_t>(mix64(tensor * 100'000 + index));
  return to_float(bfloat16{static_cast<std::uint16_t>((bits & 0x80FFU) | 0x3F00U)});
}

struct Shape {
  std::string name;
  std::vector<std::int64_t> sizes;
};

struct Imported {
  TemporaryFolder folder;
  std::filesystem::path out;
  std::optional<Failure> failure;

  explicit Imported(const std::string& bytes) : out(folder.path() / "out") {
    const std::filesystem::path gguf = folder.write("model.gguf", bytes);
    failure = failure_of([&] { import_gguf(gguf, out, {}); });
  }
  [[nodiscard]] nlohmann::json json(const std::string& name) const {
    return nlohmann::json::parse(content_of(out / name));
  }
};

// Values of one stored tensor.
inline std::vector<float> values_of(const std::filesystem::path& folder, const std::string& name) {
  const Safetensors file = Safetensors::open_folder(folder);
  const TensorView& tensor = file.at(name);
  EXPECT_EQ(tensor.type, TensorType::bf16) << name;
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  convert_to_float(tensor.type, tensor.bytes, values);
  return values;
}

}  // namespace lazytrain
