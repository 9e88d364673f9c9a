// Weights and biases are often loaded beside the row that they are multiplied with, before the reductions of a norm,
// and live across these:
//
//   x = load row; w = load weights; b = load biases; m = sum(x); ...; store (x - m) * r * w + b      three rows in registers
//   x = load row; m = sum(x); ...; w = load weights; y = (x - m) * r * w; b = load biases; store y + b      two, and one across the reductions
//
// Where the rows have too few registers together, loads of what the kernel never writes move from before a reduction to
// before their first user after it, each for itself: right after the reduction all of them would be there at once
// (layer norm of 131072 floats, 16 warps, a cluster of eight: 126 registers, now 64; of 32768, 32 warps: 204 bytes
// spilled, now none). They are waited for there, which takes less time than spills: every program loads the same
// weights, so that they come from the L2 cache. The assembler brings them forward where it has registers.
#pragma once
#include "gpu/TargetInfo.h"
#include <memory>

namespace tegula::gpu {

/// Of tile IR, kernels without loops, atomics and assembly. Null: nothing can be delayed.
std::unique_ptr<ir::Module> delayedLoads(const ir::Module &module, unsigned threads);
/// The other way: what the kernel never writes is loaded before its first reduction, where shared memory holds it
/// (StageRows.h). Of the same kernels; null: it is there already.
std::unique_ptr<ir::Module> advancedLoads(const ir::Module &module, unsigned threads);
/// Null: nothing is to be delayed, as there are registers enough.
std::unique_ptr<ir::Module> delayLoads(const ir::Module &module, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
