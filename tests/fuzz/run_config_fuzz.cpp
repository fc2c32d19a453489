// One run.yaml. What is accepted is printed, and read again it is the same.
#include "fuzz.h"
#include "training/run_config.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  read_or_refuse([&] {
    const RunConfig config = parse_run_config(text_of(input), "run.yaml", {}).config;
    const std::string printed = to_yaml(config);
    check(parse_run_config(printed, "printed", {}).config == config,
          "a printed configuration reads as it was");
  });
}

}  // namespace lazytrain::fuzz
