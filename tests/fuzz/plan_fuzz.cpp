// One plan.json, for a model of two layers.
#include "plan/plan.h"

#include <nlohmann/json.hpp>

#include "formats/json.h"
#include "fuzz.h"

namespace lazytrain::fuzz {

void fuzz_one(std::span<const std::byte> input) {
  Architecture architecture;
  architecture.layers = 2;
  architecture.vocab = 300;
  architecture.hidden = 64;
  architecture.ffn = 96;
  architecture.heads = architecture.kv_heads = 4;
  architecture.head_dim = 16;
  read_or_refuse([&] {
    const Plan plan = plan_from_json(parse_json(text_of(input), "plan.json", ExitCode::usage), "plan.json");
    check(to_json(plan_from_json(to_json(plan), "again")) == to_json(plan), "a written plan reads as it was");
    check_plan(plan, architecture, "plan.json");
    check(!blocks_of(plan).empty(), "a good plan has blocks");
  });
}

}  // namespace lazytrain::fuzz
