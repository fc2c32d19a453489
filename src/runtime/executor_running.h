// One run of a Program: what its ops share. Private to the executor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/executor.h"

namespace lazytrain {

struct Executor::Running {
  const StepTokens* tokens = nullptr;
  std::vector<std::int32_t> counts;          // supervised rows by slot
  std::span<const std::int32_t> row_tokens;  // tokens whose embedding rows are gathered
  std::int64_t batch_rows = 0;
  std::span<const std::int32_t> distinct;    // host: whose embedding rows a training step's inputs change
  std::int64_t sequences = 0, capacity = 0;  // generation
  std::int64_t head_count = 0;
  std::optional<AdamWStep> update;  // what update_group ops do; none = they do nothing
  // The updates are this step's and wait for its norm. Those of the step before are known to be good, and the
  // norm of this step may come while they are still written.
  bool update_after_norm = false;
  bool token_losses = false, timings = false;
  StepOutcome outcome;
};

}  // namespace lazytrain
