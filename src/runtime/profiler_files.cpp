// Tables of measured costs as files, and what happens where none can be measured.
#include <fmt/core.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "core/bfloat16.h"
#include "core/file.h"
#include "core/log.h"
#include "core/system_memory.h"
#include "formats/json.h"
#include "runtime/profiler.h"

namespace lazytrain {
namespace {

// Raised when kernels change so much that older measurements mislead.
constexpr int kGeneration = 3;

// Both kinds of layers are measured, where a model has both.
std::string windows_text(const Architecture& a) {
  if (a.layers_of(LayerKind::sliding_attention) == 0) return "";
  return fmt::format("{} {} ", a.layers_of(LayerKind::attention) > 0 ? "full and window" : "window",
                     a.window);
}

std::string key_text(const Architecture& a, const ProfileOptions& options) {
  const CpuDeviceOptions& device = options.device;
  return fmt::format("{} | {} {} {} {} {} {} {} {}{}| {} {} {} | {} {} {} {} | {} | {}", kGeneration,
                     a.hidden, a.heads, a.kv_heads, a.head_dim, a.ffn, a.vocab,
                     a.attention_bias || a.mlp_bias, a.query_key_norm ? "q/k norms " : "", windows_text(a),
                     size_of(options.type), options.slot_tokens, options.micro_batch,
                     to_string(device.memory_model), device.compute_threads, device.host_threads,
                     device.split_cores, cpu_instruction_set(), processor_name());
}

// A layer that takes longer than this for forward and backward is not measured without being asked to.
constexpr Seconds kLongestLayer = 4;

// GFLOP/s of one projection of the model on its compute threads, for modelled tables.
double gemm_rate(const Architecture& architecture, const ProfileOptions& options) {
  CpuDeviceOptions own = options.device;
  const std::int64_t size = size_of(options.type), rows = std::min<std::int64_t>(options.slot_tokens, 2048);
  const std::int64_t in = std::min<std::int64_t>(architecture.hidden, 4096), out = in;
  const Bytes bytes{(2 * rows * in + in * out) * size};
  own.links = {};
  own.device_capacity = bytes;
  const auto device = make_cpu_device(own);
  const auto stream = device->create_stream(StreamKind::compute);
  std::byte* x = device->allocate(Tier::device, bytes).data;
  std::byte* y = x + rows * in * size;
  std::byte* weight = y + rows * in * size;
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    device->run(*stream, LinearForward{.type = options.type,
                                       .rows = rows,
                                       .slot_rows = rows,
                                       .in = in,
                                       .out = out,
                                       .x = x,
                                       .weight = weight,
                                       .y = y});
    device->synchronize(*stream);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    best = std::max(best, 2e-9 * static_cast<double>(rows * in * out) / seconds);
  }
  return best;
}

}  // namespace

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::filesystem::path cost_folder() {
  return cache_folder();
}

std::filesystem::path cost_file(const Architecture& architecture, const ProfileOptions& options) {
  const std::string text = key_text(architecture, options);
  return cost_folder() / fmt::format("costs-{:016x}{}.json", checksum(std::as_bytes(std::span(text))),
                                     options.quick ? "-quick" : "");
}

CostTable read_cost_table(const std::filesystem::path& path) {
  return cost_table_from_json(read_json(path, ExitCode::usage), path.string());
}

void write_cost_table(const std::filesystem::path& path, const CostTable& costs) {
  std::error_code error;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  write_json(path, to_json(costs));
}

namespace {

// Layers that take less than a picosecond were not measured.
void require_costs(const CostTable& costs, const Architecture& architecture,
                   const std::filesystem::path& path) {
  constexpr Seconds kLeast = 1e-12;
  for (const LayerKind kind : kLayerKinds)
    if (architecture.layers_of(kind) > 0 && !(costs.of(kind).forward > kLeast))
      fail(ExitCode::usage,
           "{}: there are no costs of layers of the kind {}, which this model has; measure again with "
           "`lazytrain calibrate`",
           path.string(), to_string(kind));
}

}  // namespace

CostTable load_or_measure(const Architecture& architecture, const ProfileOptions& options,
                          const std::optional<std::filesystem::path>& given) {
  if (given) {
    CostTable costs = read_cost_table(*given);
    if (costs.slot_tokens != options.slot_tokens)
      fail(ExitCode::usage,
           "{}: these costs are for slots of {} tokens, the run has {}; measure again with `lazytrain "
           "calibrate`",
           given->string(), costs.slot_tokens, options.slot_tokens);
    require_costs(costs, architecture, *given);
    return costs;
  }
  // A thorough table is as good for a quick question.
  ProfileOptions thorough = options;
  thorough.quick = false;
  for (const std::filesystem::path& path :
       {cost_file(architecture, thorough), cost_file(architecture, options)}) {
    if (!std::filesystem::exists(path)) continue;
    try {
      CostTable costs = read_cost_table(path);
      require_costs(costs, architecture, path);
      return costs;
    } catch (const Error& error) {
      log::warning("{}; measuring anew", error.what());
    }
  }
  const Bytes needed = profile_memory(architecture, options);
  const CostTable modelled =
      modelled_costs(architecture, options.slot_tokens, 0.8 * gemm_rate(architecture, options), 10);
  if (needed > memory_limits().free()) {
    log::warning("measuring costs needs {} of memory, which is not free: they are modelled instead",
                 format_bytes(needed));
    return modelled;
  }
  Seconds layer = 0;
  for (const LayerCosts& costs : modelled.layers) layer = std::max(layer, costs.forward + costs.backward);
  if (layer > kLongestLayer) {
    log::warning(
        "one layer on {} tokens takes about {}, too long to be measured in passing: costs are modelled; "
        "`lazytrain calibrate` measures them",
        options.slot_tokens, format_duration(layer));
    return modelled;
  }
  const CostTable costs = measure_costs(architecture, options);
  const std::filesystem::path path = cost_file(architecture, options);
  try {
    write_cost_table(path, costs);
  } catch (const Error& error) {
    log::warning("the measured costs are not kept: {}", error.what());
  }
  return costs;
}

}  // namespace lazytrain
