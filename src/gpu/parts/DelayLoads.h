// Sinks loads below reductions. Weights and biases are often loaded next to the row that they are multiplied with,
// before the reductions of a norm, and are live across these:
//
//   x = load row; w = load weights; b = load biases; m = sum(x); ...; store (x - m) * r * w + b      three rows in registers
//   x = load row; m = sum(x); ...; w = load weights; y = (x - m) * r * w; b = load biases; store y + b      two, and one across the reductions
//
// Where there are too few registers for all rows, loads of memory that the kernel never writes move from before a
// reduction to just before their first user after it. Each load moves separately: right after the reduction all of them
// would be live at once (layer norm of 131072 floats, 16 warps, a cluster of eight: 126 registers, now 64; of 32768, 32
// warps: 204 bytes spilled, now none). Waiting for them there takes less time than spills: every program loads the same
// weights, which therefore come from the L2 cache. The assembler hoists them where it has registers.
#pragma once
#include "gpu/TargetInfo.h"
#include <memory>

namespace tegula::gpu {

/// For tile IR of kernels without loops, atomics and assembly. `threads`: the threads of a program. Null if no load can
/// be delayed.
std::unique_ptr<ir::Module> delayedLoads(const ir::Module &module, unsigned threads);
/// The inverse: hoists loads of memory that the kernel never writes above its first reduction, for rows in shared
/// memory (StageRows.h). For the same kernels; null if no load moves.
std::unique_ptr<ir::Module> advancedLoads(const ir::Module &module, unsigned threads);
/// delayedLoads() if the rows need more registers than a thread has. Null if there are enough registers, or if no load
/// can be delayed.
std::unique_ptr<ir::Module> delayLoads(const ir::Module &module, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
