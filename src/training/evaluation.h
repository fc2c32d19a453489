// Loss over a set of samples: mean over all their supervised tokens, by an evaluation Program.
#pragma once

#include <functional>
#include <vector>

#include "data/packing.h"
#include "plan/machine.h"
#include "program/lowering.h"
#include "program/program.h"
#include "runtime/session.h"

namespace lazytrain {

// One sample's losses: of each token that was to be predicted, in the order of the sample.
struct SampleLosses {
  std::int64_t sample = 0;
  std::vector<float> losses;
};

struct EvaluationResult {
  double loss = 0;  // mean over supervised tokens
  std::int64_t supervised = 0;
  std::int64_t samples = 0;  // that the loss covers
  std::int64_t steps = 0;
  Seconds seconds = 0;
  bool complete = false;  // false: stopped before the last sample
};

// What an evaluation Program is made for.
struct EvaluationNeed {
  const TokenizedSamples& samples;
  const std::vector<std::int64_t>& used;
  bool packing = true;
  std::int64_t slot_tokens = 0;
  std::int64_t most_slots = 1;   // of a call of the Program: per_device_eval_batch_size
  std::int64_t micro_batch = 1;  // slots of a layer call, at most
  std::int64_t weight_slots = 2;
  Bytes device_budget = {};
};

// An evaluation Program of as many slots as are wanted, as the samples fill (spread evenly over the calls, so
// that hardly a slot is padding), as a Program can have layer calls, and as fit. Error(does_not_fit) where
// not even one slot does.
[[nodiscard]] Program plan_evaluation(const LoweringContext& context, DataType type, const Machine& machine,
                                      const EvaluationNeed& need);

// `stop` is asked between batches; a true answer ends the evaluation early (the result covers what was done).
// `by_sample`, if not null, receives the losses of every token, in the order in which the samples were
// packed.
EvaluationResult evaluate(Session& session, const Program& program, const TokenizedSamples& samples,
                          const std::vector<std::int64_t>& used, bool packing,
                          const std::function<bool()>& stop = {},
                          std::vector<SampleLosses>* by_sample = nullptr);

// A PackedBatch as the executor takes it.
StepTokens step_tokens(const PackedBatch& batch);

}  // namespace lazytrain
