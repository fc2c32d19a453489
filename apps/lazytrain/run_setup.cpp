#include "run_setup.h"

#include <algorithm>
#include <cmath>

#include "core/log.h"
#include "core/system_memory.h"
#include "core/threads.h"
#include "runtime/disk_rates.h"
#include "runtime/profiler.h"
#include "runtime/workspace.h"
#include "training/checkpoint.h"
#include "training/moments.h"

namespace lazytrain {
namespace {

bool emulated(const RunConfig& config) {
  return config.memory_model == "emulated";
}

Bytes free_memory() {
  const Bytes free = memory_limits().free();
  return free > kProcessAllowance ? free - kProcessAllowance : Bytes{0};
}

// A calibration that the user made beats one that is made in passing.
CostTable run_costs(const RunConfig& config, const Architecture& architecture,
                    const SessionOptions& session) {
  ProfileOptions profile = profile_options(config, session);
  profile.quick = false;
  if (!config.calibration && !std::filesystem::exists(cost_file(architecture, profile))) {
    profile.quick = true;
    if (!std::filesystem::exists(cost_file(architecture, profile)))
      log::info(
          "measuring this machine's costs once (some seconds; `lazytrain calibrate` does it more "
          "thoroughly)");
  }
  return load_or_measure(architecture, profile, config.calibration);
}

}  // namespace

RunConfig load_config(const std::string& file, const std::vector<std::string>& overrides,
                      const std::vector<std::string_view>& required) {
  LoadedRunConfig loaded = load_run_config(file, overrides);
  for (const std::string& notice : loaded.notices) log::info("{}", notice);
  require_keys(loaded.config, required);
  return std::move(loaded.config);
}

void require_positions(const RunConfig& config, const Architecture& architecture) {
  if (config.cutoff_len > architecture.max_position)
    fail(ExitCode::usage,
         "cutoff_len: {} tokens are more than the {} positions of the model (max_position_embeddings); give "
         "cutoff_len: {} or less",
         config.cutoff_len, architecture.max_position, architecture.max_position);
}

void require_positions(std::int64_t prompt, const Architecture& architecture) {
  if (prompt > architecture.max_position)
    fail(ExitCode::usage,
         "a prompt has {} tokens, the model only {} positions (max_position_embeddings); shorten the prompt",
         prompt, architecture.max_position);
}

int worker_threads(const RunConfig& config) {
  return static_cast<int>(
      config.preprocessing_num_workers.value_or(config.threads.value_or(available_cores())));
}

SessionOptions session_options(const RunConfig& config, bool training, std::int64_t positions) {
  const int cores = static_cast<int>(config.threads.value_or(available_cores()));
  const bool split = emulated(config) && config.split_cores;
  if (split && cores < 2)
    fail(ExitCode::usage,
         "split_cores gives each side cores of its own and needs two; give threads: 2 or more, or "
         "split_cores: false");
  const int compute = split ? std::max(1, cores / 2) : cores;
  CpuDeviceOptions device{
      .memory_model = emulated(config) ? MemoryModel::emulated : MemoryModel::unified,
      .compute_threads = compute,
      .host_threads = split ? cores - compute : cores,
      .split_cores = split,
      .device_capacity = config.device_memory.value_or(Bytes{0}),
      .links = {.h2d = config.link_h2d_gbps, .d2h = config.link_d2h_gbps, .duplex = config.link_duplex_gbps}};
  return {.type = config.bf16 ? DataType::bf16 : DataType::f32,
          .device = device,
          .training = training,
          .position_rows = positions,
          .max_gradient_norm = config.max_grad_norm,
          .optimizer_rate = config.optimizer_gparams_per_s * 1e9,
          .debug_memory = config.debug_memory,
          .skip_updates = config.debug_skip_update};
}

SessionOptions training_options(const RunConfig& config, const Architecture& architecture) {
  SessionOptions options = session_options(config, true, config.cutoff_len);
  options.moments = moment_options(config, architecture);
  return options;
}

Machine machine_of(const RunConfig& config) {
  const SessionOptions session = session_options(config, true, 1);
  Machine machine{.name = emulated(config) ? "emulated device on this CPU" : "this CPU",
                  .tiers = emulated(config) ? TierModel::tiered : TierModel::unified,
                  .emulated = emulated(config),
                  .device_capacity = {},
                  .host_capacity = {},
                  .h2d = config.link_h2d_gbps,
                  .d2h = config.link_d2h_gbps,
                  .duplex = config.link_duplex_gbps,
                  .optimizer_rate = config.optimizer_gparams_per_s * 1e9,
                  .compute_threads = session.device.compute_threads,
                  .host_threads = session.device.host_threads,
                  .split_cores = session.device.split_cores};
  const Bytes free = free_memory();
  if (machine.tiers == TierModel::unified) {
    machine.device_capacity = config.device_memory.value_or(free);
    if (config.device_memory && *config.device_memory > free)
      log::warning("device_memory is {}, but the system leaves {} free", format_bytes(*config.device_memory),
                   format_bytes(free));
  } else {
    machine.device_capacity = *config.device_memory;
    const Bytes rest = free > machine.device_capacity ? free - machine.device_capacity : Bytes{0};
    machine.host_capacity = config.host_memory.value_or(rest);
    if (config.host_memory && *config.host_memory > rest)
      log::warning("host_memory is {}, but beside device_memory the system leaves {} free",
                   format_bytes(*config.host_memory), format_bytes(rest));
  }
  return machine;
}

std::filesystem::path scratch_folder(const RunConfig& config) {
  if (config.scratch_dir) return *config.scratch_dir;
  return config.output_dir.empty() ? "." : config.output_dir;
}

SessionOptions options_for(SessionOptions options, const RunConfig& config, const Plan& plan) {
  options.homes = plan.groups;
  options.scratch_folder = scratch_folder(config);
  if (emulated(config)) {
    options.disk_read = config.disk_read_gbps;
    options.disk_write = config.disk_write_gbps;
  }
  return options;
}

void require_few_writes(const RunConfig& config, const Program& program, std::int64_t steps) {
  const double terabytes =
      static_cast<double>(disk_writes(program).value) * static_cast<double>(steps) / 1e12;
  if (terabytes <= config.max_disk_writes_tb) return;
  fail(ExitCode::disk,
       "the run would write {:.3g} TB to {} ({} a step, {} steps), and writing wears drives: give "
       "max_disk_writes_tb: {:.3g} to allow it, or a larger {} that keeps optimizer states off the disk",
       terabytes, scratch_folder(config).string(), format_bytes(disk_writes(program)), steps,
       std::ceil(terabytes * 1.01 * 100) / 100, emulated(config) ? "host_memory" : "device_memory");
}

ProfileOptions profile_options(const RunConfig& config, const SessionOptions& session) {
  return {.type = session.type, .device = session.device, .slot_tokens = config.cutoff_len, .quick = true};
}

namespace {

// The disk is looked at where it may be needed: where weights, states and gradients fill more than half of
// their tier. Its rates are measured once for a file system.
void find_disk(PlanningInputs& inputs, const RunConfig& config) {
  inputs.states_home = config.states_home == "host"   ? StatesHome::host
                       : config.states_home == "disk" ? StatesHome::disk
                                                      : StatesHome::automatic;
  if (inputs.states_home == StatesHome::host) return;
  Machine& machine = inputs.machine;
  const Program parameters = lower_update_only(inputs.context);
  const bool unified = machine.tiers == TierModel::unified;
  const Bytes needed = unified ? parameters.device_bytes : parameters.host_bytes;
  const Bytes has = unified ? machine.device_capacity : machine.host_capacity;
  if (inputs.states_home == StatesHome::automatic && needed.value <= has.value / 2) return;
  const std::filesystem::path folder = scratch_folder(config);
  machine.disk_capacity = free_space(folder);
  const bool given = emulated(config) && config.disk_read_gbps > 0 && config.disk_write_gbps > 0;
  if (given) {
    machine.disk_read = config.disk_read_gbps;
    machine.disk_write = config.disk_write_gbps;
    return;
  }
  const DiskRates rates = load_or_measure_disk(folder);
  machine.disk_read = rates.read;
  machine.disk_write = rates.write;
  machine.disk_duplex = rates.both;
  log::info("scratch disk at {}: {:.1f} GB/s read, {:.1f} GB/s written ({})", folder.string(), rates.read,
            rates.write, rates.method);
}

}  // namespace

PlanningInputs planning_inputs(const RunConfig& config, const Architecture& architecture,
                               const SessionOptions& session, double supervised_fraction) {
  PlanningInputs inputs{
      .context = lowering_context(architecture, session),
      .machine = machine_of(config),
      .costs = run_costs(config, architecture, session),
      .workspace =
          [architecture, type = session.type](std::int64_t slots, std::int64_t slot_tokens) {
            return workspace_bytes(architecture, type, slots, slot_tokens);
          },
      .batch = {.slots = config.slots_per_step(),
                .slot_tokens = config.cutoff_len,
                .micro_batch = config.micro_batch.value_or(0)},
      .supervised_fraction = supervised_fraction,
      .optimizer_overlap = {}};
  find_disk(inputs, config);
  if (config.debug_skip_update) {
    inputs.machine.optimizer_rate = 0;
    inputs.costs.update_per_parameter = inputs.costs.update_eight_bit_per_parameter = 0;
  }
  if (config.policy == "every-k") inputs.every_k = config.every_k;
  if (config.optimizer_overlap != "auto") inputs.optimizer_overlap = config.optimizer_overlap == "on";
  return inputs;
}

}  // namespace lazytrain
