#include "runtime/plan_runner.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/file.h"
#include "core/random.h"
#include "program/verifier.h"
#include "runtime/workspace.h"

namespace lazytrain::test {

std::string to_string(const RunResult& result) {
  std::string text = "losses";
  for (const double loss : result.losses) text += fmt::format(" {:.9g}", loss);
  text += ", norms";
  for (const double norm : result.norms) text += fmt::format(" {:.9g}", norm);
  return text + fmt::format(", parameters {:016x}", result.parameters);
}

Initialise random_parameters(std::uint64_t seed) {
  return [seed](Session& session) {
    for (std::size_t g = 0; g < session.context().groups.size(); ++g)
      session.set_group(g, random_group(session.context().groups[g], seed + g));
  };
}

PlanRunner::PlanRunner(const Architecture& architecture, SessionOptions options, std::vector<Plan> plans)
    : plans_(std::move(plans)) {
  const LoweringContext context = lowering_context(architecture, options);
  update_ = lower_update_only(context);
  Bytes device = update_.device_bytes;
  for (Plan& plan : plans_) {
    plan.groups = options.homes;
    programs_.push_back(lower_train_step(
        context, plan,
        workspace_bytes(architecture, options.type, plan.batch.micro_batch, plan.batch.slot_tokens)));
    verify_or_throw(programs_.back(), machine_for(programs_.back()));
    device = std::max(device, programs_.back().device_bytes);
  }
  if (context.tiers == TierModel::tiered) options.device.device_capacity = std::max(device, Bytes{1});
  session_ = std::make_unique<Session>(architecture, options);
  std::vector<const Program*> all{&update_};
  for (const Program& program : programs_) all.push_back(&program);
  session_->allocate(all);
}

RunResult PlanRunner::run(std::size_t plan, const std::vector<Tokens>& batches,
                          const Initialise& initialise) {
  return run(std::vector(batches.size(), plan), batches, initialise);
}

RunResult PlanRunner::run(const std::vector<std::size_t>& plan_of_step, const std::vector<Tokens>& batches,
                          const Initialise& initialise) {
  initialise(*session_);
  Executor& executor = session_->executor();
  RunResult result;
  for (std::size_t step = 0; step < batches.size(); ++step) {
    const StepOutcome outcome =
        executor.train(programs_[plan_of_step[step]], batches[step].view(),
                       {.lr = 1e-3, .weight_decay = 0.1, .step = static_cast<std::int64_t>(step) + 1});
    result.losses.push_back(outcome.loss_sum / static_cast<double>(outcome.supervised));
    result.norms.push_back(outcome.gradient_norm);
  }
  executor.drain(update_);
  Checksum sum;
  for (std::size_t g = 0; g < session_->context().groups.size(); ++g) {
    sum.add(session_->weights(g, false));
    StateWindow& states = executor.states();
    for (std::size_t p = 0; p < states.pieces(g); ++p) sum.add(states.piece(g, p, false));
  }
  result.parameters = sum.value();
  return result;
}

}  // namespace lazytrain::test
