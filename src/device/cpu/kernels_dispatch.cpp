#include "device/cpu/kernels_dispatch.h"

#include <atomic>

#include "core/error.h"

namespace lazytrain {

// One per compilation of src/device/cpu/isa.
namespace isa_baseline {
extern const cpu::KernelTable kKernels;
}
#ifdef LAZYTRAIN_X86
namespace isa_avx2 {
extern const cpu::KernelTable kKernels;
}
namespace isa_avx512 {
extern const cpu::KernelTable kKernels;
}
#endif

namespace cpu {
namespace {

const KernelTable* table_of(InstructionSet set) {
#ifdef LAZYTRAIN_X86
  // bf16 instructions serve matrix products only: their roundings are not those of the kernels.
  if (set >= InstructionSet::avx512) return &isa_avx512::kKernels;
  if (set == InstructionSet::avx2) return &isa_avx2::kKernels;
#else
  (void)set;
#endif
  return &isa_baseline::kKernels;
}

std::atomic<const KernelTable*>& selection() {
  static std::atomic<const KernelTable*> table{table_of(instruction_set())};
  return table;
}

}  // namespace

const KernelTable& active_kernels() {
  return *selection().load(std::memory_order_relaxed);
}

void select_kernels(InstructionSet set) {
  check(set <= instruction_set(), "the processor has the instruction set");
  selection().store(table_of(set), std::memory_order_relaxed);
}

}  // namespace cpu
}  // namespace lazytrain
