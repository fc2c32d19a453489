// One machine file, and the same bytes as a table of costs.
#include "plan/machine.h"

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "fuzz.h"
#include "plan/cost_table.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  read_or_refuse([&] {
    const nlohmann::json json = parse_json(text_of(input), "machine.json", ExitCode::usage);
    read_or_refuse([&] {
      const Machine machine = machine_from_json(json, "machine.json");
      check(to_json(machine_from_json(to_json(machine), "again")) == to_json(machine),
            "a written machine reads as it was");
    });
    read_or_refuse([&] {
      const CostTable costs = cost_table_from_json(json, "costs.json");
      check(to_json(cost_table_from_json(to_json(costs), "again")) == to_json(costs),
            "a written table of costs reads as it was");
    });
  });
}

}  // namespace lazytrain::fuzz
