#include "runtime/executor.h"

#include <algorithm>
#include <chrono>

#include "model/rope.h"
#include "runtime/batch_arrays.h"
#include "runtime/executor_running.h"
#include "runtime/poison.h"

namespace lazytrain {
static_assert(kScoreBytes == kSoftmaxScores * 4, "Programs have room for the scores that the device writes");
static_assert(kNormRun == kNormChunk, "Programs have room for the partial sums that the device writes");
namespace {

using Clock = std::chrono::steady_clock;

StreamKind kind_of(StreamId stream) {
  switch (stream) {
    case StreamId::compute:
      return StreamKind::compute;
    case StreamId::h2d:
      return StreamKind::h2d;
    case StreamId::d2h:
      return StreamKind::d2h;
    case StreamId::host:
      return StreamKind::host;
    case StreamId::disk_read:
      return StreamKind::disk_read;
    case StreamId::disk_write:
      return StreamKind::disk_write;
  }
  return StreamKind::host;
}

}  // namespace

// What is worked out once per Program.
struct Executor::Prepared {
  const Program* program = nullptr;
  std::vector<std::int32_t> event;  // of an op, index into events_; -1 where no other stream waits for it
};

Executor::Executor(CpuDevice& device, const LoweringContext& context, const ExecutorOptions& options,
                   std::vector<GroupStateLayout> states)
    : device_(device),
      context_(context),
      options_(options),
      layer_(context.architecture, options.type),
      head_(context.architecture, options.type),
      state_layouts_(std::move(states)) {
  for (const GroupStateLayout& layout : state_layouts_) {
    piece_layouts_.emplace_back();
    for (const StatePiece& piece : layout.pieces)
      piece_layouts_.back().push_back(lazytrain::piece_layout(layout, piece));
  }
  for (std::size_t s = 0; s < kStreamCount; ++s)
    streams_.push_back(device.create_stream(kind_of(static_cast<StreamId>(s))));
}

Executor::~Executor() {
  for (const auto& stream : streams_) {
    try {
      device_.synchronize(*stream);
    } catch (...) {  // reported where the run that caused it was waited for
    }
  }
}

const Executor::Prepared& Executor::prepare(const Program& program) {
  if (prepared_ != nullptr && prepared_->program == &program && prepared_->event.size() == program.ops.size())
    return *prepared_;
  prepared_ = std::make_unique<Prepared>();
  prepared_->program = &program;
  prepared_->event.assign(program.ops.size(), -1);
  std::int32_t events = 0;
  for (const Op& op : program.ops)
    for (const OpIndex other : op.after) {
      std::int32_t& event = prepared_->event[static_cast<std::size_t>(other)];
      if (event < 0) event = events++;
    }
  while (static_cast<std::int32_t>(events_.size()) < events) events_.push_back(device_.create_event());
  // A step may be the first to meet a number of supervised rows: their products are compiled now.
  const auto has = [&](OpKind kind) {
    return std::any_of(program.ops.begin(), program.ops.end(),
                       [kind](const Op& op) { return op.kind == kind; });
  };
  if (const bool backward = has(OpKind::head_forward_backward) || has(OpKind::head_backward);
      backward || has(OpKind::head_forward))
    head_.prepare(device_, program.batch.slot_tokens, backward);
  // The rotary tables are constants of the run; a Program may have been laid out anew.
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id) {
    if (program.at(id).name != "dev.rope") continue;
    auto* cosine = reinterpret_cast<float*>(address(program, id));
    const auto half = static_cast<std::size_t>(context_.position_rows * context_.architecture.head_dim / 2);
    fill_rope_tables(context_.architecture.rope, context_.architecture.head_dim, context_.position_rows,
                     {cosine, half}, {cosine + half, half});
  }
  return *prepared_;
}

StepOutcome Executor::run(const Program& program, Running& running) {
  const Prepared& prepared = prepare(program);
  for (StateWindow* window : {&states_, &weights_}) window->release();  // their buffers are the step's now
  const auto begin = Clock::now();
  if (running.timings) running.outcome.timings.assign(program.ops.size(), {});
  const auto since = [begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  // Work in the streams refers to `running`: whatever fails, all of it has ended before this returns.
  std::exception_ptr failure;
  try {
    for (std::size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      Stream& stream = *streams_[static_cast<std::size_t>(op.stream)];
      for (const OpIndex other : op.after)
        device_.wait(stream,
                     *events_[static_cast<std::size_t>(prepared.event[static_cast<std::size_t>(other)])]);
      OpTiming* timing = running.timings ? &running.outcome.timings[i] : nullptr;
      if (timing != nullptr) device_.call(stream, [=] { timing->start = since(); });
      if (options_.debug_memory) poison_all_but(program, op, device_arena_, host_arena_);
      issue(program, op, running, stream);
      if (timing != nullptr) device_.call(stream, [=] { timing->end = since(); });
      if (prepared.event[i] >= 0)
        device_.record(stream, *events_[static_cast<std::size_t>(prepared.event[i])]);
      if (options_.debug_memory) {
        device_.synchronize(stream);
        unpoison(device_arena_, host_arena_);
      }
    }
  } catch (...) {
    failure = std::current_exception();
  }
  for (const auto& stream : streams_) {
    try {
      device_.synchronize(*stream);
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  running.outcome.seconds = since();
  return std::move(running.outcome);
}

// A target that no token has would be in no slice of the head, and its loss be what was there before.
void Executor::check_targets(const StepTokens& tokens) const {
  for (const std::int32_t target : tokens.targets)
    check(target < context_.architecture.vocab, "targets lie in the vocabulary");
}

StepOutcome Executor::train(const Program& program, const StepTokens& tokens, const AdamWStep& update,
                            bool timings) {
  check(program.kind == ProgramKind::train_step, "train() runs a training step");
  check(tokens.slots == program.batch.slots && tokens.slot_tokens == program.batch.slot_tokens,
        "the tokens have the Program's shape");
  Running running;
  running.tokens = &tokens;
  running.row_tokens = tokens.tokens;
  running.batch_rows = tokens.slots * tokens.slot_tokens;
  running.timings = timings;
  check_targets(tokens);
  running.counts = fill_batch(host_batch(program), tokens);
  const std::int64_t distinct =
      fill_token_rows(host_batch(program), tokens, context_.architecture.padding_token);
  running.distinct = {batch_array(host_batch(program), kDistinctTokens, running.batch_rows),
                      static_cast<std::size_t>(distinct)};
  for (const std::int32_t count : running.counts) running.outcome.supervised += count;
  const bool overlapped = begins_with_updates(program);
  if (overlapped) {
    running.update = pending_;
    pending_.reset();
  } else {
    check(!pending_.has_value(), "updates are drained before a step without overlap");
    running.update = update;
    running.update_after_norm = true;
  }
  StepOutcome outcome = run(program, running);
  if (overlapped && outcome.finite) pending_ = update;
  return outcome;
}

void Executor::drain(const Program& update_only) {
  if (!pending_.has_value()) return;
  Running running;
  running.update = pending_;
  pending_.reset();
  run(update_only, running);
}

StepOutcome Executor::evaluate(const Program& program, const StepTokens& tokens, bool token_losses) {
  check(program.kind == ProgramKind::evaluate, "evaluate() runs an evaluation");
  check(!pending_.has_value(), "updates are drained before an evaluation");
  Running running;
  running.tokens = &tokens;
  running.row_tokens = tokens.tokens;
  running.batch_rows = tokens.slots * tokens.slot_tokens;
  running.token_losses = token_losses;
  check_targets(tokens);
  running.counts = fill_batch(host_batch(program), tokens);
  for (const std::int32_t count : running.counts) running.outcome.supervised += count;
  return run(program, running);
}

StepOutcome Executor::prefill(const Program& program, const GenerationGeometry& geometry,
                              const PrefillTokens& tokens) {
  Running running;
  running.row_tokens = tokens.tokens;
  running.batch_rows = std::max(geometry.prefill.slots * geometry.prefill.slot_tokens, geometry.sequences);
  running.sequences = running.head_count = geometry.sequences;
  running.capacity = geometry.capacity;
  fill_batch(host_batch(program), running.batch_rows, tokens);
  return run(program, running);
}

StepOutcome Executor::decode(const Program& program, const GenerationGeometry& geometry,
                             const DecodeTokens& tokens) {
  Running running;
  running.row_tokens = tokens.tokens;
  running.batch_rows = std::max(geometry.prefill.slots * geometry.prefill.slot_tokens, geometry.sequences);
  running.sequences = running.head_count = geometry.sequences;
  running.capacity = geometry.capacity;
  fill_batch(host_batch(program), running.batch_rows, tokens);
  return run(program, running);
}

std::byte* Executor::host_batch(const Program& program) const {
  const char* name = context_.tiers == TierModel::unified ? "dev.batch" : "host.batch";
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id)
    if (program.at(id).name == name) return address(program, id);
  throw std::logic_error("internal error: a Program without a batch buffer");
}

}  // namespace lazytrain
