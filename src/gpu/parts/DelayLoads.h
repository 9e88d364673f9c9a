// Weights and biases are often loaded beside the row that they are multiplied with, before the reductions of a norm, and live across these:
//
//   x = load row; w = load weights; b = load biases; m = sum(x); ...; store (x - m) * r * w + b      three rows in registers
//   x = load row; m = sum(x); ...; w = load weights; b = load biases; store (x - m) * r * w + b      one
//
// Where the rows have too few registers together, loads of what the kernel never writes move behind the last reduction that their users stand behind. They are waited for there, which takes less
// time than spills: every program loads the same weights, so that they come from the L2 cache.
#pragma once
#include "gpu/TargetInfo.h"
#include <memory>

namespace tegula::gpu {

/// Of tile IR, kernels without loops, atomics and assembly. Null: nothing can be delayed.
std::unique_ptr<ir::Module> delayedLoads(const ir::Module &module, unsigned threads);
/// Null: nothing is to be delayed, as there are registers enough.
std::unique_ptr<ir::Module> delayLoads(const ir::Module &module, const TargetInfo &target, const Options &options);

} // namespace tegula::gpu
