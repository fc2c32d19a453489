// Loss over a set of samples: mean over all their supervised tokens, by an evaluation Program.
#pragma once

#include <functional>
#include <vector>

#include "data/packing.h"
#include "program/program.h"
#include "runtime/session.h"

namespace lazytrain {

struct EvaluationResult {
  double loss = 0;  // mean over supervised tokens
  std::int64_t supervised = 0;
  std::int64_t samples = 0;  // that the loss covers
  std::int64_t steps = 0;
  Seconds seconds = 0;
  bool complete = false;  // false: stopped before the last sample
};

// `stop` is asked between batches; a true answer ends the evaluation early (the result covers what was done).
EvaluationResult evaluate(Session& session, const Program& program, const TokenizedSamples& samples,
                          const std::vector<std::int64_t>& used, bool packing,
                          const std::function<bool()>& stop = {});

// A PackedBatch as the executor takes it.
StepTokens step_tokens(const PackedBatch& batch);

}  // namespace lazytrain
