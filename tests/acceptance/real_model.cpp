// The imported model against PyTorch: loss of every token of a paragraph, then the recorded AdamW run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "acceptance/acceptance.h"
#include "program/verifier.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

constexpr std::int64_t kSlots = 3, kSlotTokens = 288, kEvalDocuments = 5;

struct ModelRun {
  ModelRun(const ModelFolder& folder, DataType type, std::int64_t paragraph_tokens)
      : session(folder.architecture(), options_of(type)) {
    const LoweringContext& context = session.context();
    const auto workspace = [&](const BatchGeometry& batch) {
      return workspace_bytes(context.architecture, type, batch.micro_batch, batch.slot_tokens);
    };
    const BatchGeometry batch{.slots = kSlots, .slot_tokens = kSlotTokens, .micro_batch = 1};
    const BatchGeometry one{.slots = 1, .slot_tokens = paragraph_tokens, .micro_batch = 1};
    train = lower_train_step(context, simple_plan(context.architecture, batch, StashLevel::all),
                             workspace(batch));
    evaluate = lower_evaluate(context, batch, 2, workspace(batch));
    paragraph = lower_evaluate(context, one, 2, workspace(one));
    const Program* all[] = {&train, &evaluate, &paragraph};
    for (const Program* program : all) verify_or_throw(*program, machine_for(*program));
    session.allocate(all);
    session.load(folder);
  }

  static SessionOptions options_of(DataType type) {
    return {.type = type,
            .device = {.compute_threads = available_cores(), .host_threads = available_cores()},
            .position_rows = kSlotTokens,
            .max_gradient_norm = 1.0};
  }

  double mean_loss(const std::vector<Document>& documents) {
    double sum = 0;
    std::int64_t supervised = 0;
    for (auto first = documents.begin(); first != documents.end();) {
      const auto last = first + std::min<std::ptrdiff_t>(kEvalDocuments, documents.end() - first);
      const Tokens tokens = pack({first, last}, kSlots, kSlotTokens);
      const StepOutcome outcome = session.executor().evaluate(evaluate, tokens.view());
      sum += outcome.loss_sum;
      supervised += outcome.supervised;
      first = last;
    }
    return sum / static_cast<double>(supervised);
  }

  Session session;
  Program train, evaluate, paragraph;
};

void compare_paragraph(ModelRun& run, const Recording& recording, DataType type, Bars& bars) {
  const auto length = static_cast<std::int64_t>(recording.paragraph.size());
  const Tokens tokens = pack({{.ids = recording.paragraph, .supervised_from = 1}}, 1, length);
  const StepOutcome outcome = run.session.executor().evaluate(run.paragraph, tokens.view(), true);
  double worst = 0, mean = 0;
  const std::size_t count = recording.paragraph_nll.size();
  bars.holds(fmt::format("{} tokens of the paragraph have a loss", count),
             outcome.token_losses.size() == count);
  for (std::size_t i = 0; i < std::min(count, outcome.token_losses.size()); ++i) {
    worst = std::max(worst, std::abs(outcome.token_losses[i] - recording.paragraph_nll[i]));
    mean += recording.paragraph_nll[i] / static_cast<double>(count);
  }
  const double got = outcome.loss_sum / static_cast<double>(outcome.supervised);
  fmt::print("  mean loss of the paragraph {:.6f}, recorded {:.6f}\n", got, mean);
  if (type == DataType::f32)
    bars.at_most("largest difference of a token's loss", worst, 1e-3);
  else
    bars.at_most("difference of the mean loss", std::abs(got - mean), 3e-3);
}

void compare_steps(ModelRun& run, const Recording& recording, DataType type, Bars& bars) {
  double worst_loss = 0, worst_norm = 0, worst_relative = 0;
  fmt::print("  step  loss       recorded   norm      recorded  seconds\n");
  for (std::size_t step = 0; step < recording.steps.size(); ++step) {
    const Recording::Step& expected = recording.steps[step];
    const Tokens tokens = pack(recording.documents[step], kSlots, kSlotTokens);
    const StepOutcome outcome = run.session.executor().train(
        run.train, tokens.view(),
        {.lr = expected.lr, .weight_decay = 0.01, .step = static_cast<std::int64_t>(step) + 1});
    const double loss = outcome.loss_sum / static_cast<double>(outcome.supervised);
    fmt::print("  {:>4}  {:.7f}  {:.7f}  {:.6f}  {:.6f}  {:.2f}\n", step, loss, expected.loss,
               outcome.gradient_norm, expected.norm, outcome.seconds);
    std::fflush(stdout);
    if (outcome.supervised != expected.supervised)
      bars.holds(fmt::format("step {} has {} supervised tokens", step, expected.supervised), false);
    worst_loss = std::max(worst_loss, std::abs(loss - expected.loss));
    worst_relative = std::max(worst_relative, std::abs(loss / expected.loss - 1));
    worst_norm = std::max(worst_norm, std::abs(outcome.gradient_norm / expected.norm - 1));
  }
  if (type == DataType::f32) {
    bars.at_most("largest difference of a step's loss", worst_loss, 2e-5);
    bars.at_most("largest relative difference of a norm", worst_norm, 2e-4);
  } else {
    bars.at_most("largest relative difference of a step's loss", worst_relative, 0.03);
    fmt::print("  largest relative difference of a norm {:.2e} (no bar)\n", worst_norm);
  }
}

// Figures without a bar of their own: how far the weights are from the recorded ones.
void compare_tensors(const Session& session, const Recording& recording, Bars& bars) {
  double first = 0, l2 = 0;
  std::size_t found = 0;
  for (std::size_t g = 0; g < session.context().groups.size(); ++g) {
    const ParameterGroup& group = session.context().groups[g];
    std::vector<float> values(static_cast<std::size_t>(group.elements));
    session.read_masters(g, values);
    for (const ParameterTensor& tensor : group.tensors)
      for (const Recording::Tensor& expected : recording.final_tensors) {
        if (expected.name != tensor.name) continue;
        ++found;
        const float* begin = values.data() + tensor.offset;
        double squares = 0;
        for (std::int64_t i = 0; i < tensor.elements; ++i)
          squares += static_cast<double>(begin[i]) * begin[i];
        l2 = std::max(l2, std::abs(std::sqrt(squares) / expected.l2 - 1));
        for (std::size_t i = 0; i < expected.first.size(); ++i)
          first = std::max(first, std::abs(begin[i] - expected.first[i]));
      }
  }
  bars.holds(fmt::format("all {} recorded tensors are in the model", recording.final_tensors.size()),
             found == recording.final_tensors.size());
  fmt::print("  after the run: their first 8 values differ by at most {:.2e}, their l2 by {:.1e} of itself\n",
             first, l2);
}

}  // namespace

bool real_model(const std::filesystem::path& model, DataType type) {
  const Recording recording = read_recording();
  const ModelFolder folder(model);
  Bars bars;
  ModelRun run(folder, type, static_cast<std::int64_t>(recording.paragraph.size()));
  compare_paragraph(run, recording, type, bars);
  const double before = run.mean_loss(recording.eval_documents);
  compare_steps(run, recording, type, bars);
  const double after = run.mean_loss(recording.eval_documents);
  fmt::print("  held-out loss {:.6f} -> {:.6f}, recorded {:.6f} -> {:.6f}\n", before, after,
             recording.eval_before, recording.eval_after);
  const double bar = type == DataType::f32 ? 1e-4 : 0.03 * recording.eval_after;
  bars.at_most("difference of the held-out loss before", std::abs(before - recording.eval_before), bar);
  bars.at_most("difference of the held-out loss after", std::abs(after - recording.eval_after), bar);
  compare_tensors(run.session, recording, bars);
  return bars.all_held();
}

}  // namespace lazytrain::test
