// Which compilation of the CPU kernels is in use. Every instruction set gives the same bits; only the speed
// differs.
#pragma once

#include "device/cpu/instruction_set.h"
#include "device/cpu/kernels_table.h"

namespace lazytrain::cpu {

// The kernels of instruction_set(), or of what select_kernels() has set since.
[[nodiscard]] const KernelTable& active_kernels();

// For tests: `set` is at most instruction_set(), and no kernel is running.
void select_kernels(InstructionSet set);

}  // namespace lazytrain::cpu
