// Makes small GGUF files (version 3) for the tests: metadata in order, tensors in F32.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lazytrain {

class GgufBuilder {
 public:
  GgufBuilder& u32(const std::string& key, std::uint32_t value);
  GgufBuilder& f32(const std::string& key, float value);
  GgufBuilder& boolean(const std::string& key, bool value);
  GgufBuilder& text(const std::string& key, const std::string& value);
  GgufBuilder& texts(const std::string& key, const std::vector<std::string>& values);
  GgufBuilder& ints(const std::string& key, const std::vector<std::int32_t>& values);
  GgufBuilder& floats(const std::string& key, const std::vector<float>& values);
  GgufBuilder& remove(const std::string& key);
  // Shape as PyTorch has it, outermost first.
  GgufBuilder& tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                      const std::vector<float>& values);
  GgufBuilder& remove_tensor(const std::string& name);

  // The file; `metadata_end`, where asked for, is the length of all that stands before the payload.
  [[nodiscard]] std::string bytes(std::size_t* metadata_end = nullptr) const;

 private:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<float> values;
  };
  GgufBuilder& set(const std::string& key, std::uint32_t type, std::string value);

  std::vector<std::pair<std::string, std::string>>
      metadata_;  // key -> type and value as they stand in the file
  std::vector<Tensor> tensors_;
};

}  // namespace lazytrain
