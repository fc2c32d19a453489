#include "program/lowering_head.h"

#include "core/error.h"
#include "model/vocabulary.h"

namespace lazytrain {
namespace {

// The projection's group, and its first element there.
struct ProjectionHome {
  std::size_t group;
  std::int64_t offset;
};

ProjectionHome projection_home(const LoweringContext& context) {
  if (context.architecture.tied_head) return {0, context.groups.front().tensors.front().offset};
  return {context.groups.size() - 1, context.groups.back().tensors[1].offset};
}

// Of the final norm, up to where the projection begins.
std::int64_t norm_elements(const LoweringContext& context) {
  return context.architecture.tied_head ? context.groups.back().elements : projection_home(context).offset;
}

VocabularySlice slice_of(const HeadLowering& head, std::int32_t s) {
  return vocabulary_slice(head.context.architecture.vocab, s, head.slices);
}

std::int32_t micro_batches_of(const HeadLowering& head) {
  return static_cast<std::int32_t>(head.geometry.micro_batches());
}

// By micro-batch.
std::vector<BufferId> row_buffers(const HeadLowering& head, const char* name, std::int64_t bytes_a_row) {
  std::vector<BufferId> buffers;
  buffers.reserve(static_cast<std::size_t>(micro_batches_of(head)));
  for (std::int32_t m = 0; m < micro_batches_of(head); ++m)
    buffers.push_back(head.builder.transient(fmt::format("{}.m{}", name, m), Tier::device,
                                             {head.geometry.rows_of(m) * bytes_a_row}));
  return buffers;
}

Operand load(const HeadLowering& head, int load_at, Op op, BufferId home, const std::string& name,
             OperandRole role) {
  const BufferId buffer = head.builder.transient(name, Tier::device, op.bytes);
  op.kind = OpKind::load_head;
  op.stream = StreamId::h2d;
  op.operands = {{OperandRole::input, home, Access::read}, {OperandRole::output, buffer, Access::write}};
  head.builder.before(load_at, std::move(op), true);
  return {role, buffer, Access::read};
}

Operand load_norm(const HeadLowering& head) {
  Op op{};
  op.elements = norm_elements(head.context);
  op.bytes = {op.elements * head.context.type_bytes};
  return load(head, head.load_at, std::move(op), head.state.weights.back(), "dev.head", OperandRole::weights);
}

Operand load_slice(const HeadLowering& head, std::int32_t s, int load_at) {
  const std::int64_t width = head.context.architecture.hidden;
  const VocabularySlice slice = slice_of(head, s);
  const ProjectionHome home = projection_home(head.context);
  Op op{};
  op.slice = s;
  op.elements = slice.tokens * width;
  op.bytes = {op.elements * head.context.type_bytes};
  op.from = {(home.offset + slice.first * width) * head.context.type_bytes};
  return load(head, load_at, std::move(op), head.state.weights[home.group], name_of("dev.projection", s),
              OperandRole::projection);
}

// While the slice before is worked on.
int beside_slice_before(const HeadLowering& head) {
  return head.builder.next_compute() - micro_batches_of(head);
}

Op slice_op(const HeadLowering& head, OpKind kind, std::int32_t s, std::int32_t m,
            const SlicedForward& parameters) {
  Op op{.kind = kind, .stream = StreamId::compute, .micro_batch = m, .slice = s};
  op.operands = parameters.norm;
  op.operands.insert(op.operands.end(),
                     {parameters.projection,
                      {OperandRole::input, head.inputs[static_cast<std::size_t>(m)], Access::read},
                      {OperandRole::scores, parameters.scores[static_cast<std::size_t>(m)],
                       kind == OpKind::head_backward ? Access::read
                       : s == 0                      ? Access::write
                                                     : Access::read_write},
                      {OperandRole::batch, head.batch, Access::read},
                      {OperandRole::workspace, head.workspace, Access::read_write}});
  return op;
}

class Backward {
 public:
  Backward(const HeadLowering& head, const HeadTraining& training, SlicedForward parameters)
      : head_(head),
        training_(training),
        parameters_(std::move(parameters)),
        tied_(head.context.architecture.tied_head),
        slices_(static_cast<std::int32_t>(head.slices)),
        normed_(row_buffers(head, "dev.normed", head.context.architecture.hidden * 4)),
        gradients_(row_buffers(head, "dev.db", head.context.architecture.hidden * head.context.type_bytes)),
        norm_accumulator_(
            head.builder.transient("dev.acc_head", Tier::device, {norm_elements(head.context) * 4})) {}

  void lower() {
    for (std::int32_t s = slices_ - 1; s >= 0; --s) slice(s);
    offload_norm();
  }

 private:
  void slice(std::int32_t s) {
    const bool last = s == slices_ - 1;  // which is still there, from its forward
    if (!last) parameters_.projection = load_slice(head_, s, beside_slice_before(head_));
    const std::int64_t elements = slice_of(head_, s).tokens * head_.context.architecture.hidden;
    const BufferId accumulator =
        head_.builder.transient(name_of("dev.acc_projection", s), Tier::device, {elements * 4});
    const std::int32_t micro_batches = micro_batches_of(head_);
    const auto first = [](bool it_is) { return it_is ? Access::write : Access::read_write; };
    int compute = -1;
    for (std::int32_t m = 0; m < micro_batches; ++m) {
      const auto at = static_cast<std::size_t>(m);
      Op op = slice_op(head_, OpKind::head_backward, s, m, parameters_);
      op.first = m == 0;
      op.operands.push_back({OperandRole::normed_gradient, normed_[at], first(last)});
      op.operands.push_back({OperandRole::projection_accumulator, accumulator, first(m == 0)});
      if (s == 0) {
        op.operands.push_back({OperandRole::gradient, gradients_[at], Access::write});
        op.operands.push_back({OperandRole::accumulator, norm_accumulator_, first(m == 0)});
      }
      compute = head_.builder.compute(std::move(op));
      if (s == 0) training_.completed(m, gradients_[at], compute);
    }
    offload(s, elements, accumulator, compute);
    // It leaves while the next slice is worked on.
    head_.builder.hold_until(accumulator, compute + micro_batches);
  }

  // Rounded. Of a tied head, the rows of the step's tokens leave in fp32 too: the gradients of their inputs
  // have yet to be added.
  void offload(std::int32_t s, std::int64_t elements, BufferId accumulator, int compute) {
    const LoweringContext& context = head_.context;
    const Access access = s == slices_ - 1 ? Access::write : Access::read_write;
    Op op{.kind = OpKind::offload_head_gradient, .stream = StreamId::d2h, .slice = s};
    op.elements = elements;
    op.bytes = {elements * context.type_bytes};
    op.operands = {{OperandRole::projection_accumulator, accumulator, Access::read},
                   {tied_ ? OperandRole::output : OperandRole::group_gradient,
                    head_.state.gradient[projection_home(context).group], access}};
    if (tied_) {
      // Each row once in all; which of them are the slice's is known when the step runs.
      const Bytes all = gradient_rows_bytes(context, head_.geometry);
      const auto until = [&](std::int64_t token) {
        return all.value / 4 * token / context.architecture.vocab;
      };
      const VocabularySlice slice = slice_of(head_, s);
      op.bytes += Bytes{4 * (until(slice.first + slice.tokens) - until(slice.first))};
      op.reach = all;
      op.operands.push_back({OperandRole::gradient_rows, training_.gradient_rows, access});
      op.operands.push_back({OperandRole::batch, head_.batch, Access::read});
    }
    head_.builder.after(compute, std::move(op));
  }

  // The norm's gradient; then the squares of all that left in slices, which cut across the runs of a sum.
  void offload_norm() {
    const StateBuffers& state = head_.state;
    const int compute = head_.builder.next_compute() - 1;
    const Operand norm{OperandRole::norm, state.norm.back(), Access::write};
    Op offload{.kind = OpKind::offload_head_gradient, .stream = StreamId::d2h};
    offload.elements = norm_elements(head_.context);
    offload.bytes = {offload.elements * head_.context.type_bytes};
    offload.operands = {
        {OperandRole::accumulator, norm_accumulator_, Access::read},
        {OperandRole::group_gradient, state.gradient.back(), tied_ ? Access::write : Access::read_write}};
    if (tied_) offload.operands.push_back(norm);
    head_.builder.after(compute, std::move(offload));
    if (tied_) return;
    Op sum{.kind = OpKind::sum_head_gradient, .stream = StreamId::host};
    sum.elements = head_.context.groups.back().elements;
    sum.operands = {{OperandRole::group_gradient, state.gradient.back(), Access::read}, norm};
    head_.builder.after(compute, std::move(sum));
  }

  const HeadLowering& head_;
  const HeadTraining& training_;
  SlicedForward parameters_;
  bool tied_;
  std::int32_t slices_;
  std::vector<BufferId> normed_, gradients_;  // by micro-batch
  BufferId norm_accumulator_;
};

}  // namespace

void lower_whole_head(const HeadLowering& whole, const HeadTraining& training) {
  ProgramBuilder& builder = whole.builder;
  const LoweringContext& context = whole.context;
  const StateBuffers& state = whole.state;
  const std::size_t head = context.groups.size() - 1;
  const std::vector<Operand> parameters = use_head(builder, context, state, whole.load_at);
  const BufferId norm_accumulator =
      builder.transient("dev.acc_head", Tier::device, {context.groups[head].elements * 4});
  const bool tied = context.architecture.tied_head;
  const BufferId projection_accumulator =
      tied ? builder.transient("dev.acc_projection", Tier::device, {context.groups[0].elements * 4}) : -1;
  const std::int32_t micro_batches = micro_batches_of(whole);
  const int last_head = builder.next_compute() + micro_batches - 1;
  int compute = -1;
  for (std::int32_t m = 0; m < micro_batches; ++m) {
    const std::int64_t rows = whole.geometry.rows_of(m);
    const BufferId gradient =
        builder.transient(fmt::format("dev.db.m{}", m), Tier::device, boundary_bytes(context, rows));
    const BufferId loss = builder.transient(fmt::format("dev.loss.m{}", m), Tier::device, {rows * 4});
    Op op{.kind = OpKind::head_forward_backward,
          .stream = StreamId::compute,
          .micro_batch = m,
          .first = m == 0};
    op.operands = parameters;
    op.operands.insert(
        op.operands.end(),
        {{OperandRole::input, whole.inputs[static_cast<std::size_t>(m)], Access::read},
         {OperandRole::gradient, gradient, Access::write},
         {OperandRole::loss, loss, Access::write},
         {OperandRole::batch, whole.batch, Access::read},
         {OperandRole::accumulator, norm_accumulator, m == 0 ? Access::write : Access::read_write},
         {OperandRole::workspace, whole.workspace, Access::read_write}});
    if (tied)
      op.operands.push_back({OperandRole::projection_accumulator, projection_accumulator,
                             m == 0 ? Access::write : Access::read_write});
    if (training.retain_logits) {
      const BufferId logits = builder.transient(fmt::format("dev.logits.m{}", m), Tier::device,
                                                retained_logits_bytes(context, rows));
      builder.hold_until(logits, last_head);
      op.operands.push_back({OperandRole::logits, logits, Access::write});
    }
    compute = builder.compute(std::move(op));
    add_collect(builder, loss, m, {rows * 4}, compute);
    training.completed(m, gradient, compute);
  }
  // The head's gradient leaves rounded. A tied projection's becomes the embedding's, but for the rows of
  // the step's tokens: the gradients of their inputs have yet to be added, so these leave in fp32 too.
  Op offload{.kind = OpKind::offload_head_gradient,
             .stream = builder.unified() ? StreamId::compute : StreamId::d2h};
  offload.elements = context.groups[head].elements;
  offload.bytes = {context.groups[head].elements * context.type_bytes};
  offload.operands = {{OperandRole::accumulator, norm_accumulator, Access::read},
                      {OperandRole::group_gradient, state.gradient[head], Access::write},
                      {OperandRole::norm, state.norm[head], Access::write}};
  if (tied) {
    offload.elements += context.groups[0].elements;
    offload.bytes +=
        Bytes{context.groups[0].elements * context.type_bytes} + gradient_rows_bytes(context, whole.geometry);
    offload.operands.insert(offload.operands.end(),
                            {{OperandRole::projection_accumulator, projection_accumulator, Access::read},
                             {OperandRole::output, state.gradient[0], Access::write},
                             {OperandRole::gradient_rows, training.gradient_rows, Access::write},
                             {OperandRole::batch, whole.batch, Access::read}});
  }
  if (builder.unified())
    builder.compute(std::move(offload));
  else
    builder.after(compute, std::move(offload));
}

SlicedForward lower_head_forward(const HeadLowering& head) {
  check(!head.builder.unified(), "a head in slices is streamed");
  head.builder.head_slices(head.slices);
  SlicedForward result{.norm = {load_norm(head)},
                       .projection = {OperandRole::projection, -1, Access::read},
                       .scores = row_buffers(head, "dev.scores", kScoreBytes)};
  const std::vector<BufferId> losses = row_buffers(head, "dev.loss", 4);
  for (std::int32_t s = 0; s < head.slices; ++s) {
    result.projection = load_slice(head, s, s == 0 ? head.load_at : beside_slice_before(head));
    for (std::int32_t m = 0; m < micro_batches_of(head); ++m) {
      const BufferId loss = losses[static_cast<std::size_t>(m)];
      const bool last = s == head.slices - 1;
      Op op = slice_op(head, OpKind::head_forward, s, m, result);
      if (last) op.operands.push_back({OperandRole::loss, loss, Access::write});
      const int compute = head.builder.compute(std::move(op));
      if (last) add_collect(head.builder, loss, m, {head.geometry.rows_of(m) * 4}, compute);
    }
  }
  return result;
}

void lower_sliced_head(const HeadLowering& head, const HeadTraining& training) {
  Backward(head, training, lower_head_forward(head)).lower();
}

}  // namespace lazytrain
