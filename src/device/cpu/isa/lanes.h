// The lanes of the instruction set this source is being compiled for. cmake/DeviceKernels.cmake compiles each
// source of this folder once per set and defines LAZYTRAIN_ISA as the namespace it goes into.
//
// Sources here include nothing that leaves out-of-line copies of shared inline functions behind (no standard
// library): the linker would keep one copy for all processors, perhaps the one with AVX-512.
#pragma once

#if defined(__AVX512F__)
#include "device/cpu/isa/lanes_avx512.h"
#elif defined(__AVX2__)
#include "device/cpu/isa/lanes_avx2.h"
#else
#include "device/kernels/array_lanes.h"
namespace lazytrain::LAZYTRAIN_ISA {
using FloatLanes = kernels::ArrayLanes<float>;
}
#endif
