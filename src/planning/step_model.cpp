#include "planning/step_model.h"

#include <algorithm>
#include <cmath>

#include "program/program.h"

namespace lazytrain {
namespace {

constexpr double kGiga = 1e9;
constexpr double kUnlimited = 1e12;  // of a link that nothing limits, as in the simulator
constexpr double kNoCap = 1e18;      // of both directions together

double bytes_per_second(double link, double memory) {
  if (link <= 0) return memory > 0 ? memory * kGiga : kUnlimited;
  return (memory > 0 ? std::min(link, memory) : link) * kGiga;
}

double size_of(const PlanningInputs& inputs, std::size_t group) {
  return static_cast<double>(inputs.context.groups[group].elements * inputs.context.type_bytes);
}

// Seconds in which the host's cores update a group.
Seconds update_work_of(const PlanningInputs& inputs, std::size_t group) {
  const LoweringContext& context = inputs.context;
  const auto elements = static_cast<double>(context.groups[group].elements);
  const double eight_bit =
      context.eight_bit_elements.empty() ? 0 : static_cast<double>(context.eight_bit_elements[group]);
  return (elements - eight_bit) * inputs.costs.update_per_parameter +
         eight_bit * inputs.costs.update_eight_bit_per_parameter;
}

// Seconds in which a group is updated: at the pace of the optimizer, and no faster than its states come from
// disk and go back.
Seconds update_of(const PlanningInputs& inputs, std::size_t group) {
  const LoweringContext& context = inputs.context;
  const auto elements = static_cast<double>(context.groups[group].elements);
  Seconds seconds = update_work_of(inputs, group);
  if (inputs.machine.optimizer_rate > 0)
    seconds = std::max(seconds, elements / inputs.machine.optimizer_rate);
  if (!context.homes.empty() && context.homes[group].states_on_disk) {
    const auto states = static_cast<double>(context.state_bytes[group].value);
    const double read = states + (context.homes[group].gradient_on_disk ? size_of(inputs, group) : 0.0);
    seconds = std::max({seconds, read / bytes_per_second(inputs.machine.disk_read, 0),
                        states / bytes_per_second(inputs.machine.disk_write, 0)});
    if (inputs.machine.disk_duplex > 0)
      seconds = std::max(seconds, (read + states) / (inputs.machine.disk_duplex * kGiga));
  }
  return seconds + inputs.costs.op_overhead;
}

// Bytes over d2h that take as long as a gradient of `elements` elements and `bytes` bytes takes to leave.
double gradient_bytes(const PlanningInputs& inputs, double elements, double bytes) {
  const double rate = bytes_per_second(inputs.machine.d2h, inputs.costs.copy_d2h);
  return std::max(bytes, elements * inputs.costs.offload_gradient_per_element * rate);
}

// Bytes alive at each op.
std::vector<double> alive_bytes(const Program& program, Tier tier) {
  std::vector<double> alive(program.ops.size() + 1, 0);
  double persistent = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.tier != tier) continue;
    const auto size = static_cast<double>(align_up(buffer.size, kBufferAlignment).value);
    if (buffer.persistent) {
      persistent += size;
    } else if (buffer.first >= 0) {
      alive[static_cast<std::size_t>(buffer.first)] += size;
      alive[static_cast<std::size_t>(buffer.last) + 1] -= size;
    }
  }
  double now = persistent;
  for (double& bytes : alive) bytes = now += bytes;
  return alive;
}

// Ops between which a slot begins, and those between which it ends: a whole micro-batch each.
struct SlotRange {
  std::size_t begin = 0, begun = 0, ending = 0, end = 0;
  bool empty = true;
};

std::vector<SlotRange> slot_ranges(const Program& program, const StepSlots& slots) {
  std::vector<SlotRange> ranges(slots.count());
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    std::size_t slot = slots.count();
    if (op.kind == OpKind::forward) slot = StepSlots::forward(op.layer);
    if (is_head(op.kind)) slot = slots.head();
    if (op.kind == OpKind::recompute || op.kind == OpKind::backward) slot = slots.backward(op.layer);
    if (slot == slots.count()) continue;
    SlotRange& range = ranges[slot];
    const bool ends_micro_batch = op.kind != OpKind::recompute;
    if (range.empty) range.begin = range.begun = i;
    if (ends_micro_batch && (op.micro_batch == 0 || op.slice >= 0)) range.begun = i;  // all slices count
    // A micro-batch ends with its backward, and begins with the recomputation before that.
    if (op.kind == OpKind::recompute || op.kind == OpKind::forward || is_head(op.kind)) range.ending = i;
    range.end = i;
    range.empty = false;
  }
  return ranges;
}

std::vector<double> bare_device_bytes(const Program& program, const StepSlots& slots) {
  const std::vector<double> alive = alive_bytes(program, Tier::device);
  const std::vector<SlotRange> ranges = slot_ranges(program, slots);
  const auto most = [&](std::size_t first, std::size_t last) {
    return *std::max_element(alive.begin() + static_cast<std::ptrdiff_t>(first),
                             alive.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  };
  std::vector<double> bytes(slots.count(), 0);
  std::size_t before = slots.count();
  for (std::size_t slot = 0; slot < slots.count(); ++slot) {
    if (before < slots.count()) bytes[slot] = most(ranges[before].ending, ranges[before].end);
    if (ranges[slot].empty) continue;
    bytes[slot] = std::max(bytes[slot], most(ranges[slot].begin, ranges[slot].begun));
    before = slot;
  }
  return bytes;
}

}  // namespace

StepLayer layer_costs(const PlanningInputs& inputs, const BatchGeometry& batch, std::int64_t layer) {
  const LayerCosts& costs = inputs.costs.of(inputs.context.architecture.kind_of(layer));
  const LoweringContext& context = inputs.context;
  const auto group = static_cast<std::size_t>(layer) + 1;
  const auto slots = static_cast<double>(batch.slots);
  const Seconds overhead = static_cast<double>(batch.micro_batches()) * inputs.costs.op_overhead;
  const double elements = static_cast<double>(context.groups[group].elements);
  StepLayer result;
  result.forward = overhead + slots * costs.forward;
  result.backward = overhead + slots * costs.backward;
  for (const StashLevel level : kStashLevels) {
    const auto at = static_cast<std::size_t>(level);
    // What a full stash leaves to compute again is part of the backward.
    result.recompute[at] = (level != StashLevel::all ? overhead : 0) + slots * costs.recompute[at];
    for (std::int64_t m = 0; m < batch.micro_batches(); ++m)
      result.stash[at] +=
          static_cast<double>(stash_bytes(context.architecture, context.architecture.kind_of(layer), level,
                                          batch.rows_of(m), context.type_bytes)
                                  .value);
  }
  result.weights = size_of(inputs, group);
  result.gradient = gradient_bytes(inputs, elements, result.weights);
  if (context.state_bytes.empty()) return result;
  result.update = update_of(inputs, group);
  const double eight_bit =
      context.eight_bit_elements.empty() ? 0 : static_cast<double>(context.eight_bit_elements[group]);
  result.device_update = (elements - eight_bit) * inputs.costs.update_on_device_per_parameter +
                         eight_bit * inputs.costs.update_on_device_eight_bit_per_parameter;
  result.resident = 2 * result.weights + static_cast<double>(context.state_bytes[group].value);
  result.update_traffic = 3 * result.weights + 2 * static_cast<double>(context.state_bytes[group].value);
  return result;
}

Plan bare_plan(const PlanningInputs& inputs, const BatchGeometry& batch, const StepKnobs& knobs) {
  Plan plan;
  plan.policy = "milp";
  plan.batch = batch;
  plan.groups = inputs.context.homes;
  plan.optimizer_overlap = inputs.optimizer_overlap.value_or(true);
  plan.cost_fingerprint = fingerprint(inputs.costs);
  const auto layers = static_cast<std::size_t>(inputs.context.architecture.layers);
  const std::int64_t micro_batches = batch.micro_batches();
  const bool unified = inputs.context.tiers == TierModel::unified;
  plan.boundaries.assign(layers + 1, {.device_micro_batches = unified ? micro_batches : 0});
  plan.layers.assign(layers, {});
  plan.weight_slots = knobs.weight_slots;
  plan.gradient_slots = knobs.gradient_slots;
  plan.activation_stage_slots = knobs.stage_slots;
  plan.head_slices = inputs.head_slices;
  plan.boundary_gradient_on_host = knobs.boundary_gradient_on_host;
  const auto calls = static_cast<double>(micro_batches);
  plan.fetch_lead = std::max<std::int64_t>(0, std::lround(2 * calls * knobs.lead) + 2);
  plan.offload_lag = std::max<std::int64_t>(0, std::lround(calls * knobs.lag));
  return plan;
}

StepModel make_step_model(const PlanningInputs& inputs, const BatchGeometry& batch, const StepKnobs& knobs,
                          const StepOptions& options) {
  const LoweringContext& context = inputs.context;
  const Machine& machine = inputs.machine;
  const std::int64_t layers = context.architecture.layers;
  const std::size_t head = context.groups.size() - 1;
  StepModel model{.layers = layers,
                  .micro_batches = batch.micro_batches(),
                  .unified = context.tiers == TierModel::unified,
                  .overlap = inputs.optimizer_overlap.value_or(true),
                  .knobs = knobs,
                  .options = options};
  for (std::int64_t l = 0; l < layers; ++l) {
    model.layer.push_back(layer_costs(inputs, batch, l));
    model.weight_slot = std::max(model.weight_slot, model.layer.back().weights);
  }
  model.boundary =
      static_cast<double>(batch.slots * batch.slot_tokens * context.architecture.hidden * context.type_bytes);
  const auto calls = static_cast<double>(model.micro_batches);
  const auto slots = static_cast<double>(batch.slots);
  const Seconds overhead = inputs.costs.op_overhead;
  model.head = calls * overhead + slots * inputs.costs.head * inputs.supervised_fraction;
  model.head_slices = static_cast<double>(inputs.head_slices);
  if (inputs.head_slices > 1)  // the logits are computed twice
    model.head += (2 * model.head_slices - 1) * calls * overhead +
                  slots * inputs.costs.head_forward * inputs.supervised_fraction;
  const bool tied = context.architecture.tied_head;
  model.head_weights = size_of(inputs, head) + (tied ? size_of(inputs, 0) : 0.0);
  double elements = static_cast<double>(context.groups[head].elements);
  double gradient = size_of(inputs, head);
  if (tied) {
    const auto rows = static_cast<double>(gradient_rows_bytes(context, batch).value);
    elements += static_cast<double>(context.groups[0].elements) + rows / 4;
    gradient += size_of(inputs, 0) + rows;
  }
  model.head_gradient = gradient_bytes(inputs, elements, gradient);
  for (std::size_t group = 0; group < context.groups.size() && !context.state_bytes.empty(); ++group)
    model.update_work += update_work_of(inputs, group);
  model.embedding_update = update_of(inputs, 0);
  model.head_update = update_of(inputs, head);
  model.gather = overhead + slots / calls * inputs.costs.gather_embedding;
  model.scatter = overhead + slots / calls * inputs.costs.scatter_embedding;
  model.finish = 2 * overhead + inputs.costs.finish_embedding;

  const auto cap = [](double rate) { return rate > 0 ? rate * kGiga : kNoCap; };
  model.h2d = bytes_per_second(machine.h2d, inputs.costs.copy_h2d);
  model.d2h = bytes_per_second(machine.d2h, inputs.costs.copy_d2h);
  model.duplex = cap(machine.duplex);
  model.disk_read = cap(machine.disk_read);
  model.disk_write = cap(machine.disk_write);
  model.disk_duplex = cap(machine.disk_duplex);
  model.host_memory = model.unified ? 0 : machine.host_memory * kGiga;
  if (model.unified || (machine.emulated && !machine.split_cores)) {
    model.compute_threads = machine.compute_threads;
    model.host_threads = machine.host_threads;
    model.cores = std::max(machine.compute_threads, machine.host_threads);
  }

  const Program program =
      lower_train_step(context, bare_plan(inputs, batch, knobs),
                       inputs.workspace(batch.micro_batch, batch.slot_tokens), LoweringDepth::estimate);
  model.bare_device = bare_device_bytes(program, {layers});
  model.bare_host = static_cast<double>(program.host_bytes.value);
  model.device_capacity = static_cast<double>(machine.device_capacity.value);
  model.host_capacity = static_cast<double>(machine.host_capacity.value);
  model.bare_pinned = static_cast<double>(pinned_bytes(program).value);
  if (machine.pinned_capacity && !model.unified)
    model.pinned_capacity = static_cast<double>(machine.pinned_capacity->value);
  model.disk_capacity = static_cast<double>(machine.disk_capacity.value - bytes_on_disk(context).value);
  if (options.activations_on_disk && !model.unified) {
    double object = model.boundary / calls;
    for (const StepLayer& layer : model.layer) object = std::max(object, layer.stash.back() / calls);
    model.stage = object * static_cast<double>(knobs.stage_slots);
    if (model.pinned_capacity) *model.pinned_capacity -= model.stage;
    model.host_capacity -= model.stage;  // at the turn reads take over what writes leave
  }
  return model;
}

}  // namespace lazytrain
