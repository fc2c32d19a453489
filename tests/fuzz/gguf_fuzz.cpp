// One GGUF file: its tensors as numbers, its settings as config.json, its tokenizer as tokenizer.json.
#include "formats/gguf.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "model/gguf_config.h"
#include "model/gguf_tokenizer.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  const std::filesystem::path path = file("model.gguf", input);
  read_or_refuse([&] {
    const Gguf model(path);
    for (const GgufTensor& tensor : model.tensors()) {
      if (tensor.elements() == 0) continue;
      std::vector<float> row(static_cast<std::size_t>(tensor.row_length()));
      dequantize_rows(tensor, tensor.rows() - 1, 1, row);
    }
    for (const std::string& key : model.keys()) check(!model.type_of(key).empty(), "a value has a type");
    read_or_refuse([&] { check(gguf_config(model).is_object(), "settings are an object"); });
    read_or_refuse([&] { write_gguf_tokenizer(model, folder()); });
  });
}

}  // namespace lazytrain::fuzz
