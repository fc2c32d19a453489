// libFuzzer's entry.
#include <cstdint>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lazytrain::fuzz::fuzz_one({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
