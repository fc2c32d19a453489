#include "training/evaluation.h"

#include <algorithm>
#include <chrono>

namespace lazytrain {

StepTokens step_tokens(const PackedBatch& batch) {
  return {.slots = batch.slots,
          .slot_tokens = batch.slot_tokens,
          .tokens = batch.tokens,
          .positions = batch.positions,
          .document_start = batch.document_start,
          .targets = batch.targets};
}

EvaluationResult evaluate(Session& session, const Program& program, const TokenizedSamples& samples,
                          const std::vector<std::int64_t>& used, bool packing,
                          const std::function<bool()>& stop) {
  const auto begin = std::chrono::steady_clock::now();
  const PackingOptions options{.slot_tokens = program.batch.slot_tokens,
                               .slots_per_step = program.batch.slots,
                               .packing = packing,
                               .shuffle = false,
                               .seed = 0};
  const EpochSlots epoch = pack_epoch(samples, used, options, 0);
  EvaluationResult result;
  double sum = 0;
  std::int64_t slot = 0;
  for (; slot < epoch.slots(); slot += program.batch.slots) {
    if (stop && stop()) break;
    const PackedBatch batch =
        make_batch(samples, epoch, slot, program.batch.slots, program.batch.slot_tokens);
    const StepOutcome outcome = session.executor().evaluate(program, step_tokens(batch));
    sum += outcome.loss_sum;
    result.supervised += outcome.supervised;
    ++result.steps;
  }
  const std::int64_t done = std::min(slot, epoch.slots());
  result.samples = epoch.begin[static_cast<std::size_t>(done)];
  result.complete = done == epoch.slots();
  result.loss = result.supervised > 0 ? sum / static_cast<double>(result.supervised) : 0;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace lazytrain
