// Greedy decoding of many prompts at once, with a key-value cache that is a planned buffer: prompts are
// packed into slots and prefilled, then every sequence grows by one token a step until it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "program/lowering.h"
#include "runtime/session.h"

namespace lazytrain {

struct GenerationRequest {
  std::vector<std::vector<std::int32_t>> prompts;
  std::int64_t max_new_tokens = 256;
  std::vector<std::int32_t> stop_ids;  // end a sequence; not part of the result
};

// Programs for a set of prompts within a machine's budgets: as many sequences at once as fit, at most `most`.
// Error(does_not_fit) where not even one does.
struct GenerationPlan {
  GenerationGeometry geometry;
  GenerationPrograms programs;
};
GenerationPlan plan_generation(const LoweringContext& context, const Machine& machine, DataType type,
                               const GenerationRequest& request, std::int64_t most = 64);

// Positions that the rotary tables must cover for a request.
std::int64_t generation_positions(const GenerationRequest& request);

struct Generated {
  std::vector<std::int32_t> tokens;
  bool finished = false;  // by a stop token or at max_new_tokens; false: `stop` came first
};

// The new tokens of every prompt, in order. `progress(done, total)` counts finished sequences; `stop` ends
// early with what there is.
std::vector<Generated> generate(Session& session, const GenerationPlan& plan,
                                const GenerationRequest& request,
                                const std::function<void(std::int64_t, std::int64_t)>& progress = {},
                                const std::function<bool()>& stop = {});

}  // namespace lazytrain
