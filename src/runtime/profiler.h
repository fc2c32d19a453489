// The profiler measures what the operations of a Program cost on this machine, for one model: it calls the
// real layers, copies and updates through a Device with the threads and cores that the run will use, and
// fills a CostTable. Planning and simulation read nothing else, so a simulated time never comes from the run
// that it predicts.
//
// Every operation is timed inside its stream, in rounds that go through all of them, so that caches are as
// cold as in a step; the table holds the mean of the middle half of the rounds. Measured tables are kept as
// files, one for each combination of sizes, types, threads and processor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "device/cpu/cpu_device.h"
#include "model/architecture.h"
#include "plan/cost_table.h"

namespace lazytrain {

struct ProfileOptions {
  DataType type = DataType::bf16;
  // As the run will have it. Capacity and rates of an emulated device are left aside: the profiler takes the
  // memory it needs, and copies are timed at memory speed.
  CpuDeviceOptions device = {};
  std::int64_t slot_tokens = 512;
  std::int64_t micro_batch = 1;  // slots of one timed layer call
  bool quick = false;            // fewer rounds, and the head on a part of the vocabulary
};

// Bytes that measure_costs() takes while it runs.
Bytes profile_memory(const Architecture& architecture, const ProfileOptions& options);

// A table with source "measured". Takes some seconds; gives its memory back. Throws Error(device) where the
// system does not give the memory.
CostTable measure_costs(const Architecture& architecture, const ProfileOptions& options);

// Where tables are kept: $XDG_CACHE_HOME/lazytrain or ~/.cache/lazytrain, and the file there of this model on
// this processor with these options. `quick` tables have files of their own.
std::filesystem::path cost_folder();
std::filesystem::path cost_file(const Architecture& architecture, const ProfileOptions& options);

CostTable read_cost_table(const std::filesystem::path& path);
void write_cost_table(const std::filesystem::path& path, const CostTable& costs);

// The table of `given` (a file that the user named; refused where it is for another slot length), else the
// one kept by an earlier run, else measured now and kept. Where memory is too short to measure, the table is
// modelled from a measured GEMM rate, and says so.
CostTable load_or_measure(const Architecture& architecture, const ProfileOptions& options,
                          const std::optional<std::filesystem::path>& given = {});

// The table as lines of text, with rates where they say something.
std::string costs_table(const CostTable& costs, const Architecture& architecture);

// "AMD EPYC 9R14": the processor's own name.
std::string processor_name();

}  // namespace lazytrain
