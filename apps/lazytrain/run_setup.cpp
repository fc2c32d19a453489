#include "run_setup.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/disk_space.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "core/threads.h"
#include "runtime/disk_rates.h"
#include "runtime/profiler.h"
#include "runtime/scratch_file.h"
#include "runtime/workspace.h"
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

std::string model_words(const RunConfig& config, const Architecture& architecture) {
  const std::filesystem::path path = std::filesystem::path(config.model_name_or_path).lexically_normal();
  const std::string name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const auto parameters = static_cast<double>(parameter_count(architecture));
  return fmt::format("{}: {}, {} layers, {:.1f} {} parameters", name, architecture.model_type,
                     architecture.layers, parameters / (parameters < 1e9 ? 1e6 : 1e9),
                     parameters < 1e9 ? "M" : "B");
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
    machine.pinned_capacity = config.pinned_memory;
  }
  return machine;
}

std::filesystem::path scratch_folder(const RunConfig& config) {
  if (config.scratch_dir && !config.scratch_dir->empty()) return *config.scratch_dir;
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

Bytes most_disk_writes(const RunConfig& config, std::int64_t steps) {
  const double bytes =
      config.max_disk_writes_tb * 1e12 / static_cast<double>(std::max<std::int64_t>(1, steps));
  return {static_cast<std::int64_t>(std::min(bytes, 1e18))};
}

Bytes run_writes(const Program& program, std::int64_t steps) {
  return disk_writes(program) * steps + program.disk_bytes;
}

void require_few_writes(const RunConfig& config, const Program& program, std::int64_t steps) {
  const double terabytes = run_writes(program, steps).gigabytes() / 1e3;
  if (terabytes <= config.max_disk_writes_tb) return;
  const std::string less = config.states_home == "disk" ? "states_home: auto"
                           : emulated(config)           ? "a larger host_memory that keeps more off the disk"
                                              : "a larger device_memory that keeps more off the disk";
  fail(ExitCode::usage,
       "the run would write {:.3g} TB to {} ({} a step, {} steps), and writing wears drives; give "
       "max_disk_writes_tb: {:.3g} to allow it, or {}",
       terabytes, scratch_folder(config).string(), format_bytes(disk_writes(program)), steps,
       terabytes * 1.01, less);
}

ProfileOptions profile_options(const RunConfig& config, const SessionOptions& session) {
  return {.type = session.type, .device = session.device, .slot_tokens = config.cutoff_len, .quick = true};
}

namespace {

StatesHome states_home(const RunConfig& config) {
  if (config.states_home == "host") return StatesHome::host;
  return config.states_home == "disk" ? StatesHome::disk : StatesHome::automatic;
}

// What one checkpoint and the trained model take.
Bytes bytes_to_save(const LoweringContext& context) {
  Bytes sum;
  for (std::size_t g = 0; g < context.groups.size(); ++g)
    sum += Bytes{2 * context.groups[g].elements * context.type_bytes} + context.state_bytes[g];
  return sum;
}

// Room and rates of the scratch disk. Its rates are measured once for a file system, unless they are given.
void look_at_disk(Machine& machine, const RunConfig& config, Bytes to_save) {
  const std::filesystem::path folder = nearest_existing(scratch_folder(config));
  if (lies_in_memory(folder)) {
    const std::string what = fmt::format("{} is in memory: what is kept there saves none", folder.string());
    if (config.states_home == "disk") fail(ExitCode::usage, "{}; give another scratch_dir", what);
    log::info("no scratch disk: {}", what);
    return;
  }
  Bytes room = free_space(folder);
  if (!config.output_dir.empty() && same_file_system(folder, config.output_dir))
    room = room > to_save ? room - to_save : Bytes{0};
  const bool given = emulated(config) && config.disk_read_gbps > 0 && config.disk_write_gbps > 0;
  DiskRates rates{.read = config.disk_read_gbps, .write = config.disk_write_gbps};
  if (!given) {
    rates = load_or_measure_disk(folder);
    log::info("scratch disk at {}: {:.1f} GB/s read, {:.1f} GB/s written ({})", folder.string(), rates.read,
              rates.write, rates.method);
    if (emulated(config) && config.disk_read_gbps > 0)
      rates.read = std::min(rates.read, config.disk_read_gbps);
    if (emulated(config) && config.disk_write_gbps > 0)
      rates.write = std::min(rates.write, config.disk_write_gbps);
  }
  machine.disk_capacity = room;
  machine.disk_read = rates.read;
  machine.disk_write = rates.write;
  machine.disk_duplex = given ? 0 : rates.both;
}

// A disk that cannot be used is no reason to refuse what needs none.
void find_disk(Machine& machine, const RunConfig& config, Bytes to_save) {
  if (config.states_home == "disk") return look_at_disk(machine, config, to_save);
  try {
    look_at_disk(machine, config, to_save);
  } catch (const Error& error) {
    log::info("no scratch disk: {}", error.what());
    machine.disk_capacity = Bytes{0};
  }
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
  inputs.states_home = states_home(config);
  inputs.find_disk = [config, to_save = bytes_to_save(inputs.context)](Machine& machine) {
    find_disk(machine, config, to_save);
  };
  if (config.debug_skip_update) {
    inputs.machine.optimizer_rate = 0;
    inputs.costs.update_per_parameter = inputs.costs.update_eight_bit_per_parameter = 0;
    inputs.costs.update_on_device_per_parameter = inputs.costs.update_on_device_eight_bit_per_parameter = 0;
  }
  if (config.disk_for_speed && config.states_home != "host") {
    inputs.disk_for_speed = true;
    inputs.find_disk(inputs.machine);
    inputs.find_disk = {};
  }
  if (config.policy == "every-k") inputs.every_k = config.every_k;
  if (config.optimizer_overlap != "auto") inputs.optimizer_overlap = config.optimizer_overlap == "on";
  return inputs;
}

}  // namespace lazytrain
