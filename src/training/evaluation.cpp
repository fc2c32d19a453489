#include "training/evaluation.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "core/error.h"
#include "model/vocabulary.h"
#include "program/verifier.h"
#include "runtime/workspace.h"

namespace lazytrain {
namespace {

// The slots of each call where `needed` slots are spread over the fewest calls of at most `most`.
std::int64_t spread(std::int64_t needed, std::int64_t most) {
  const std::int64_t calls = (needed + most - 1) / most;
  return (needed + calls - 1) / calls;
}

// The losses of slots [first, last) of an epoch, which come in the order of their samples, sample by sample.
void share_out(std::span<const float> losses, const TokenizedSamples& samples, const EpochSlots& epoch,
               std::int64_t first, std::int64_t last, std::vector<SampleLosses>& by_sample) {
  for (std::int64_t at = epoch.begin[static_cast<std::size_t>(first)];
       at < epoch.begin[static_cast<std::size_t>(last)]; ++at) {
    const std::int64_t sample = epoch.order[static_cast<std::size_t>(at)];
    const std::vector<std::uint8_t> marks = samples[sample].supervised;
    const auto count = static_cast<std::size_t>(
        std::count_if(marks.begin() + 1, marks.end(), [](auto m) { return m != 0; }));
    check(count <= losses.size(), "a loss for every token that is learned");
    by_sample.push_back({.sample = sample, .losses = {losses.begin(), losses.begin() + count}});
    losses = losses.subspan(count);
  }
  check(losses.empty(), "a token that is learned for every loss");
}

}  // namespace

Program plan_evaluation(const LoweringContext& context, DataType type, const Machine& machine,
                        const EvaluationNeed& need) {
  const PackingOptions packing{.slot_tokens = need.slot_tokens,
                               .slots_per_step = 1,
                               .packing = need.packing,
                               .shuffle = false,
                               .seed = 0};
  const std::int64_t needed =
      std::max<std::int64_t>(1, pack_epoch(need.samples, need.used, packing, 0).slots());
  const std::int64_t micro_batch = std::max<std::int64_t>(1, need.micro_batch);
  const std::int64_t calls = std::max<std::int64_t>(1, kMostLayerCalls / context.architecture.layers);
  std::int64_t most =
      std::min({need.most_slots, calls * micro_batch, kMaxStepTokens / need.slot_tokens, needed});
  // In slices the head costs some more ops; its weights are loaded once in any case.
  const std::int64_t blocks =
      machine.tiers == TierModel::unified ? 1 : vocabulary_blocks(context.architecture.vocab);
  for (most = std::max<std::int64_t>(1, most);;
       most = most > micro_batch ? std::max(micro_batch, most / 2) : most - 1) {
    const std::int64_t slots = spread(needed, most);
    const BatchGeometry batch{
        .slots = slots, .slot_tokens = need.slot_tokens, .micro_batch = std::min(micro_batch, slots)};
    const WorkspaceBytes workspace =
        workspace_bytes(context.architecture, type, batch.micro_batch, batch.slot_tokens);
    const auto fits = [&](const Program& program) {
      return program.device_bytes <= need.device_budget &&
             (machine.tiers == TierModel::unified || program.host_bytes <= machine.host_capacity);
    };
    Program program = lower_evaluate(context, batch, need.weight_slots, workspace);
    if (!fits(program) && blocks > 1)
      program = lower_evaluate(context, batch, need.weight_slots, workspace, blocks);
    if (fits(program)) {
      verify_or_throw(program, machine);
      return program;
    }
    if (most > 1) continue;
    fail(ExitCode::does_not_fit,
         "evaluating one slot of {} tokens needs {} on the device and {} on the host, which have {} and {}; "
         "raise device_memory or lower cutoff_len",
         need.slot_tokens, format_bytes(program.device_bytes), format_bytes(program.host_bytes),
         format_bytes(need.device_budget), format_bytes(machine.host_capacity));
  }
}

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
                          const std::function<bool()>& stop, std::vector<SampleLosses>* by_sample) {
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
    const StepOutcome outcome =
        session.executor().evaluate(program, step_tokens(batch), by_sample != nullptr);
    if (by_sample != nullptr)
      share_out(outcome.token_losses, samples, epoch, slot,
                std::min(slot + program.batch.slots, epoch.slots()), *by_sample);
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
