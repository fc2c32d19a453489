// Which instructions the CPU backend may use: what the processor has, lowered by LAZYTRAIN_ISA.
#pragma once

#include <cstdint>

namespace lazytrain::cpu {

// In rising order, so that they compare.
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512, avx512_bf16 };

// Found once. avx2 means AVX2 with FMA; avx512 means F, BW, DQ and VL. Throws Error(usage) where
// LAZYTRAIN_ISA is none of avx512_bf16, avx512, avx2, baseline; asking for more than there is changes
// nothing.
InstructionSet instruction_set();

}  // namespace lazytrain::cpu
