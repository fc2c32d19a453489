// One safetensors file.
#include "formats/safetensors.h"

#include "fuzz.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  const std::filesystem::path path = file("model.safetensors", input);
  read_or_refuse([&] {
    const Safetensors model = Safetensors::open_file(path);
    for (const TensorView& tensor : model.tensors()) {
      checksum(tensor.bytes);
      check(model.find(tensor.name) == &tensor, "a tensor is found by its name");
      check(byte_count(tensor.type, tensor.shape) == static_cast<std::int64_t>(tensor.bytes.size()),
            "a tensor has the bytes of its shape");
    }
  });
}

}  // namespace lazytrain::fuzz
