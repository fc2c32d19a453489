#include "plan_from_files.h"

#include "core/log.h"
#include "runtime/session.h"
#include "runtime/workspace.h"
#include "training/moments.h"

namespace lazytrain {
namespace {

SessionOptions session_options(const PlanFiles& files, const Architecture& architecture, TierModel tiers) {
  SessionOptions options;
  options.device.memory_model = tiers == TierModel::tiered ? MemoryModel::emulated : MemoryModel::unified;
  options.position_rows = files.slot_tokens;
  RunConfig config;
  config.optim = files.optimizer;
  options.moments = moment_options(config, architecture);
  return options;
}

// What weights, states and gradients take on the host, with the batch's arrays and the rows of the embedding
// that go in and out; and `pool` for boundaries and stashes.
Bytes host_capacity(const LoweringContext& context, const BatchGeometry& batch, Bytes pool) {
  const Bytes arrays{batch.slots * batch.slot_tokens * (kHostBatchArrays + 1) * 4};
  const Bytes rows{batch.slots * batch.slot_tokens * context.architecture.hidden * context.type_bytes};
  return lower_update_only(context).host_bytes + gradient_rows_bytes(context, batch) + rows + arrays + pool;
}

}  // namespace

PlanningInputs planning_inputs(const PlanFiles& files) {
  const Architecture architecture = read_architecture(files.model, Purpose::plan);
  if (files.slot_tokens > architecture.max_position)
    fail(
        ExitCode::usage,
        "--tokens: {} are more than the {} positions of the model (max_position_embeddings); give {} or less",
        files.slot_tokens, architecture.max_position, architecture.max_position);
  const Machine machine = read_machine(files.machine);
  PlanningInputs inputs{
      .context = lowering_context(architecture, session_options(files, architecture, machine.tiers)),
      .machine = machine,
      .costs = modelled_costs(architecture, files.slot_tokens, machine),
      .workspace =
          [architecture](std::int64_t slots, std::int64_t slot_tokens) {
            return workspace_bytes(architecture, DataType::bf16, slots, slot_tokens);
          },
      .batch = {.slots = files.slots, .slot_tokens = files.slot_tokens, .micro_batch = files.micro_batch},
      .supervised_fraction = files.supervised_fraction,
      .optimizer_overlap = {}};
  if (files.optimizer_overlap != "auto") inputs.optimizer_overlap = files.optimizer_overlap == "on";
  inputs.device_key = "device_capacity";
  inputs.host_key = "host_capacity";
  inputs.pinned_key = "pinned_capacity";
  inputs.disk_key = "disk_capacity";
  if (!files.host_pool.empty()) {
    if (machine.tiers == TierModel::unified)
      fail(ExitCode::usage, "--host-pool: {} has one memory for all; change its device_capacity instead",
           files.machine);
    inputs.machine.host_capacity =
        host_capacity(inputs.context, inputs.batch, parse_bytes(files.host_pool, "--host-pool"));
  }
  if (!files.disk.empty()) {
    inputs.machine.disk_capacity = parse_bytes(files.disk, "--disk");
    if (inputs.machine.disk_capacity.value > 0 && (machine.disk_read <= 0 || machine.disk_write <= 0))
      fail(ExitCode::usage, "--disk: {} gives no rates of a disk; set its disk_read_gbps and disk_write_gbps",
           files.machine);
    inputs.disk_for_speed = true;
  }
  return inputs;
}

}  // namespace lazytrain
