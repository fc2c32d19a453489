// The three matrix products of a linear layer, cut into tiles that a thread pool works off.
//
// A tile's shape follows from slot_rows and the layer's sizes alone, and each element is one
// single-threaded product's: neither the number of threads nor the number of slots in a call changes a bit.
#pragma once

#include "core/threads.h"
#include "device/cpu/gemm.h"
#include "device/operations.h"

namespace lazytrain::cpu {

void run(ThreadPool& pool, GemmCache& gemms, const LinearForward& op);
void run(ThreadPool& pool, GemmCache& gemms, const LinearInputGradient& op);
void run(ThreadPool& pool, GemmCache& gemms, const LinearWeightGradient& op);

// Compiles the products that `op` would run.
void prepare(GemmCache& gemms, const LinearForward& op);
void prepare(GemmCache& gemms, const LinearInputGradient& op);
void prepare(GemmCache& gemms, const LinearWeightGradient& op);

}  // namespace lazytrain::cpu
