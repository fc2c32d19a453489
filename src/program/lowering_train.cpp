// The training step: forward layer by layer over all micro-batches, head, then backward block by block. Each
// object crosses a link where the plan says that its home is the host or the disk.

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "program/lowering_activations.h"
#include "program/lowering_common.h"
#include "program/lowering_head.h"

namespace lazytrain {
namespace {

class TrainLowering {
 public:
  TrainLowering(const LoweringContext& context, const Plan& plan, const WorkspaceBytes& workspace)
      : context_(context),
        plan_(plan),
        builder_(ProgramKind::train_step, context, plan.batch),
        layers_(static_cast<std::int32_t>(context.architecture.layers)),
        micro_batches_(static_cast<std::int32_t>(plan.batch.micro_batches())),
        state_(add_state_buffers(builder_, context)),
        host_weights_(context_, state_),
        updates_(context_, state_, host_weights_),
        common_(add_device_common(builder_, context, plan.batch.slots * plan.batch.slot_tokens, Bytes{0})),
        forward_workspace_(builder_.transient("dev.workspace.forward", Tier::device, workspace.forward)),
        head_workspace_(builder_.transient("dev.workspace.head", Tier::device,
                                           in_slices() ? workspace.head_slice : workspace.head)),
        backward_workspace_(
            builder_.transient("dev.workspace.backward", Tier::device,
                               std::max({workspace.forward, workspace.recompute, workspace.backward}))),
        gradient_rows_(builder_.transient(builder_.unified() ? "dev.rows" : "host.rows", builder_.host_tier(),
                                          gradient_rows_bytes(context, plan.batch))),
        weights_(builder_, context, host_weights_, plan.weight_slots),
        disk_(builder_, plan.activation_stage_slots) {
    const Bytes largest{largest_layer(context) * 4};
    const std::int64_t slots =
        builder_.unified() ? 1 : std::min(plan.gradient_slots, context.architecture.layers);
    for (std::int64_t k = 0; k < slots; ++k)
      accumulators_.push_back(builder_.transient(name_of("dev.acc", k), Tier::device, largest));
    boundary_.assign(static_cast<std::size_t>(layers_) + 1,
                     std::vector<BufferId>(static_cast<std::size_t>(micro_batches_), -1));
    stash_ = boundary_;
    host_boundary_.assign(boundary_.size(), std::vector<HostCopy>(static_cast<std::size_t>(micro_batches_)));
    host_stash_ = host_boundary_;
    gradient_.assign(static_cast<std::size_t>(micro_batches_), -1);
    host_gradient_.assign(gradient_.size(), {});
  }

  Program lower(LoweringDepth depth) {
    const std::size_t embedding = 0, head = context_.groups.size() - 1;
    if (plan_.optimizer_overlap) update_at_start(embedding);
    for (std::int32_t m = 0; m < micro_batches_; ++m) gather(m);
    if (plan_.optimizer_overlap) {
      if (any_resident(context_)) builder_.before(0, load_clip(state_));
      for (std::size_t g = 1; g <= head; ++g)
        if (const GroupPlan home = home_of(context_, g); !home.weights_on_disk && !home.on_device)
          update_at_start(g);
    }
    if (!context_.architecture.tied_head) {
      Op zero{.kind = OpKind::zero_embedding_gradient,
              .stream = StreamId::host,
              .elements = context_.groups[0].elements};
      zero.operands = {{OperandRole::group_gradient, state_.gradient[0], Access::write},
                       {OperandRole::gradient_rows, gradient_rows_, Access::write}};
      builder_.before(0, std::move(zero));
    }
    add_load_batch(builder_, common_, plan_.batch.slots * plan_.batch.slot_tokens);

    for (std::int32_t l = 0; l < layers_; ++l) forward(l, false);
    disk_.begin_reading();
    head_step();
    const std::vector<Block> blocks = blocks_of(plan_);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      sweep(*block);
      for (std::int32_t l = block->end - 1; l >= block->begin; --l) backward(l);
    }
    embedding_gradient();
    if (!plan_.optimizer_overlap) update_at_end();
    return builder_.finish(depth);
  }

 private:
  [[nodiscard]] Bytes boundary_size(std::int32_t m) const {
    return boundary_bytes(context_, plan_.batch.rows_of(m));
  }
  // On unified machines everything that is not on disk is on the device.
  [[nodiscard]] bool boundary_on_device(std::int32_t b, std::int32_t m) const {
    const BoundaryPlan& plan = plan_.boundaries[at(b)];
    return m < (builder_.unified() ? micro_batches_ - plan.disk_micro_batches : plan.device_micro_batches);
  }
  [[nodiscard]] bool stash_on_device(std::int32_t l, std::int32_t m) const {
    const LayerPlan& plan = plan_.layers[at(l)];
    return m < (builder_.unified() ? micro_batches_ - plan.stash_disk_micro_batches
                                   : plan.stash_device_micro_batches);
  }
  // Boundary 0 is gathered again instead: it costs less than the way to the disk. The last one never leaves.
  [[nodiscard]] bool boundary_on_disk(std::int32_t b, std::int32_t m) const {
    return b > 0 && b < layers_ && plan_.boundaries[at(b)].materialised &&
           m >= micro_batches_ - plan_.boundaries[at(b)].disk_micro_batches;
  }
  [[nodiscard]] bool gathered_again(std::int32_t m) const {
    return m >= micro_batches_ - plan_.boundaries.front().disk_micro_batches;
  }
  [[nodiscard]] bool stash_on_disk(std::int32_t l, std::int32_t m) const {
    return m >= micro_batches_ - plan_.layers[at(l)].stash_disk_micro_batches;
  }
  static std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
  void update_at_start(std::size_t group) {
    for (Op& op : updates_.update(group).ops) builder_.before(0, std::move(op));
  }
  // Those of resident layers run beside those on the host.
  void update_at_end() {
    const auto updates = [&](bool resident, const auto& place) {
      for (std::size_t g = 0; g < context_.groups.size(); ++g)
        if (home_of(context_, g).on_device == resident)
          for (Op& op : updates_.update(g).ops) place(std::move(op));
    };
    updates(false, [&](Op op) { at_end(std::move(op)); });
    if (!any_resident(context_)) return;
    at_end(load_clip(state_));
    updates(true, [&](Op op) { builder_.compute(std::move(op)); });
  }
  void at_end(Op op) { builder_.after(builder_.next_compute() - 1, std::move(op)); }
  // Where a fetch for the compute op that comes next goes: `fetch_lead` ops ahead, but behind the op after
  // which its source began to leave the device.
  [[nodiscard]] int fetch_at(int left_after) {
    return std::max(builder_.next_compute() - static_cast<int>(plan_.fetch_lead), left_after + 1);
  }

  // Embedding rows: on unified machines straight into boundary 0, else into a host buffer that is fetched.
  void gather(std::int32_t m) {
    const BufferId target = builder_.unified()
                                ? builder_.transient(name_of("dev.b", 0, m), Tier::device, boundary_size(m))
                                : builder_.transient(name_of("host.b", 0, m), Tier::host, boundary_size(m));
    if (builder_.unified())
      boundary_[0][at(m)] = target;
    else
      host_boundary_[0][at(m)] = {target, -1};
    Op op = gather_op(m);
    op.operands.push_back({OperandRole::output, target, Access::write});
    builder_.before(0, std::move(op));
  }

  // Without its output.
  [[nodiscard]] Op gather_op(std::int32_t m) const {
    Op op{.kind = OpKind::gather_embedding, .stream = StreamId::host, .micro_batch = m};
    op.operands = {{OperandRole::embedding, state_.weights[0], Access::read},
                   {OperandRole::batch, common_.host_batch, Access::read}};
    return op;
  }

  void copy(OpKind kind, StreamId stream, std::int32_t layer, std::int32_t m, BufferId from, BufferId to,
            Bytes bytes, int compute, bool gated) {
    Op op{.kind = kind, .stream = stream, .layer = layer, .micro_batch = m, .bytes = bytes};
    op.operands = {{OperandRole::input, from, Access::read}, {OperandRole::output, to, Access::write}};
    if (gated)
      builder_.before(compute, std::move(op), true);
    else
      builder_.after(compute, std::move(op));
  }

  // Boundary b of micro-batch m on the device, for the compute op that comes next.
  BufferId boundary(std::int32_t b, std::int32_t m) {
    BufferId& buffer = boundary_[at(b)][at(m)];
    if (buffer < 0) {
      const HostCopy& home = host_boundary_[at(b)][at(m)];
      const int when = fetch_at(home.left_after);
      buffer = disk_.on_device(name_of("dev.b", b, m), boundary_size(m), boundary_on_disk(b, m));
      if (boundary_on_disk(b, m))
        disk_.read(boundary_activation(b, m, boundary_size(m)), home.buffer, buffer, home.left_after, when);
      else if (home.buffer < 0)  // boundary 0, for the second time
        disk_.make(boundary_activation(b, m, boundary_size(m)), gather_op(m), buffer, when);
      else
        copy(OpKind::fetch_boundary, StreamId::h2d, b, m, home.buffer, buffer, boundary_size(m), when, true);
    }
    return buffer;
  }

  void offload_boundary(std::int32_t b, std::int32_t m, int compute) {
    const BufferId source = boundary_[at(b)][at(m)];
    BufferId home = -1;
    if (boundary_on_disk(b, m)) {
      home = disk_.write(boundary_activation(b, m, boundary_size(m)), source, compute);
    } else {
      home = builder_.transient(name_of("host.b", b, m), Tier::host, boundary_size(m));
      copy(OpKind::offload_boundary, StreamId::d2h, b, m, source, home, boundary_size(m), compute, false);
    }
    host_boundary_[at(b)][at(m)] = {home, compute};
    builder_.hold_until(source, compute + static_cast<int>(plan_.offload_lag));
  }

  // Forward of layer l over all micro-batches; `again` = the sweep over a block in the backward. A layer of a
  // block stashes in the sweep, any other in the forward.
  void forward(std::int32_t l, bool again) {
    const GroupPlan layer = home_of(context_, at(l) + 1);
    const bool update_here = !again && plan_.optimizer_overlap;
    if (update_here && layer.on_device) builder_.compute(std::move(updates_.update(at(l) + 1).ops.front()));
    // Weights on disk come to the host for their update and go on to the device.
    const BufferId weights = weights_.use(l, update_here && layer.weights_on_disk ? &updates_ : nullptr);
    const bool stashing = again == is_swept(plan_, l) && plan_.layers[at(l)].stash != StashLevel::none;
    for (std::int32_t m = 0; m < micro_batches_; ++m) {
      const BufferId input = boundary(l, m);
      const BufferId output = disk_.on_device(name_of(again ? "dev.r" : "dev.b", l + 1, m), boundary_size(m),
                                              !again && boundary_on_disk(l + 1, m));
      // What the sweep computes of a materialised boundary is thrown away: it exists already.
      const bool keep_output = !again || !plan_.boundaries[at(l + 1)].materialised;
      Op op{.kind = OpKind::forward, .stream = StreamId::compute, .layer = l, .micro_batch = m};
      op.operands = {
          {OperandRole::weights, weights, Access::read},
          {OperandRole::input, input, Access::read},
          {OperandRole::output, output, Access::write},
          {OperandRole::batch, common_.batch, Access::read},
          {OperandRole::constants, common_.constants, Access::read},
          {OperandRole::workspace, again ? backward_workspace_ : forward_workspace_, Access::read_write}};
      const Bytes stash_size =
          stash_bytes(context_.architecture, context_.architecture.kind_of(l), plan_.layers[at(l)].stash,
                      plan_.batch.rows_of(m), context_.type_bytes);
      if (stashing) {
        op.stash = plan_.layers[at(l)].stash;
        stash_[at(l)][at(m)] = disk_.on_device(name_of("dev.stash", l, m), stash_size, stash_on_disk(l, m));
        op.operands.push_back({OperandRole::stash, stash_[at(l)][at(m)], Access::write});
      }
      const int compute = builder_.compute(std::move(op));
      weights_.used(l, compute);
      if (keep_output) boundary_[at(l + 1)][at(m)] = output;
      if (again) continue;
      if (stashing && !stash_on_device(l, m)) {
        offload_stash(l, m, stash_size, compute);
      }
      if (l + 1 < layers_ && plan_.boundaries[at(l + 1)].materialised && !boundary_on_device(l + 1, m))
        offload_boundary(l + 1, m, compute);
      // Boundary l leaves the device after its use, unless it stays for the backward.
      if (!plan_.boundaries[at(l)].materialised || !boundary_on_device(l, m)) boundary_[at(l)][at(m)] = -1;
      if (l == 0 && gathered_again(m)) host_boundary_[0][at(m)].buffer = -1;
    }
  }

  void offload_stash(std::int32_t l, std::int32_t m, Bytes size, int compute) {
    BufferId& source = stash_[at(l)][at(m)];
    BufferId home = -1;
    if (stash_on_disk(l, m)) {
      home = disk_.write(stash_activation(l, m, size), source, compute);
    } else {
      home = builder_.transient(name_of("host.stash", l, m), Tier::host, size);
      copy(OpKind::offload_stash, StreamId::d2h, l, m, source, home, size, compute, false);
    }
    host_stash_[at(l)][at(m)] = {home, compute};
    builder_.hold_until(source, compute + static_cast<int>(plan_.offload_lag));
    source = -1;
  }

  [[nodiscard]] bool in_slices() const { return plan_.head_slices > 1 && !builder_.unified(); }

  void head_step() {
    std::vector<BufferId>& inputs = boundary_[at(layers_)];
    const HeadLowering head{.builder = builder_,
                            .context = context_,
                            .state = state_,
                            .geometry = plan_.batch,
                            .slices = plan_.head_slices,
                            .batch = common_.batch,
                            .workspace = head_workspace_,
                            .load_at = fetch_at(-1),
                            .inputs = inputs};
    const HeadTraining training{.gradient_rows = gradient_rows_,
                                .retain_logits = plan_.retain_logits,
                                .completed = [&](std::int32_t m, BufferId gradient, int compute) {
                                  gradient_[at(m)] = gradient;
                                  if (plan_.boundary_gradient_on_host && !builder_.unified())
                                    offload_gradient_of_boundary(layers_, m, compute);
                                }};
    if (in_slices())
      lower_sliced_head(head, training);
    else
      lower_whole_head(head, training);
    std::fill(inputs.begin(), inputs.end(), -1);
  }

  void offload_gradient_of_boundary(std::int32_t b, std::int32_t m, int compute) {
    const BufferId home = builder_.transient(name_of("host.db", b, m), Tier::host, boundary_size(m));
    host_gradient_[at(m)] = {home, compute};
    copy(OpKind::offload_boundary_gradient, StreamId::d2h, b, m, gradient_[at(m)], home, boundary_size(m),
         compute, false);
    builder_.hold_until(gradient_[at(m)], compute + static_cast<int>(plan_.offload_lag));
    gradient_[at(m)] = -1;
  }

  // Recomputes the boundaries inside a block from the one at its start, and makes the stashes that are kept.
  void sweep(const Block& block) {
    const std::int32_t end = plan_.sweep_last_layer ? block.end : block.end - 1;
    for (std::int32_t l = block.begin; l < end; ++l) forward(l, true);
  }

  void backward(std::int32_t l) {
    const BufferId weights = weights_.use(l);
    const BufferId accumulator =
        accumulators_[at(next_accumulator_++ % static_cast<std::int32_t>(accumulators_.size()))];
    const StashLevel level = plan_.layers[at(l)].stash;
    const Architecture& architecture = context_.architecture;
    const LayerKind kind = architecture.kind_of(l);
    int compute = -1;
    for (std::int32_t m = 0; m < micro_batches_; ++m) {
      const std::int64_t rows = plan_.batch.rows_of(m);
      const BufferId input = boundary(l, m);
      BufferId& stash = stash_[at(l)][at(m)];
      if (level != StashLevel::none && stash < 0) {
        const Bytes size = stash_bytes(architecture, kind, level, rows, context_.type_bytes);
        const HostCopy& home = host_stash_[at(l)][at(m)];
        const int when = fetch_at(home.left_after);
        stash = disk_.on_device(name_of("dev.stash'", l, m), size, stash_on_disk(l, m));
        if (stash_on_disk(l, m))
          disk_.read(stash_activation(l, m, size), home.buffer, stash, home.left_after, when);
        else
          copy(OpKind::fetch_stash, StreamId::h2d, l, m, home.buffer, stash, size, when, true);
      }
      if (gradient_[at(m)] < 0) {
        gradient_[at(m)] = builder_.transient(name_of("dev.db", l + 1, m), Tier::device, boundary_size(m));
        copy(OpKind::fetch_boundary_gradient, StreamId::h2d, l + 1, m, host_gradient_[at(m)].buffer,
             gradient_[at(m)], boundary_size(m), fetch_at(host_gradient_[at(m)].left_after), true);
      }
      BufferId recomputed = -1;
      if (level != StashLevel::all) {
        // Sized for a full stash: the items that the stash holds are simply not written.
        recomputed =
            builder_.transient(name_of("dev.rec", l, m), Tier::device,
                               stash_bytes(architecture, kind, StashLevel::all, rows, context_.type_bytes) -
                                   stash_bytes(architecture, kind, level, rows, context_.type_bytes));
        Op op{.kind = OpKind::recompute,
              .stream = StreamId::compute,
              .layer = l,
              .micro_batch = m,
              .stash = level,
              .full = !plan_.tail_skip};
        op.operands = {{OperandRole::weights, weights, Access::read},
                       {OperandRole::input, input, Access::read},
                       {OperandRole::recomputed, recomputed, Access::write},
                       {OperandRole::batch, common_.batch, Access::read},
                       {OperandRole::constants, common_.constants, Access::read},
                       {OperandRole::workspace, backward_workspace_, Access::read_write}};
        if (stash >= 0) op.operands.push_back({OperandRole::stash, stash, Access::read});
        builder_.compute(std::move(op));
      }
      Op op{.kind = OpKind::backward,
            .stream = StreamId::compute,
            .layer = l,
            .micro_batch = m,
            .stash = level,
            .first = m == 0};
      op.operands = {{OperandRole::weights, weights, Access::read},
                     {OperandRole::input, input, Access::read},
                     {OperandRole::gradient, gradient_[at(m)], Access::read_write},
                     {OperandRole::accumulator, accumulator, m == 0 ? Access::write : Access::read_write},
                     {OperandRole::batch, common_.batch, Access::read},
                     {OperandRole::constants, common_.constants, Access::read},
                     {OperandRole::workspace, backward_workspace_, Access::read_write}};
      if (stash >= 0) op.operands.push_back({OperandRole::stash, stash, Access::read});
      if (recomputed >= 0) op.operands.push_back({OperandRole::recomputed, recomputed, Access::read});
      compute = builder_.compute(std::move(op));
      weights_.used(l, compute);
      boundary_[at(l)][at(m)] = -1;
      if (plan_.boundary_gradient_on_host && !builder_.unified() && l > 0)
        offload_gradient_of_boundary(l, m, compute);
    }
    const std::size_t group = at(l) + 1;
    if (home_of(context_, group).on_device) return keep_gradient(builder_, context_, state_, l, accumulator);
    Op offload{.kind = OpKind::offload_gradient,
               .stream = builder_.unified() ? StreamId::compute : StreamId::d2h,
               .layer = l};
    offload.elements = context_.groups[group].elements;
    offload.bytes = {context_.groups[group].elements * context_.type_bytes};
    GradientHome home = gradient_home(context_, state_, group);
    offload.operands = {{OperandRole::accumulator, accumulator, Access::read},
                        {OperandRole::group_gradient, home.buffer, Access::write},
                        {OperandRole::norm, state_.norm[group], Access::write}};
    if (builder_.unified())
      compute = builder_.compute(std::move(offload));
    else
      builder_.after(compute, std::move(offload));
    if (home.write) builder_.after(compute, std::move(*home.write));
  }

  // Boundary 0's gradient is added to the rows of its tokens, in token order; then norm and clip factor.
  void embedding_gradient() {
    for (std::int32_t m = 0; m < micro_batches_; ++m) {
      BufferId source = gradient_[at(m)];
      if (!builder_.unified()) {
        const int compute = builder_.next_compute() - 1;
        const BufferId on_device = source;
        source = builder_.transient(name_of("host.db", 0, m), Tier::host, boundary_size(m));
        copy(OpKind::offload_boundary_gradient, StreamId::d2h, 0, m, on_device, source, boundary_size(m),
             compute, false);
      }
      Op scatter{.kind = OpKind::scatter_embedding_gradient, .stream = StreamId::host, .micro_batch = m};
      scatter.operands = {{OperandRole::input, source, Access::read},
                          {OperandRole::batch, common_.host_batch, Access::read},
                          {OperandRole::gradient_rows, gradient_rows_, Access::read_write}};
      at_end(std::move(scatter));
    }
    Op finish{.kind = OpKind::finish_embedding_gradient,
              .stream = StreamId::host,
              .elements = context_.groups[0].elements};
    finish.operands = {{OperandRole::gradient_rows, gradient_rows_, Access::read},
                       {OperandRole::batch, common_.host_batch, Access::read},
                       {OperandRole::group_gradient, state_.gradient[0], Access::read_write},
                       {OperandRole::norm, state_.norm[0], Access::write}};
    at_end(std::move(finish));
    Op reduce{.kind = OpKind::reduce_norm, .stream = StreamId::host};
    for (const BufferId norm : state_.norm)
      reduce.operands.push_back({OperandRole::norm, norm, Access::read});
    reduce.operands.push_back({OperandRole::clip, state_.clip, Access::write});
    at_end(std::move(reduce));
  }

  const LoweringContext& context_;
  const Plan& plan_;
  ProgramBuilder builder_;
  std::int32_t layers_, micro_batches_;
  StateBuffers state_;
  HostWeights host_weights_;
  UpdateLowering updates_;
  DeviceCommon common_;
  BufferId forward_workspace_, head_workspace_, backward_workspace_;  // scratch of each phase
  BufferId gradient_rows_;
  WeightSlots weights_;
  DiskActivations disk_;
  std::vector<BufferId> accumulators_;
  std::int32_t next_accumulator_ = 0;
  // A copy on the host or on disk, and the compute op after which it left the device (-1: it was made on the
  // host).
  struct HostCopy {
    BufferId buffer = -1;
    int left_after = -1;
  };
  std::vector<std::vector<BufferId>> boundary_, stash_;            // [layer or boundary][micro-batch]
  std::vector<std::vector<HostCopy>> host_boundary_, host_stash_;  // the same
  std::vector<BufferId> gradient_;                                 // [micro-batch]
  std::vector<HostCopy> host_gradient_;
};

}  // namespace

Bytes retained_logits_bytes(const LoweringContext& context, std::int64_t rows) {
  return Bytes{rows} * context.architecture.vocab * context.type_bytes;
}

Bytes gradient_rows_bytes(const LoweringContext& context, const BatchGeometry& batch) {
  const Architecture& architecture = context.architecture;
  return Bytes{std::min(batch.slots * batch.slot_tokens, architecture.vocab)} * architecture.hidden * 4;
}

Program lower_train_step(const LoweringContext& context, const Plan& plan, const WorkspaceBytes& workspace,
                         LoweringDepth depth) {
  check_plan(plan, context.architecture, "plan");
  check(plan.groups == context.homes, "states and gradients are where the plan says");
  return TrainLowering(context, plan, workspace).lower(depth);
}

}  // namespace lazytrain
