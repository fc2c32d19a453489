// Machine: the hardware a plan is made for: capacities of the tiers, rates of the links between them, and how
// fast host cores run the optimizer. Measured, or given (an emulated machine's rates are given).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "core/units.h"

namespace lazytrain {

// How many tiers there are. `unified`: device and host are one tier, nothing is copied.
// `tiered`: device and host are apart (an accelerator, or its emulation on the CPU).
enum class TierModel : std::uint8_t { unified, tiered };
[[nodiscard]] const char* to_string(TierModel model);

// Slower links, disks and processors are mistakes, and make times that no number holds; in the unit of their
// key.
inline constexpr double kLeastRate = 1e-6;

struct Machine {
  std::string name = "this machine";
  TierModel tiers = TierModel::tiered;
  bool emulated = false;  // said in every print-out
  Bytes device_capacity;  // unified: the one budget
  Bytes host_capacity;    // unified: 0
  // Of the host, what may be locked in memory ("pinned"), as everything that a link reads or writes has to
  // be; empty = all of it.
  std::optional<Bytes> pinned_capacity = {};
  // Of the file system that keeps optimizer states and gradients between uses; 0 = there is none to use.
  Bytes disk_capacity = {};
  double disk_read = 0, disk_write = 0;  // GB/s, measured or given; above 0 where there is a disk
  double disk_duplex = 0;                // GB/s of both together; 0 = no joint cap
  // GB/s of host memory that copies, disk transfers and updates share; 0 = never the limit. Given in machine
  // files, not measured; on emulated machines the cores are shared instead.
  double host_memory = 0;
  // GB/s; 0 = not limited by the link (an unpaced emulation copies at memory speed, see CostTable).
  double h2d = 0, d2h = 0, duplex = 0;
  // What matrix products sustain on the device (TFLOP/s, bf16), and its memory's GB/s; 0 = not known. Only
  // modelled costs need them.
  double tflops = 0, device_memory = 0;
  double optimizer_rate = 0;  // parameters per second of UpdateLayer, 0 = as measured in the CostTable
  int compute_threads = 1, host_threads = 1;
  bool split_cores = false;
};

nlohmann::json to_json(const Machine& machine);
// Throws Error(usage) naming a missing, negative or absurd entry; `where` is the file in the message.
Machine machine_from_json(const nlohmann::json& json, const std::string& where);

// A machine file from which a step can be planned without the machine: the rates that modelled costs need,
// and those of links and disk where it has them, must be above 0. Throws Error(usage) naming the key.
Machine read_machine(const std::filesystem::path& path);

}  // namespace lazytrain
