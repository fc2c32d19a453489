// One config.json: the sizes of a model, its parameter groups and its stash.
#include "fuzz.h"
#include "model/architecture.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  const std::filesystem::path path = file("config.json", input);
  read_or_refuse([&] { static_cast<void>(read_architecture(path)); });
}

}  // namespace lazytrain::fuzz
