// The CPU's implementations of the row kernels and of attention: called by the CPU device inside a stream,
// parallel over `pool`, chosen for the instruction set at run time. Same bits on every instruction set
// and for every number of threads.
#pragma once

#include "core/threads.h"
#include "device/operations.h"

namespace lazytrain::cpu {

void run(ThreadPool& pool, const BiasGradient& op);
void run(ThreadPool& pool, const RmsNormForward& op);
void run(ThreadPool& pool, const RmsNormBackward& op);
void run(ThreadPool& pool, const HeadNormForward& op);
void run(ThreadPool& pool, const HeadNormBackward& op);
void run(ThreadPool& pool, const Rope& op);
void run(ThreadPool& pool, const AttentionForward& op);
void run(ThreadPool& pool, const AttentionBackward& op);
void run(ThreadPool& pool, const AttentionDecode& op);
void run(ThreadPool& pool, const CacheFill& op);
void run(ThreadPool& pool, const SwigluForward& op);
void run(ThreadPool& pool, const SwigluBackward& op);
void run(ThreadPool& pool, const SoftmaxScores& op);
void run(ThreadPool& pool, const CrossEntropyLoss& op);
void run(ThreadPool& pool, const CrossEntropyGradient& op);
void run(ThreadPool& pool, const ArgMax& op);
void run(ThreadPool& pool, const GatherRows& op);
void run(ThreadPool& pool, const ScatterRows& op);
void run(ThreadPool& pool, const Round& op);
void run(ThreadPool& pool, const Add& op);
void run(ThreadPool& pool, const OffloadGradient& op);

}  // namespace lazytrain::cpu
