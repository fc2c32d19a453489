#include "device/cpu/instruction_set.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "device/cpu/cpu_device.h"

namespace lazytrain {
namespace cpu {
namespace {

InstructionSet of_processor() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return InstructionSet::avx512_bf16;
  if (avx512) return InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
#endif
  return InstructionSet::baseline;
}

InstructionSet asked_for(const std::string& name) {
  if (name == "avx512_bf16") return InstructionSet::avx512_bf16;
  if (name == "avx512") return InstructionSet::avx512;
  if (name == "avx2") return InstructionSet::avx2;
  if (name == "baseline") return InstructionSet::baseline;
  fail(ExitCode::usage, "LAZYTRAIN_ISA is '{}'; use avx512_bf16, avx512, avx2 or baseline, or leave it unset",
       name);
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet found = [] {
    const char* asked = std::getenv("LAZYTRAIN_ISA");
    return asked == nullptr || *asked == '\0' ? of_processor() : std::min(of_processor(), asked_for(asked));
  }();
  return found;
}

}  // namespace cpu

std::string cpu_instruction_set() {
  switch (cpu::instruction_set()) {
    case cpu::InstructionSet::avx512_bf16:
      return "AVX-512 bf16";
    case cpu::InstructionSet::avx512:
      return "AVX-512";
    case cpu::InstructionSet::avx2:
      return "AVX2";
    case cpu::InstructionSet::baseline:
      break;
  }
  return "baseline x86-64";
}

}  // namespace lazytrain
