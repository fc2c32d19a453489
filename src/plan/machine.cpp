#include "plan/machine.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "formats/json.h"
#include "formats/text_checks.h"
#include "plan/json_fields.h"

namespace lazytrain {

const char* to_string(TierModel model) {
  return model == TierModel::unified ? "unified" : "tiered";
}

nlohmann::json to_json(const Machine& machine) {
  nlohmann::json json = {{"name", machine.name},
                         {"tiers", to_string(machine.tiers)},
                         {"emulated", machine.emulated},
                         {"device_capacity", machine.device_capacity.value},
                         {"host_capacity", machine.host_capacity.value},
                         {"disk_capacity", machine.disk_capacity.value},
                         {"disk_read_gbps", machine.disk_read},
                         {"disk_write_gbps", machine.disk_write},
                         {"disk_duplex_gbps", machine.disk_duplex},
                         {"host_memory_gbps", machine.host_memory},
                         {"h2d_gbps", machine.h2d},
                         {"d2h_gbps", machine.d2h},
                         {"duplex_gbps", machine.duplex},
                         {"tflops", machine.tflops},
                         {"device_memory_gbps", machine.device_memory},
                         {"optimizer_parameters_per_s", machine.optimizer_rate},
                         {"compute_threads", machine.compute_threads},
                         {"host_threads", machine.host_threads},
                         {"split_cores", machine.split_cores}};
  if (machine.pinned_capacity) json["pinned_capacity"] = machine.pinned_capacity->value;
  return json;
}

namespace {

// Every key that to_json() writes; a misspelt one that may be left out would be lost without a word.
void refuse_unknown_keys(const nlohmann::json& json, const std::string& where) {
  nlohmann::json known = to_json(Machine{});
  known["pinned_capacity"] = 0;
  std::string list;
  for (const auto& item : known.items()) list += (list.empty() ? "" : ", ") + item.key();
  for (const auto& item : json.items())
    if (!known.contains(item.key()))
      fail(ExitCode::usage, "{}: the key {} is not known; remove it (known: {})", where,
           in_quotes(item.key()), list);
}

}  // namespace

Machine machine_from_json(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where, ExitCode::usage);
  refuse_unknown_keys(json, where);
  const auto bytes = [&](const char* key, std::int64_t lowest, std::int64_t highest) -> Bytes {
    if (!fields.at(key).is_string()) return {fields.integer(key, lowest, highest)};
    const Bytes size = parse_bytes(fields.text(key), where + ": " + key);
    if (size.value < lowest || size.value > highest)
      fail(ExitCode::usage, "{}: '{}' is {}; it must lie between {} and {} bytes", where, key,
           fields.text(key), lowest, highest);
    return size;
  };
  const auto rate = [&](const char* key, double highest) {
    const double value = fields.number(key, 0, highest);
    if (value > 0 && value < kLeastRate)
      fail(ExitCode::usage, "{}: '{}' is {}; give at least {}, or 0 where it is not known", where, key, value,
           kLeastRate);
    return value;
  };
  Machine machine;
  machine.name = printable_line(fields.text("name")).substr(0, 200);
  const std::string tiers = fields.text("tiers");
  if (tiers != "unified" && tiers != "tiered")
    fail(ExitCode::usage, "{}: tiers is '{}'; use unified or tiered", where, tiers);
  machine.tiers = tiers == "unified" ? TierModel::unified : TierModel::tiered;
  machine.emulated = fields.boolean("emulated", false);
  machine.device_capacity = bytes("device_capacity", 1, std::int64_t{1} << 50);
  machine.host_capacity = bytes("host_capacity", 0, std::int64_t{1} << 50);
  if (json.contains("pinned_capacity"))
    machine.pinned_capacity = bytes("pinned_capacity", 1, std::int64_t{1} << 50);
  machine.disk_capacity = bytes("disk_capacity", 0, std::int64_t{1} << 60);
  machine.disk_read = rate("disk_read_gbps", 1e5);
  machine.disk_write = rate("disk_write_gbps", 1e5);
  machine.disk_duplex = rate("disk_duplex_gbps", 2e5);
  machine.host_memory = rate("host_memory_gbps", 1e6);
  machine.h2d = rate("h2d_gbps", 1e5);
  machine.d2h = rate("d2h_gbps", 1e5);
  machine.duplex = rate("duplex_gbps", 2e5);
  machine.tflops = rate("tflops", 1e5);
  machine.device_memory = rate("device_memory_gbps", 1e6);
  machine.optimizer_rate = rate("optimizer_parameters_per_s", 1e15);
  machine.compute_threads = static_cast<int>(fields.integer("compute_threads", 1, 4096));
  machine.host_threads = static_cast<int>(fields.integer("host_threads", 1, 4096));
  machine.split_cores = fields.boolean("split_cores", false);
  return machine;
}

Machine read_machine(const std::filesystem::path& path) {
  const std::string where = path.string();
  Machine machine = machine_from_json(read_unique_json(path, ExitCode::usage), where);
  const auto require = [&](double rate, const char* key, const char* why) {
    if (rate > 0) return;
    fail(ExitCode::usage, "{}: '{}' is 0; {} needs a rate: it must be above 0", where, key, why);
  };
  require(machine.tflops, "tflops", "a modelled step");
  require(machine.device_memory, "device_memory_gbps", "a modelled step");
  if (machine.tiers == TierModel::tiered) {
    require(machine.h2d, "h2d_gbps", "a machine with a device of its own");
    require(machine.d2h, "d2h_gbps", "a machine with a device of its own");
  }
  if (machine.disk_capacity.value > 0) {
    require(machine.disk_read, "disk_read_gbps", "a machine with a disk");
    require(machine.disk_write, "disk_write_gbps", "a machine with a disk");
  }
  return machine;
}

}  // namespace lazytrain
